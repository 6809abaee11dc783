"""Another element type throughout a model: inputs, weights, casts, and constants and declarations inside bodies."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import bodies_of, every_node, tensors_inside

TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype", "output_datatype")
"""Attributes of ONNX's operators that name an element type."""


def retype(draft: Draft, old: Collection[int], new: int) -> None:
    """Give a draft's inputs, weights, casts, constants and bodies another element type."""
    for name in [*draft.feeds, *draft.weights]:
        retype_input(draft, name, old, new)
    for node in draft.nodes:
        retype_node(node, old, new)


def retype_input(draft: Draft, name: str, old: Collection[int], new: int) -> None:
    """The same for one input or weight."""
    held = draft.feeds if name in draft.feeds else draft.weights
    if name in held and held[name].elem_type in old:
        held[name] = StoredTensor.from_array(converted(held[name].array, new))


def retype_node(node: NodeProto, old: Collection[int], new: int) -> None:
    """The same for the attributes of one node, and its bodies with all that is in them."""
    _retype_attributes(node, old, new)
    for body in bodies_of(node):
        for inner in body.node:
            _retype_attributes(inner, old, new)
        for tensor in body.initializer:
            _retype_tensor(tensor, old, new)
        for values in (body.input, body.output, body.value_info):
            for value in values:
                _retype_value(value, old, new)


def types_inside(draft: Draft) -> set[int]:
    """Element types that a draft holds or names anywhere."""
    found = {tensor.elem_type for tensor in (*draft.feeds.values(), *draft.weights.values())}
    found.update(tensor.data_type for tensor in tensors_inside(draft.proto))
    for node in every_node(draft.proto):
        found.update(attribute.i for attribute in node.attribute if attribute.name in TYPE_ATTRIBUTES)
    return found


def _retype_attributes(node: NodeProto, old: Collection[int], new: int) -> None:
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.i in old:
            attribute.i = new
        elif attribute.type == AttributeProto.TENSOR:
            _retype_tensor(attribute.t, old, new)
        elif attribute.name in ("value_float", "value_floats") and TensorProto.FLOAT in old:
            numbers = list(attribute.floats) if attribute.name == "value_floats" else attribute.f
            dtype = helper.tensor_dtype_to_np_dtype(new)
            made = numpy_helper.from_array(np.array(numbers, np.float32).astype(dtype))
            attribute.CopyFrom(helper.make_attribute("value", made))
    if node.op_type == "ConstantOfShape" and not node.attribute and TensorProto.FLOAT in old:
        zero = numpy_helper.from_array(np.zeros(1, helper.tensor_dtype_to_np_dtype(new)))
        node.attribute.append(helper.make_attribute("value", zero))


def converted(array: np.ndarray, new: int) -> np.ndarray:
    """The values in another type; whole numbers that do not fit become the nearest that do."""
    dtype = helper.tensor_dtype_to_np_dtype(new)
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        limits = np.iinfo(dtype)
        array = np.clip(array, limits.min, limits.max)
    return np.asarray(array.astype(dtype))


def _retype_tensor(tensor: TensorProto, old: Collection[int], new: int) -> None:
    if tensor.data_type in old:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(converted(numpy_helper.to_array(tensor), new), name))


def _retype_value(value: ValueInfoProto, old: Collection[int], new: int) -> None:
    if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in old:
        value.type.tensor_type.elem_type = new
