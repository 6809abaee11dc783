"""A model that fails under Python's onnxruntime as a unit test, beside the builder script and the expected outputs."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from onnxreduce.emit.literals import numpy_native, quoted
from onnxreduce.emit.report.contents import title
from onnxreduce.emit.report.facts import Facts, Json, options
from onnxreduce.emit.report.markdown import visible
from onnxreduce.emit.report.operator_test import NotExpressibleError
from onnxreduce.emit.report.templates import rendered

_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
_OWN = ("level", "threads", "disabled_optimizers", "memory")
RELATIVE, ABSOLUTE = 1e-3, 1e-6
"""Where the run compared nothing, because the model failed with an error."""


def python_test(facts: Facts) -> str:
    """The file's text. Raises NotExpressibleError."""
    if "library" in options(facts.suspect):
        raise NotExpressibleError("a plugin provider must be registered first, which this form does not do")
    values = [*facts.inputs.values(), *facts.expected.values()]
    for tensor in values:
        if not (numpy_native(tensor.elem_type) or tensor.elem_type == TensorProto.STRING):
            raise NotExpressibleError(f"numpy has no arrays of type {tensor.dtype_name}")
    if missing := [value.name for value in facts.model.graph.output if value.name not in facts.expected]:
        raise NotExpressibleError(f"there is no expected value for output {missing[0]}")
    sides = [_side("suspect", facts.suspect)]
    if _same_runtime(facts):
        sides.append(_side("reference", facts.reference))
    text = rendered(
        "test_repro.py.jinja",
        title=_line(title(facts)),
        remarks=[_line(line) for line in _remarks(facts, len(sides) > 1)],
        arguments="level, providers, threads=0, disabled=()",
        absolute=repr(absolute(facts)),
        relative=_shares_text(facts),
        sides=sides,
    )
    return text.rstrip() + "\n"


def shares(facts: Facts) -> dict[str, float]:
    """By numpy's name of the dtype, the tolerance that floating-point outputs were judged by."""
    judged = {each["output"]: each.get("share") for each in facts.summary.get("outputs", [])}
    return {
        tensor.array.dtype.name: float(judged.get(name) or RELATIVE)
        for name, tensor in facts.expected.items()
        if tensor.array.dtype.kind == "f"
    }


def absolute(facts: Facts) -> float:
    """The absolute tolerance."""
    return float(facts.summary.get("oracle_record", {}).get("tolerance", {}).get("absolute", ABSOLUTE))


def _shares_text(facts: Facts) -> str:
    return "{" + ", ".join(f'"{name}": {share!r}' for name, share in shares(facts).items()) + "}"


def _remarks(facts: Facts, both: bool) -> list[str]:
    suspect = facts.suspect
    lines = [f"test_suspect fails under onnxruntime {suspect.get('version')} ({suspect.get('target')})."]
    if both:
        lines.append(f"test_reference passes ({facts.reference.get('target')}).")
    return lines


def _same_runtime(facts: Facts) -> bool:
    """Whether one installation runs both sides."""
    same = all(facts.reference.get(key) == facts.suspect.get(key) for key in ("runtime", "version"))
    return same and "library" not in options(facts.reference)


def _side(name: str, target: Json) -> dict[str, str]:
    given = options(target)
    provider, own = str(target.get("provider", "CPUExecutionProvider")), ["CPUExecutionProvider"]
    settings = {key: value for key, value in given.items() if key not in _OWN}
    chosen: list[Any] = own if provider in own else [(provider, settings) if settings else provider, *own]
    parts = [f'"{_LEVELS.get(given.get("level", "all"), "ORT_ENABLE_ALL")}"', repr(chosen).replace("'", '"')]
    if given.get("threads", "0") != "0":
        parts.append(f"threads={int(given['threads'])}")
    if disabled := [each for each in given.get("disabled_optimizers", "").replace(";", ",").split(",") if each]:
        parts.append(f"disabled=[{', '.join(map(quoted, disabled))}]")
    return {"name": name, "call": ", ".join(parts)}


def _line(text: str) -> str:
    """A line that cannot end the docstring around it."""
    return visible(text, 500).replace("\\", "\\\\").replace('"""', "'''")
