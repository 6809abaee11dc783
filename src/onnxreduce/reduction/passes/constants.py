"""Constant inputs as attributes: older opsets took axes, counts, pads and the like that way.

Which input became which attribute is read off ONNX's own schemas: an older version of the operator has an attribute of
the input's name. An initializer less, and a line less to read.
"""

from __future__ import annotations

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, defs, helper

from onnxreduce.graph.draft import Draft
from onnxreduce.reduction.passes.model import OLDEST_OPSET
from onnxreduce.reduction.shrink import Shrinking


def constants(problem: Shrinking) -> None:
    """Move constant inputs into attributes, at an older opset that has that form for every node."""
    current = next((each.version for each in problem.best.model.proto.opset_import if not each.domain), 0)
    for version in range(current - 1, OLDEST_OPSET - 1, -1):
        draft = problem.draft()
        moved = [_move(draft, node, current, version) for node in draft.nodes if not node.domain]
        if not any(moved):
            continue
        for each in draft.proto.opset_import:
            if not each.domain:
                each.version = version
        if problem.attempt(draft):
            return


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
