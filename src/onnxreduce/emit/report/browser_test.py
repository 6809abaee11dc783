"""A model that fails in a browser as a test in the form of onnxruntime's `js/web/test/e2e/browser-test-*.js`."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

import numpy as np

from onnxreduce.emit.report.contents import expected_of, nodes, title
from onnxreduce.emit.report.facts import Facts, options
from onnxreduce.emit.report.markdown import visible
from onnxreduce.emit.report.operator_test import MOST_ELEMENTS, NotExpressibleError
from onnxreduce.emit.report.python_test import absolute, shares
from onnxreduce.graph.tensors import StoredTensor

_TYPES = {"float": "float32", "double": "float64"}
_SAME = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string")
_SCRIPTS = {"default": "ort.min.js"}
_OWN = ("bundle", "adapter", "threads", "level", "disabled_optimizers")
_MASK = 1e9


def browser_test(facts: Facts) -> str:
    """The file's text. Raises NotExpressibleError."""
    if facts.model.graph.ByteSize() and facts.has("reduced.onnx.data"):
        raise NotExpressibleError("its weights lie in a file of their own")
    if missing := [value.name for value in facts.model.graph.output if value.name not in facts.expected]:
        raise NotExpressibleError(f"there is no expected value for output {missing[0]}")
    total = sum(tensor.size for tensor in [*facts.inputs.values(), *facts.expected.values()])
    if total > MOST_ELEMENTS:
        raise NotExpressibleError(
            f"its tensors hold {total} elements, more than the {MOST_ELEMENTS} that go into a text"
        )
    case = {
        "name": title(facts),
        "options": _options(facts),
        "inputs": [{"name": name, **_tensor(tensor)} for name, tensor in facts.inputs.items()],
        "outputs": [
            {"name": name, **_tensor(tensor), "allowed": _allowed(facts, tensor)}
            for name, tensor in facts.expected.items()
        ],
    }
    code = (resources.files(__package__) / "templates" / "browser_test.js").read_text("utf-8")
    remarks = "\n".join(f"// {visible(line, 500)}" for line in _remarks(facts))
    return code.replace("//@@REMARKS@@", remarks).replace("__CASE__", json.dumps(case, indent=2, allow_nan=False), 1)


def _remarks(facts: Facts) -> list[str]:
    bundle = options(facts.suspect).get("bundle", "default")
    script = _SCRIPTS.get(bundle, f"ort.{bundle}.min.js")
    return [
        f"Reduced by onnxreduce from {nodes(facts.summary['nodes_before'])} to {facts.summary['nodes_after']}.",
        f"It fails under {facts.summary.get('runtime', '')}: the page takes {script}.",
        f"It is right under {facts.summary.get('reference', '')}.",
        f"The expected outputs are those of {expected_of(facts)}.",
    ]


def _options(facts: Facts) -> dict[str, Any]:
    """Session options as the oracle's target has them."""
    given, name = options(facts.suspect), str(facts.suspect.get("provider", "webgpu"))
    settings = {key: _setting(key, value) for key, value in given.items() if key not in _OWN}
    found: dict[str, Any] = {"executionProviders": [{"name": name, **settings} if settings else name]}
    if "level" in given:
        found["graphOptimizationLevel"] = given["level"]
    if "disabled_optimizers" in given:
        names = given["disabled_optimizers"].replace(",", ";")
        found["extra"] = {"optimization": {"disable_specified_optimizers": names}}
    return found


def _setting(key: str, value: str) -> Any:
    return value.split(",") if key == "forceCpuNodeNames" else value


def _tensor(tensor: StoredTensor) -> dict[str, Any]:
    kind = _TYPES.get(tensor.dtype_name, tensor.dtype_name if tensor.dtype_name in _SAME else "")
    if not kind:
        raise NotExpressibleError(f"the form has no tensors of type {tensor.dtype_name}")
    flat = tensor.array.ravel()
    data = (
        [_decimal(value) for value in flat]
        if flat.dtype.kind == "f"
        else [_whole(kind, each) for each in flat.tolist()]
    )
    return {"type": kind, "dims": list(tensor.shape), "data": data}


def _decimal(value: np.floating[Any]) -> float | str:
    """The shortest decimal that gives these bits again; text for what JSON lacks, and `Number` reads."""
    if math.isfinite(value):
        return float(str(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _whole(kind: str, value: Any) -> Any:
    return str(value) if kind.endswith("int64") else int(value) if isinstance(value, bool) else value


def _allowed(facts: Facts, tensor: StoredTensor) -> list[float]:
    """By how much each element may differ; one figure where it is the same for all."""
    if tensor.array.dtype.kind != "f":
        return [0]
    magnitudes = np.abs(np.where(np.isfinite(tensor.array), tensor.array, 0).astype(np.float64).ravel())
    scale = float(magnitudes[magnitudes < _MASK].max(initial=0.0))
    each = absolute(facts) + shares(facts)[tensor.array.dtype.name] * np.maximum(scale, magnitudes)
    listed = [float(f"{value:.6g}") for value in each]
    return listed if len(set(listed)) > 1 else listed[:1] or [0]
