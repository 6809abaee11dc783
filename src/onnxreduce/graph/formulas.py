"""Arrays as code: the shortest exact expression in numpy for the content of a tensor, where there is one.

Every expression is checked bit for bit before it is returned, so that a script which holds code instead of data builds
the very same model.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnxreduce.graph.tensors import StoredTensor

LITERAL_UP_TO = 256
"""Elements beyond which the text of values is estimated, not made."""
SPARSE_UP_TO = 8
"""Most elements that may differ from a fill in an expression."""
CLOSE = 1e-4
"""Relative distance to a series up to which `nearest_series` proposes it."""


@dataclass(frozen=True)
class Formula:
    """`code` is an expression over `np` (float64 or int64 arithmetic, cast at the end); `cost` ranks simplicity."""

    code: str
    cost: int


def formula(tensor: StoredTensor) -> Formula | None:
    """The plainest expression that gives exactly this tensor; None when its values follow no known rule."""
    if tensor.code is not None:
        return Formula(tensor.code, 6)
    array = tensor.array
    if array.dtype.kind not in "biuf" or array.size == 0:
        return None
    for make in (_fill, _counting, _series, _pattern, _sparse):
        for found in make(array):
            with contextlib.suppress(OverflowError):  # integers near the ends of int64 count past them
                if same_bits(evaluate(found.code), array):
                    return found
    return None


def description_cost(tensor: StoredTensor) -> int:
    """How much a reader must take in to know the values: 1 for a fill, up to the number of elements."""
    if tensor.size <= 1:
        return tensor.size
    found = formula(tensor)
    return min(found.cost, tensor.size) if found else tensor.size


def literal_length(tensor: StoredTensor) -> int:
    """Characters that a script needs for the values: those of the formula, or of each value."""
    found = formula(tensor)
    if found is not None:
        return len(found.code) + (_magnitude(tensor.array.ravel()[0]) if tensor.size == 1 else 0)
    if tensor.size > LITERAL_UP_TO:
        return 12 * tensor.size
    return sum(len(str(value)) + 2 for value in tensor.array.ravel().tolist())


def _magnitude(value: np.generic) -> int:
    """Of single numbers, 0 and 1 come before 2 and so on, and fractions last."""
    wide = float(value)
    return int(min(max(abs(wide), 1), 9)) if math.isfinite(wide) and wide == int(wide) else 9


def nearest_series(array: np.ndarray) -> np.ndarray | None:
    """The geometric or arithmetic series that a one-dimensional float pattern comes closest to, within `CLOSE`."""
    if array.dtype.kind != "f" or array.size < 3:
        return None
    flat = array.ravel().astype(np.float64)
    for found in _series(array, exact=False):
        values = evaluate(found.code)
        if np.allclose(values.ravel().astype(np.float64), flat, rtol=CLOSE, atol=0):
            return values
    return None


def seeded(shape: tuple[int, ...], low: float, high: float, dtype: np.dtype, seed: int = 0) -> StoredTensor:
    """Uniform values with the code that makes them. numpy keeps the stream of `RandomState` as it is for good."""
    if dtype.kind in "iu":
        code = f"np.random.RandomState({seed}).randint({int(low)}, {int(high) + 1}, {shape!r}).astype(np.{dtype.name})"
    else:
        code = f"np.random.RandomState({seed}).uniform({low:g}, {high:g}, {shape!r}).astype(np.{dtype.name})"
    stored = StoredTensor.from_array(evaluate(code))
    return StoredTensor(stored.elem_type, stored.shape, stored.blob, code)


def evaluate(code: str) -> np.ndarray:
    """The value of an expression that this module wrote (never of text from a model)."""
    value = eval(code, {"np": np, "__builtins__": {}})
    return np.asarray(value)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal in dtype, shape and every bit (so that -0.0 is not 0.0)."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def _fill(array: np.ndarray) -> Iterator[Formula]:
    first = array.ravel()[0]
    shape, dtype = _shape(array), f"np.{_dtype(array)}"
    if array.ndim == 0:
        yield Formula(f"np.array({_number(first)}, {dtype})", 1)
    elif not first and not np.signbit(float(first)):
        yield Formula(f"np.zeros({shape}, {dtype})", 1)
    elif first == 1:
        yield Formula(f"np.ones({shape}, {dtype})", 1)
    else:
        yield Formula(f"np.full({shape}, {_number(first)}, {dtype})", 2)


def _counting(array: np.ndarray) -> Iterator[Formula]:
    flat = array.ravel()
    if flat.size < 2 or array.dtype.kind == "b":
        return
    start, step = float(flat[0]), float(flat[1]) - float(flat[0])
    if not (math.isfinite(start) and start == int(start) and math.isfinite(step) and step and step == int(step)):
        return
    first, by, stop = int(start), int(step), int(start) + int(step) * flat.size
    parts = [str(stop)] if (first, by) == (0, 1) else [str(first), str(stop)] + ([str(by)] if by != 1 else [])
    yield Formula(_cast(f"np.arange({', '.join(parts)})", array), 2 if by == 1 else 3)


def _series(array: np.ndarray, exact: bool = True) -> Iterator[Formula]:
    flat = array.ravel().astype(np.float64)
    n = flat.size
    if array.dtype.kind != "f" or n < 3 or not np.isfinite(flat).all():
        return
    if (flat > 0).all():
        ratio = (flat[-1] / flat[0]) ** (1 / (n - 1))
        if ratio != 1 and np.allclose(flat, flat[0] * ratio ** np.arange(n), rtol=CLOSE, atol=0):
            for base, text in _bases(ratio, n):
                scale = "" if abs(flat[0] - 1) < CLOSE else f"{_plain(flat[0])} * "
                yield Formula(_cast(f"{scale}{base} ** {text}", array), 4)
    step = (flat[-1] - flat[0]) / (n - 1)
    if step and np.allclose(flat, flat[0] + step * np.arange(n), rtol=CLOSE, atol=abs(step) * CLOSE):
        yield Formula(_cast(f"np.linspace({_plain(flat[0])}, {_plain(flat[-1])}, {n})", array), 4)


def _bases(ratio: float, n: int) -> Iterator[tuple[str, str]]:
    """A ratio as a round base with a fraction of n, as rotary embeddings have it, else as it is."""
    whole = ratio**n
    inverse = 1 / whole
    for value, sign in ((whole, ""), (inverse, "-")):
        if value > 1 and abs(value - round(value, -1)) <= CLOSE * value * 10 and round(value, -1) >= 10:
            yield f"{round(value, -1):.1f}", f"({sign}np.arange({n}) / {n})"
    yield _plain(ratio), f"np.arange({n})"


def _pattern(array: np.ndarray) -> Iterator[Formula]:
    if array.ndim < 2 or array.dtype.kind not in "biuf":
        return
    rows, columns = array.shape[-2:]
    last = array.reshape(-1, rows, columns)
    if not (last == last[:1]).all():
        return
    matrix = last[0]
    high = matrix.ravel()[np.argmax(np.abs(matrix.astype(np.float64)))]
    scale = "" if high == 1 else f"{_number(high)} * "
    lead = array.shape[:-2]
    for text, made in (
        (f"np.eye({rows}, {columns})", np.eye(rows, columns)),
        (f"np.tri({rows}, {columns})", np.tri(rows, columns)),
        (f"np.tri({columns}, {rows}).T", np.tri(columns, rows).T),
        (f"(1 - np.tri({rows}, {columns}))", 1 - np.tri(rows, columns)),
    ):
        if np.array_equal(matrix.astype(np.float64), made * float(high)):
            code = f"({scale}{text}).astype(np.{_dtype(array)})" if scale else f"{text}.astype(np.{_dtype(array)})"
            if lead:
                code = f"np.tile({code}, {(*lead, 1, 1)!r})"
            yield Formula(code, 4)


def _sparse(array: np.ndarray) -> Iterator[Formula]:
    """A few elements that differ from 0, or else from 1."""
    flat = array.ravel()
    if array.dtype.kind not in "biuf" or flat.size < 3 or not np.isfinite(flat).all():
        return
    for fill in (0, 1):
        at = np.flatnonzero(flat != fill)
        if not 0 < len(at) <= min(SPARSE_UP_TO, flat.size // 2):
            continue
        cost = 2 + 2 * len(at)
        if len(at) == 1 and fill == 0:
            one = f"(np.arange({flat.size}) == {at[0]})"
            yield Formula(_cast(one if flat[at[0]] == 1 else f"{_number(flat[at[0]])} * {one}", array), cost)
            continue
        by = [
            float(str(value)) - fill
            for value in flat[at].astype(np.float64 if array.dtype.kind == "b" else array.dtype)
        ]
        values = "" if set(by) == {1.0} else f", [{', '.join(f'{value:.9g}' for value in by)}]"
        code = f"np.bincount([{', '.join(map(str, at))}]{values}, minlength={flat.size})"
        yield Formula(_cast(f"1 + {code}" if fill else code, array), cost)


def _cast(code: str, array: np.ndarray) -> str:
    dtype = _dtype(array)
    if code.startswith("np.arange(") and code.count("(") == 1:
        text = f"{code[:-1]}, dtype=np.{dtype})"
    else:
        text = f"{code}.astype(np.{dtype})" if code.startswith(("np.", "(")) else f"({code}).astype(np.{dtype})"
    return text if array.ndim == 1 else f"{text}.reshape({', '.join(map(str, array.shape))})"


def _dtype(array: np.ndarray) -> str:
    return "bool_" if array.dtype.kind == "b" else array.dtype.name


def _shape(array: np.ndarray) -> str:
    return str(array.shape[0]) if array.ndim == 1 else repr(tuple(array.shape))


def _number(value: np.generic) -> str:
    if value.dtype.kind == "b":
        return repr(bool(value))
    if value.dtype.kind in "iu":
        return repr(int(value))
    number = float(value)
    if not math.isfinite(number):
        return {math.inf: "np.inf", -math.inf: "-np.inf"}.get(number, "np.nan")
    return str(value) if value.dtype.itemsize < 8 else repr(number)


def _plain(value: float) -> str:
    short = float(f"{value:.6g}")
    return repr(short if abs(short - value) <= abs(value) * 1e-6 else float(value))
