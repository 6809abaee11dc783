"""Each attribute left to its default, or with the next value that makes sense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto, defs, helper

from onnxreduce.explain.neighbours.proposal import Proposal, node_words
from onnxreduce.graph.retype import TYPE_ATTRIBUTES
from onnxreduce.reduction.shrink import Shrinking

WORDS = (
    ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    ("constant", "reflect", "edge", "wrap"),
    ("nearest", "linear", "cubic"),
    ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    ("none", "add", "mul", "max", "min"),
    ("none", "tanh"),
    ("DCR", "CRD"),
    ("forward", "reverse", "bidirectional"),
)  # fmt: skip
"""Values that an attribute of ONNX's operators takes one of, from the operators' documentation."""
OTHER_TYPES = {
    TensorProto.FLOAT: TensorProto.DOUBLE,
    TensorProto.DOUBLE: TensorProto.FLOAT,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.INT64: TensorProto.INT32,
    TensorProto.INT32: TensorProto.INT64,
    TensorProto.BOOL: TensorProto.INT32,
}
_SIMPLE = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING, AttributeProto.INTS)
_SWITCH = (0, 1)


def attributes(problem: Shrinking) -> Iterator[Proposal]:
    """Attributes that are there: dropped, then changed; then those that are left to a default of 0 or 1: switched."""
    yield from _given(problem)
    yield from _defaults(problem)


def _given(problem: Shrinking) -> Iterator[Proposal]:
    for at, node in enumerate(problem.draft().nodes):
        schema = _schema(problem, node)
        for attribute in node.attribute:
            if attribute.type not in _SIMPLE:
                continue
            subject = f"{attribute.name} of {node_words(node)}"
            old = helper.get_attribute_value(attribute)
            known = schema.attributes.get(attribute.name) if schema else None
            default = helper.get_attribute_value(known.default_value) if known and known.default_value.type else None
            if known is not None and not known.required and default != old:
                draft = problem.draft()
                _drop(draft.nodes[at], attribute.name)
                text = "" if default is None else f", which means {_text(attribute.name, default)}"
                yield Proposal("attribute", subject, f"{_text(attribute.name, old)} dropped{text}", [draft])
            for new in _others(attribute.name, old):
                if new != old and new != default:
                    yield _changed(problem, at, attribute.name, old, new)


def _defaults(problem: Shrinking) -> Iterator[Proposal]:
    for at, node in enumerate(problem.draft().nodes):
        schema = _schema(problem, node)
        there = {attribute.name for attribute in node.attribute}
        for name, known in sorted(schema.attributes.items()) if schema else ():
            default = helper.get_attribute_value(known.default_value) if known.default_value.type else None
            if name not in there and isinstance(default, int) and default in _SWITCH and name not in TYPE_ATTRIBUTES:
                yield _changed(problem, at, name, default, 1 - default)


def _changed(problem: Shrinking, at: int, name: str, old: Any, new: Any) -> Proposal:
    draft = problem.draft()
    node = draft.nodes[at]
    _drop(node, name)
    node.attribute.append(helper.make_attribute(name, new))
    change = f"{_text(name, old)} → {_text(name, new)}"
    return Proposal("attribute", f"{name} of {node_words(node)}", change, [draft])


def _others(name: str, old: Any) -> list[Any]:
    """Values next to one, the nearest first."""
    if name in TYPE_ATTRIBUTES:
        return [OTHER_TYPES[old]] if old in OTHER_TYPES else []
    if isinstance(old, bytes):
        word = old.decode("utf-8", "replace")
        return [other.encode() for words in WORDS if word in words for other in words if other != word][:2]
    if isinstance(old, int):
        return [1 - old] if old in _SWITCH else [old - 1, old + 1]
    if isinstance(old, float):
        return [1.0, 0.0]
    return _other_lists(name, list(old))


def _other_lists(name: str, old: list[int]) -> list[list[int]]:
    if name == "perm":
        return [list(range(len(old))), old[::-1]]
    if name == "pads":
        return [[0] * len(old)]
    if name in ("strides", "dilations"):
        return [[1] * len(old)]
    if name == "axes":
        return [[axis - 1 for axis in old], [axis + 1 for axis in old]]
    return []


def _schema(problem: Shrinking, node: NodeProto) -> defs.OpSchema | None:
    imports = problem.best.model.proto.opset_import
    version = next((each.version for each in imports if each.domain == node.domain), 1)
    try:
        return defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return None


def _drop(node: NodeProto, name: str) -> None:
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _text(name: str, value: Any) -> str:
    if name in TYPE_ATTRIBUTES:
        return str(TensorProto.DataType.Name(value)).lower()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:g}"
    return str(list(value) if isinstance(value, Sequence) else value)
