"""A one-node model as a test in the form of onnxruntime's `js/web/test/data/ops/*.jsonc`.

The form is described by `_example.jsonc` and `op-test-schema.json` there; `test-runner.ts` builds a model of one node
from it, whose inputs are all graph inputs.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from onnxreduce.emit.report.contents import expected_of, fault, nodes
from onnxreduce.emit.report.facts import Facts
from onnxreduce.emit.report.markdown import visible
from onnxreduce.graph.tensors import StoredTensor

MOST_ELEMENTS = 4096
"""Elements of all tensors together; upstream's largest files of this kind hold about as many."""

_TYPES = {
    "float": "float32",
    "float16": "float16",
    "double": "float64",
    **{
        name: name
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string")
    },
}
_KINDS = {
    AttributeProto.INT: "int",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOAT: "float",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRING: "string",
    AttributeProto.STRINGS: "strings",
}
_EXACT = 1 << 53
"""JavaScript reads whole numbers up to here exactly; larger ones are given as text, which BigInt reads."""


class NotExpressibleError(Exception):
    """A model that the form has no words for; the text says why."""


def operator_test(facts: Facts) -> str:
    """The file's text. Raises NotExpressibleError."""
    graph = facts.model.graph
    if facts.model.functions:
        raise NotExpressibleError("the model has functions of its own")
    if len(graph.node) != 1:
        raise NotExpressibleError(f"the model has {len(graph.node)} nodes, and an operator test has one")
    node = graph.node[0]
    given = [_given(facts, name) for name in node.input]
    expected = [_expected(facts, name) for name in node.output]
    total = sum(tensor.size for tensor in [*given, *expected] if tensor is not None)
    if total > MOST_ELEMENTS:
        raise NotExpressibleError(
            f"its tensors hold {total} elements, more than the {MOST_ELEMENTS} that go into a text"
        )
    version = next((each.version for each in facts.model.opset_import if each.domain == node.domain), None)
    if version is None:
        raise NotExpressibleError(f"no opset is given for the domain {node.domain!r}")
    test: dict[str, Any] = {
        "name": f"{node.op_type}: {fault(facts)}",
        "operator": node.op_type,
        "opset": {"domain": node.domain, "version": version},
        "attributes": [_attribute(each) for each in node.attribute],
        "inputShapeDefinitions": [None if tensor is None else list(tensor.shape) for tensor in given],
        "cases": [{"name": _case_name(given), "inputs": _tensors(given), "outputs": _tensors(expected)}],
    }
    return "\n".join([*_remarks(facts, node), _json([test], 0), ""])


def _json(value: Any, indent: int) -> str:
    """JSON with one line for a list of plain values, as upstream's files have it."""
    inner = " " * (indent + 2)
    if isinstance(value, dict) and value:
        parts = [f"{inner}{json.dumps(key)}: {_json(each, indent + 2)}" for key, each in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    if isinstance(value, list) and any(isinstance(each, (dict, list)) and each for each in value):
        return "[\n" + ",\n".join(inner + _json(each, indent + 2) for each in value) + "\n" + " " * indent + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _remarks(facts: Facts, node: NodeProto) -> list[str]:
    lines = [
        f"Reduced by onnxreduce from {nodes(facts.summary['nodes_before'])}.",
        f"Wrong under {facts.summary.get('runtime', '')}; right under {facts.summary.get('reference', '')}.",
        f"The expected outputs are those of {expected_of(facts)}.",
    ]
    constant = [tensor.name for tensor in facts.model.graph.initializer if tensor.name in node.input]
    if constant:
        lines.append(f"Initializers in the reduced model, inputs here: {', '.join(constant)}.")
    return [f"// {visible(line, 500)}" for line in lines]


def _given(facts: Facts, name: str) -> StoredTensor | None:
    if not name:
        return None
    if name in facts.inputs:
        return facts.inputs[name]
    for tensor in facts.model.graph.initializer:
        if tensor.name == name and tensor.data_location != TensorProto.EXTERNAL:
            return StoredTensor.from_proto(tensor)
    raise NotExpressibleError(f"the value of input {name} does not lie in the folder")


def _expected(facts: Facts, name: str) -> StoredTensor | None:
    if name and name not in facts.expected:
        raise NotExpressibleError(f"there is no expected value for output {name}")
    return facts.expected[name] if name else None


def _attribute(attribute: AttributeProto) -> dict[str, Any]:
    kind = _KINDS.get(attribute.type)
    if kind is None or attribute.ref_attr_name:
        raise NotExpressibleError(f"attribute {attribute.name} is neither a number, a text nor a list of them")
    value = helper.get_attribute_value(attribute)
    data: Any = [_plain(each) for each in value] if kind.endswith("s") else _plain(value)
    return {"name": attribute.name, "data": data, "type": kind}


def _plain(value: bytes | float) -> str | int | float:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise NotExpressibleError("a text in its attributes is not UTF-8") from None
    if isinstance(value, int):
        return value
    return _decimal(np.float32(value))


def _tensors(tensors: list[StoredTensor | None]) -> list[dict[str, Any]]:
    return [{"data": None, "type": "float32"} if tensor is None else _tensor(tensor) for tensor in tensors]


def _tensor(tensor: StoredTensor) -> dict[str, Any]:
    kind = _TYPES.get(tensor.dtype_name)
    if kind is None:
        raise NotExpressibleError(f"the form has no tensors of type {tensor.dtype_name}")
    flat = tensor.array.ravel()
    data = [_decimal(value) for value in flat] if flat.dtype.kind == "f" else [_whole(value) for value in flat.tolist()]
    return {"data": data, "dims": list(tensor.shape), "type": kind}


def _decimal(value: np.floating[Any]) -> int | float:
    """The shortest decimal that gives these bits again."""
    if not math.isfinite(value):
        raise NotExpressibleError(f"JSON has no {value}")
    found = float(str(value))
    return int(found) if found.is_integer() and abs(found) < _EXACT and str(found) != "-0.0" else found


def _whole(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) > _EXACT else value


def _case_name(given: list[StoredTensor | None]) -> str:
    return (
        " ".join("[" + ",".join(map(str, tensor.shape)) + "]" for tensor in given if tensor is not None) or "no inputs"
    )
