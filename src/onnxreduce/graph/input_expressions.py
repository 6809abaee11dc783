"""The little language of `--input NAME=EXPR` and `--dim NAME=N`, read with regular expressions and literals only."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxreduce.errors import BadInputError

Number = int | float

ACCEPTED = "uniform(lo,hi), normal(mean,std), arange(a,b), full(v), zeros, ones or FILE.npy"

_CALL = re.compile(r"(?P<function>[a-z]+)\s*(\((?P<arguments>.*)\))?", re.DOTALL)
_ARGUMENTS = {"uniform": 2, "normal": 2, "arange": 2, "zeros": 0, "ones": 0}
_WORDS: dict[str, Number | bool] = {
    "nan": float("nan"),
    "inf": float("inf"),
    "+inf": float("inf"),
    "-inf": float("-inf"),
    "true": True,
    "false": False,
}


@dataclass(frozen=True)
class Expression:
    """How to make one input: `function` is one of those in `ACCEPTED`, or `file` with the `.npy` file in `path`.

    `arguments` are two numbers for uniform, normal and arange, one number, bool or string for full.
    """

    text: str
    function: str
    arguments: tuple[Number | bool | str, ...] = ()
    path: Path | None = None


def parse_expression(text: str) -> Expression:
    """Read one expression; raises BadInputError that says what is accepted."""
    text = text.strip()
    if text.endswith(".npy"):
        return Expression(text, "file", path=Path(text))
    match = _CALL.fullmatch(text)
    function = match["function"] if match else ""
    arguments = (match["arguments"] or "").strip() if match else ""
    if match and function == "full" and arguments:
        return Expression(text, function, (_literal(arguments, text),))
    if match and function in _ARGUMENTS:
        parts = [part.strip() for part in arguments.split(",")] if arguments else []
        if len(parts) == _ARGUMENTS[function]:
            return Expression(text, function, tuple(_number(part, text) for part in parts))
    raise BadInputError(f"cannot read the input expression {text!r}; accepted are {ACCEPTED}")


def parse_assignments(texts: Sequence[str], option: str, known: Collection[str] = ()) -> dict[str, str]:
    """Split `NAME=VALUE` texts; a name with `=` in it is understood when it is in `known`.

    Raises BadInputError for a text without `=` and for a name that comes twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        for candidate in sorted(known, key=len, reverse=True):
            if text.startswith(f"{candidate}="):
                name, value = candidate, text[len(candidate) + 1 :]
                break
        if not equals or not name or not value:
            raise BadInputError(f"{option} {text!r} is not of the form NAME=VALUE")
        if name in found:
            raise BadInputError(f"{option} {name!r} is given twice")
        found[name] = value
    return found


def parse_dims(texts: Sequence[str]) -> dict[str, int]:
    """Read `NAME=N` and `INPUT:AXIS=N` texts; raises BadInputError unless each N is a whole number of 0 or more."""
    found = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        if not equals or not name or not re.fullmatch(r"\d{1,10}", size.strip()):
            raise BadInputError(f"--dim {text!r} is not of the form NAME=N or INPUT:AXIS=N with a whole number N")
        if name in found:
            raise BadInputError(f"--dim {name!r} is given twice")
        found[name] = int(size)
    return found


def _number(text: str, whole: str) -> Number:
    value = _literal(text, whole)
    if isinstance(value, (bool, str)):
        raise BadInputError(f"{text!r} in the input expression {whole!r} is not a number")
    return value


def _literal(text: str, whole: str) -> Number | bool | str:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text) if len(text) <= 10_000 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, (bool, int, float, str)):
        return value
    raise BadInputError(f"{text!r} in the input expression {whole!r} is not a number, true, false or a quoted string")
