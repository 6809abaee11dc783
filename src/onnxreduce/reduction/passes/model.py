"""Attributes, opset, element types and names: what is left to say about the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, defs

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.retype import retype, retype_input, retype_node, types_inside
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import every_graph, every_node
from onnxreduce.oracle.comparison import compare
from onnxreduce.oracle.signature import WRONG_VALUES
from onnxreduce.reduction.passes.constants import at_version
from onnxreduce.reduction.shrink import Edit, Shrinking

OLDEST_OPSET = 7
"""ONNX Runtime guarantees operators from this opset on."""
OLDEST_IR = 3
OLDEST_IR_WITH_WEIGHTS = 4
"""Before, each initializer had to be a graph input as well: a line more to read."""
PLAINER: tuple[tuple[set[int], int], ...] = (
    ({TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}, TensorProto.FLOAT),
    ({TensorProto.INT64}, TensorProto.INT32),
)
SHORT = 6
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def attributes(problem: Shrinking) -> None:
    """Drop attributes that equal their default: all at once, or those that can go."""
    proto = problem.draft().proto
    problem.together(
        [
            partial(_drop_attribute, at, attribute.name)
            for at, node in enumerate(every_node(proto))
            for attribute in node.attribute
            if _is_default(proto, node, attribute)
        ]
    )


def attributes_boldly(problem: Shrinking, draft: Draft) -> None:
    """Drop all attributes that equal their default."""
    for at, node in enumerate(every_node(draft.proto)):
        for attribute in list(node.attribute):
            if _is_default(draft.proto, node, attribute):
                _drop_attribute(at, attribute.name, draft)


def opset(problem: Shrinking) -> None:
    """Drop opset imports that no node needs; then the oldest opset and IR version that keep the fault."""
    problem.together([_drop_imports])
    for version in range(OLDEST_OPSET, _version(problem.best.model.proto)):
        drafts = _at_opset(problem.draft(), version)
        if any(_means_the_same(problem, problem.draft(), older) and problem.attempt(older) for older in drafts):
            break
    for ir_version in _older_ir(problem.draft()):
        draft = problem.draft()
        draft.proto.ir_version = ir_version
        if problem.attempt(draft):
            break


def _means_the_same(problem: Shrinking, newer: Draft, older: Draft) -> bool:
    """Whether the reference computes the same at an older opset: Softmax, among others, once meant something else.

    A runtime that knows only the newer meaning fails there for a reason of its own, which is not the original's.
    """
    now, then = problem.recorded(newer), problem.recorded(older)
    if now is None or then is None:
        return False
    return all(
        compare(name, now[name].array, then[name].array, problem.tolerance).kind is None
        for name in now.keys() & then.keys()
    )


def opset_boldly(problem: Shrinking, draft: Draft) -> None:
    """The oldest opset and IR version that the reference runs."""
    _drop_imports(draft)
    older = (each for version in range(OLDEST_OPSET, _version(draft.proto)) for each in _at_opset(draft, version))
    for each in older:
        if problem.runs(each) and _means_the_same(problem, draft, each):
            draft.take(each)
            break
    for ir_version in _older_ir(draft):
        other = Draft(draft.candidate())
        other.proto.ir_version = ir_version
        if problem.runs(other):
            draft.take(other)
            break


def dtypes(problem: Shrinking) -> None:
    """Plainer element types: other floats become float32, int64 becomes int32, wherever they stand or where it goes.

    First everywhere at once, then one input, weight or node (a Cast, constants, bodies) at a time.
    """
    for old, new in PLAINER:
        draft = problem.draft()
        if not types_inside(draft) & old:
            continue
        everywhere = problem.draft()
        retype(everywhere, old, new)
        if problem.attempt(everywhere):
            continue
        held = {**draft.feeds, **draft.weights}
        edits: list[Edit] = [
            partial(_retype_one, name, old, new) for name, tensor in held.items() if tensor.elem_type in old
        ]
        edits += [partial(_retype_node, at, old, new) for at in range(len(draft.nodes))]
        for edit in edits:
            draft = problem.draft()
            edit(draft)
            problem.attempt(draft)


def names(problem: Shrinking) -> None:
    """Short names for values; none for nodes, unless the failing runtime's message speaks of them."""
    problem.together([partial(_drop_node_names, problem), _shorten])


def names_boldly(problem: Shrinking, draft: Draft) -> None:
    """All of it."""
    _drop_node_names(problem, draft)
    _shorten(draft)


def _drop_attribute(at: int, name: str, draft: Draft) -> None:
    node = list(every_node(draft.proto))[at]
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _is_default(proto: ModelProto, node: NodeProto, attribute: AttributeProto) -> bool:
    version = next((each.version for each in proto.opset_import if each.domain == node.domain), 1)
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return False
    known = schema.attributes.get(attribute.name)
    if known is None or not known.default_value.type:
        return False
    return bool(onnx.helper.get_attribute_value(known.default_value) == onnx.helper.get_attribute_value(attribute))


def _version(proto: ModelProto) -> int:
    return next((each.version for each in proto.opset_import if not each.domain), 0)


def _older_ir(draft: Draft) -> range:
    return range(OLDEST_IR_WITH_WEIGHTS if draft.weights else OLDEST_IR, draft.proto.ir_version)


def _drop_imports(draft: Draft) -> None:
    used = {node.domain for node in every_node(draft.proto)}
    kept = [each for each in draft.proto.opset_import if each.domain in used]
    if kept:
        del draft.proto.opset_import[:]
        draft.proto.opset_import.extend(kept)


def _at_opset(start: Draft, version: int) -> Iterator[Draft]:
    """The draft at an older opset: as it is, with constant inputs as attributes, and by onnx's converter."""
    draft, moved = at_version(start, version)
    if moved:
        plain = Draft(start.candidate())
        for each in plain.proto.opset_import:
            if not each.domain:
                each.version = version
        yield plain
    yield draft
    try:
        converted = onnx.version_converter.convert_version(start.candidate().model.with_weights_inside(), version)
    except Exception:  # the converter raises whatever it likes for what it cannot convert
        return
    draft = Draft(start.candidate())
    draft.order(converted.graph.node)
    draft.weights = {tensor.name: StoredTensor.from_proto(tensor) for tensor in converted.graph.initializer}
    del draft.proto.opset_import[:]
    draft.proto.opset_import.extend(converted.opset_import)
    yield draft


def _retype_one(name: str, old: set[int], new: int, draft: Draft) -> None:
    retype_input(draft, name, old, new)


def _retype_node(at: int, old: set[int], new: int, draft: Draft) -> None:
    if at < len(draft.nodes):
        retype_node(draft.nodes[at], old, new)


def _drop_node_names(problem: Shrinking, draft: Draft) -> None:
    named = [node for node in every_node(draft.proto) if node.name]
    said = problem.message() if named and problem.signature.kind not in WRONG_VALUES else ""
    for node in named:
        if node.name not in said:
            node.ClearField("name")
    draft.proto.ClearField("producer_name")


def _shorten(draft: Draft) -> None:
    """x, x1, ... for inputs, w for initializers, y for outputs, v for what is between; short originals stay."""
    inner: set[str] = set()
    for body in every_graph(draft.proto):
        if body is not draft.proto.graph:
            inner.update(name for node in body.node for name in node.output)
            inner.update(value.name for value in body.input)
            inner.update(tensor.name for tensor in body.initializer)
    taken: set[str] = set(inner)
    new: dict[str, str] = {}
    kinds = [("x", list(draft.feeds)), ("w", list(draft.weights))]
    kinds.append(("y", [value.name for value in draft.proto.graph.output]))
    kinds.append(("v", [name for node in draft.nodes for name in node.output if name]))
    short = [n for _, each in kinds for n in each if len(n) <= SHORT and _IDENTIFIER.fullmatch(n) and n not in inner]
    taken.update(short)
    for letter, each in kinds:
        for name in each:
            if name in short or name in new:
                continue
            made = next(text for text in _numbered(letter) if text not in taken)
            taken.add(made)
            new[name] = made
    draft.rename(new)


def _numbered(letter: str) -> Iterator[str]:
    yield letter
    at = 1
    while True:
        yield f"{letter}{at}"
        at += 1
