"""The steps of normalising a model's protobuf. onnx-ir's passes do what they can; what they would lose is kept here."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

import onnx_ir as ir
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, NameFixPass, TopologicalSortPass

from onnxreduce.errors import BadInputError
from onnxreduce.graph.functions import inlined
from onnxreduce.graph.validity import one_line
from onnxreduce.graph.walk import every_node, graphs_of, is_sorted, keep_only, subgraphs_of
from onnxreduce.graph.weights import EXTERNAL_FROM_BYTES

logging.getLogger("onnx_ir").addHandler(logging.NullHandler())  # its warnings are for those who configure logging

_LEFT_OUT = "onnxreduce-left-out-output-"


def rewritten(proto: ModelProto, name: str) -> ModelProto:
    """The model with functions inlined where they can be, every node and value named, and sorted where it was not."""
    try:
        result = _passed(inlined(_mark_left_out(proto)))
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, BadInputError):
            cause = cause.__cause__
        reason = one_line(cause) or type(cause).__name__
        raise BadInputError(f"{name} cannot be normalised: {reason}") from error
    for node in every_node(result):
        for at, output in enumerate(node.output):
            if _LEFT_OUT in output:
                node.output[at] = ""
    return result


def lift_constants(graph: GraphProto) -> None:
    """Make each Constant of the main graph an initializer, except those that are graph outputs themselves."""
    outputs = {value.name for value in graph.output}
    lifted: list[TensorProto | None] = [
        _constant(node) if node.op_type == "Constant" and node.output[0] not in outputs else None for node in graph.node
    ]
    if any(tensor is None for tensor in lifted):  # a graph of constants alone keeps them: it must have nodes
        keep_only(graph.node, [tensor is None for tensor in lifted])
        graph.initializer.extend(tensor for tensor in lifted if tensor is not None)


def hoist_weights(graph: GraphProto) -> None:
    """Move the weights of subgraphs (large initializers and Constants) to the main graph, which they are captured from.

    Otherwise each candidate that keeps the node would carry their bytes. Small ones, and those that a subgraph's own
    inputs or outputs name, stay.
    """
    taken = Counter(name for each in graphs_of(graph) for name in _names(each))
    for node in graph.node:
        for body in subgraphs_of(node):
            for inner in list(graphs_of(body)):
                _hoist_from(inner, graph, taken)


def list_initializers(proto: ModelProto) -> None:
    """Before IR version 4 every initializer must be a graph input too."""
    if proto.ir_version >= 4:
        return
    listed = {value.name for value in proto.graph.input}
    for tensor in proto.graph.initializer:
        if tensor.name not in listed:
            proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def _passed(proto: ModelProto) -> ModelProto:
    model = ir.from_proto(proto)
    passes = [
        NameFixPass(),
        ClearMetadataAndDocStringPass(),  # exporters leave kilobytes of stack trace on each node
    ]
    if not is_sorted(proto.graph):
        passes.append(TopologicalSortPass())
    for one in passes:
        model = one(model).model
    return ir.to_proto(model)


def _mark_left_out(proto: ModelProto) -> ModelProto:
    """A copy where left-out outputs have a name to be known by, since naming passes would make real outputs of them.

    Not at calls of functions: there the name goes to the value inside, which may well be read.
    """
    copy = ModelProto()
    copy.CopyFrom(proto)
    functions = {(function.domain, function.name, function.overload) for function in proto.functions}
    counter = itertools.count()
    for node in every_node(copy):
        if "" in node.output and (node.domain, node.op_type, node.overload) not in functions:
            for at, output in enumerate(node.output):
                if not output:
                    node.output[at] = f"{_LEFT_OUT}{next(counter)}"
    return copy


def _constant(node: NodeProto) -> TensorProto | None:
    """The tensor of a Constant node under its output's name; None where the node is not of the usual form."""
    if node.domain not in ("", "ai.onnx") or len(node.attribute) != 1 or len(node.output) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    name, tensor = node.output[0], TensorProto()
    if attribute.name == "value" and attribute.type == AttributeProto.TENSOR:
        tensor.CopyFrom(attribute.t)
        tensor.name = name
        return tensor
    forms: dict[str, tuple[int, list[int], Iterable[Any]]] = {
        "value_int": (TensorProto.INT64, [], [attribute.i]),
        "value_ints": (TensorProto.INT64, [len(attribute.ints)], attribute.ints),
        "value_float": (TensorProto.FLOAT, [], [attribute.f]),
        "value_floats": (TensorProto.FLOAT, [len(attribute.floats)], attribute.floats),
        "value_string": (TensorProto.STRING, [], [attribute.s]),
        "value_strings": (TensorProto.STRING, [len(attribute.strings)], attribute.strings),
    }
    if attribute.name not in forms:
        return None
    elem_type, dims, values = forms[attribute.name]
    if elem_type == TensorProto.STRING:  # the helper's way through numpy would lose zeros at the end
        return TensorProto(name=name, data_type=elem_type, dims=dims, string_data=values)
    return helper.make_tensor(name, elem_type, dims, list(values))


def _hoist_from(body: GraphProto, graph: GraphProto, taken: Counter[str]) -> None:
    fixed = {value.name for values in (body.input, body.output) for value in values}
    moved: dict[str, TensorProto] = {}
    for tensor in body.initializer:
        if tensor.name not in fixed and tensor.ByteSize() >= EXTERNAL_FROM_BYTES:
            moved[tensor.name] = tensor
    nodes: set[str] = set()
    for node in body.node:
        if node.op_type == "Constant" and node.ByteSize() >= EXTERNAL_FROM_BYTES and node.output[0] not in fixed:
            constant = _constant(node)
            if constant is not None:
                moved[node.output[0]] = constant
                nodes.add(node.output[0])
    if not moved:
        return
    new_names: dict[str, str] = {}
    for name, tensor in moved.items():
        new_names[name] = _fresh(name, taken) if taken[name] > 1 else name
        hoisted = graph.initializer.add()
        hoisted.CopyFrom(tensor)
        hoisted.name = new_names[name]
    for node in body.node:
        _rename_reads(node, new_names)
    keep_only(body.initializer, [tensor.name not in moved for tensor in body.initializer])
    keep_only(body.node, [node.op_type != "Constant" or node.output[0] not in nodes for node in body.node])
    keep_only(body.value_info, [value.name not in moved for value in body.value_info])


def _fresh(name: str, taken: Counter[str]) -> str:
    while (new := f"{name}_{taken[name]}") in taken:
        taken[name] += 1
    taken[name] += 1  # the next one need not begin at the first number again
    taken[new] += 1
    return new


def _rename_reads(node: NodeProto, new_names: dict[str, str]) -> None:
    for at, name in enumerate(node.input):
        node.input[at] = new_names.get(name, name)
    for body in subgraphs_of(node):
        for inner in body.node:
            _rename_reads(inner, new_names)


def _names(graph: GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(output for node in graph.node for output in node.output if output)
    return names
