"""Constant inputs as attributes: older opsets took axes, counts, pads and the like that way.

Which input became which attribute is read off ONNX's own schemas: an older version of the operator has an attribute of
the input's name. An initializer less, and a line less to read.
"""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, defs, helper

from onnxreduce.graph.draft import Draft
from onnxreduce.reduction.shrink import Shrinking

OLDEST = 7
"""As far back as ONNX Runtime guarantees operators."""


def constants(problem: Shrinking) -> None:
    """Move constant inputs into attributes, at the newest older opset that has that form for every node."""
    current = _opset(problem.best.model.proto)
    for version in range(current - 1, OLDEST - 1, -1):
        draft, moved = at_version(problem.draft(), version)
        if moved and problem.attempt(draft):
            return


def at_version(start: Draft, version: int) -> tuple[Draft, bool]:
    """The draft at an older opset, constant inputs as attributes where it has them so; and whether there were any."""
    draft = Draft(start.candidate())
    current = _opset(draft.proto)
    moved = [_move(draft, node, current, version) for node in draft.nodes if not node.domain]
    for each in draft.proto.opset_import:
        if not each.domain:
            each.version = version
    return draft, any(moved)


def _opset(proto: ModelProto) -> int:
    return next((each.version for each in proto.opset_import if not each.domain), 0)


def _move(draft: Draft, node: NodeProto, current: int, version: int) -> bool:
    try:
        now = defs.get_schema(node.op_type, current)
        then = defs.get_schema(node.op_type, version)
    except defs.SchemaError:
        return False
    formal = {parameter.name.lower(): at for at, parameter in enumerate(now.inputs)}
    older = {parameter.name.lower() for parameter in then.inputs}
    names = [name for name in then.attributes if name.lower() in formal and name.lower() not in older]
    found = False
    for name in names:
        at = formal[name.lower()]
        if at >= len(node.input) or node.input[at] not in draft.weights:
            continue
        array = draft.weights[node.input[at]].array
        kind = then.attributes[name].type
        node.attribute.append(_attribute(name, array, kind))
        node.input[at] = ""
        found = True
    while node.input and not node.input[-1]:
        node.input.pop()
    return found


def _attribute(name: str, array: np.ndarray, kind: defs.OpSchema.AttrType) -> AttributeProto:
    values = array.ravel().tolist()
    if kind in (defs.OpSchema.AttrType.INT, defs.OpSchema.AttrType.FLOAT):
        return helper.make_attribute(name, values[0])
    if array.dtype == helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT):
        return helper.make_attribute(name, [float(value) for value in values])
    return helper.make_attribute(name, values)
