"""Attributes, opset, element types and names: what is left to say about the model."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, TensorProto, defs

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import graphs_of
from onnxreduce.reduction.shrink import Shrinking

OLDEST_OPSET = 7
"""ONNX Runtime guarantees operators from this opset on."""
OLDEST_IR = 3
SHORT = 6
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def attributes(problem: Shrinking) -> None:
    """Drop attributes that equal their default."""
    for at in range(len(problem.best.nodes)):
        for attribute in list(problem.draft().nodes[at].attribute):
            draft = problem.draft()
            node = draft.nodes[at]
            if _is_default(draft.proto, node, attribute):
                kept = [each for each in node.attribute if each.name != attribute.name]
                del node.attribute[:]
                node.attribute.extend(kept)
                problem.attempt(draft)


def opset(problem: Shrinking) -> None:
    """Drop opset imports that no node needs; then the oldest opset and IR version that keep the fault."""
    draft = problem.draft()
    used = {node.domain for graph in graphs_of(draft.proto.graph) for node in graph.node}
    kept = [each for each in draft.proto.opset_import if each.domain in used]
    if kept and len(kept) < len(draft.proto.opset_import):
        del draft.proto.opset_import[:]
        draft.proto.opset_import.extend(kept)
        problem.attempt(draft)
    current = next((each.version for each in problem.best.model.proto.opset_import if not each.domain), 0)
    for version in range(OLDEST_OPSET, current):
        if any(problem.attempt(older) for older in _at_opset(problem, version)):
            break
    for version in range(OLDEST_IR, problem.best.model.proto.ir_version):
        draft = problem.draft()
        draft.proto.ir_version = version
        if problem.attempt(draft):
            break


def dtypes(problem: Shrinking) -> None:
    """Plainer element types: other floats become float32, int64 becomes int32, all at once or one input at a time."""
    changes: list[tuple[set[int], int]] = [
        ({TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}, TensorProto.FLOAT),
        ({TensorProto.INT64}, TensorProto.INT32),
    ]
    for old, new in changes:
        draft = problem.draft()
        names = [name for name, tensor in {**draft.feeds, **draft.weights}.items() if tensor.elem_type in old]
        if not names or problem.attempt(_retyped(draft, names, old, new)):
            continue
        for name in names:
            problem.attempt(_retyped(problem.draft(), [name], set(), new))


def names(problem: Shrinking) -> None:
    """Short names for values; none for nodes, bodies and documentation."""
    draft = problem.draft()
    for node in draft.nodes:
        node.ClearField("name")
    draft.proto.ClearField("producer_name")
    problem.attempt(draft)
    draft = problem.draft()
    draft.rename(_short_names(draft))
    problem.attempt(draft)


def _is_default(proto: ModelProto, node: onnx.NodeProto, attribute: AttributeProto) -> bool:
    version = next((each.version for each in proto.opset_import if each.domain == node.domain), 1)
    try:
        schema = defs.get_schema(node.op_type, version, node.domain)
    except defs.SchemaError:
        return False
    known = schema.attributes.get(attribute.name)
    if known is None or not known.default_value.type:
        return False
    return bool(onnx.helper.get_attribute_value(known.default_value) == onnx.helper.get_attribute_value(attribute))


def _at_opset(problem: Shrinking, version: int) -> Iterator[Draft]:
    draft = problem.draft()
    for each in draft.proto.opset_import:
        if not each.domain:
            each.version = version
    yield draft
    try:
        converted = onnx.version_converter.convert_version(problem.best.model.with_weights_inside(), version)
    except Exception:  # the converter raises whatever it likes for what it cannot convert
        return
    draft = problem.draft()
    nodes = list(converted.graph.node)
    draft.order(nodes)
    draft.weights = {tensor.name: StoredTensor.from_proto(tensor) for tensor in converted.graph.initializer}
    del draft.proto.opset_import[:]
    draft.proto.opset_import.extend(converted.opset_import)
    yield draft


def _retyped(draft: Draft, names: list[str], old: set[int], new: int) -> Draft:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(new)
    for name in names:
        held = draft.feeds if name in draft.feeds else draft.weights
        array = held[name].array
        if new == TensorProto.INT32:
            limits = np.iinfo(np.int32)
            array = np.clip(array, limits.min, limits.max)
        held[name] = StoredTensor.from_array(array.astype(dtype))
    for node in draft.nodes:
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i in old:
                    attribute.i = new
    return draft


def _short_names(draft: Draft) -> dict[str, str]:
    """x, x1, ... for inputs, w for initializers, y for outputs, v for what is between; short originals stay."""
    taken: set[str] = set()
    new: dict[str, str] = {}
    produced = [name for node in draft.nodes for name in node.output if name]
    kinds = [("x", list(draft.feeds)), ("w", list(draft.weights))]
    kinds.append(("y", [value.name for value in draft.proto.graph.output]))
    kinds.append(("v", produced))
    everything = [name for _, each in kinds for name in each]
    for name in everything:
        if len(name) <= SHORT and _IDENTIFIER.fullmatch(name):
            taken.add(name)
    for letter, each in kinds:
        for name in each:
            if name in taken or name in new:
                continue
            short = next(text for text in _numbered(letter) if text not in taken)
            taken.add(short)
            new[name] = short
    return new


def _numbered(letter: str) -> Iterator[str]:
    yield letter
    at = 1
    while True:
        yield f"{letter}{at}"
        at += 1
