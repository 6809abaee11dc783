"""The one total order that says which of two candidates is smaller. A reduction accepts nothing that is not.

In this order of importance: nodes; graph inputs, outputs and initializers (all of these in bodies too); elements of the
main graph's inputs and initializers; what a reader must take in to know their values; how plain the operators,
attributes, element types, numbers of axes, opset and IR version are; how far consumers are from producers in the file;
length of all names and literal values.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.formulas import description_cost, literal_length
from onnxreduce.graph.model import external_location
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import graphs_of, read_names

Size = tuple[int, ...]

PLAIN = ("Neg", "Abs", "Add", "Sub", "Mul", "Relu", "Identity")
"""Operators that every runtime has, the plainest first. Identity comes last: optimizers remove it."""
PLAIN_TYPES = (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL)
_ORDINARY = len(PLAIN) + 3


def size(candidate: Candidate) -> Size:
    """The key of the order: compare with `<`."""
    proto = candidate.model.proto
    graph = proto.graph
    data = [*weights(candidate).values(), *candidate.feeds.values()]
    return (
        sum(len(inner.node) for inner in graphs_of(graph)),
        len(candidate.feeds) + sum(len(inner.output) + len(inner.initializer) for inner in graphs_of(graph)),
        sum(tensor.size for tensor in data),
        sum(description_cost(tensor) for tensor in data),
        _plainness(proto) + sum(_type_rank(tensor.elem_type) + len(tensor.shape) for tensor in data),
        spread(graph),
        _names(graph) + sum(literal_length(tensor) for tensor in data),
    )


def weights(candidate: Candidate) -> dict[str, StoredTensor]:
    """The initializers of the main graph by name, wherever their data is."""
    found: dict[str, StoredTensor] = {}
    for tensor in candidate.model.proto.graph.initializer:
        location = external_location(tensor)
        if location is None:
            found[tensor.name] = StoredTensor.from_proto(tensor)
        else:
            blob = candidate.model.external[location]
            found[tensor.name] = StoredTensor(tensor.data_type, tuple(tensor.dims), blob)
    return found


def operator_rank(op_type: str, domain: str = "") -> int:
    """0 for the plainest operator; all that are not plain rank alike."""
    return PLAIN.index(op_type) if op_type in PLAIN and not domain else _ORDINARY


def spread(graph: GraphProto) -> int:
    """Sum of the distances, in nodes, between each value's producer and its readers."""
    at = {name: position for position, node in enumerate(graph.node) for name in node.output}
    return sum(
        position - at[name] for position, node in enumerate(graph.node) for name in read_names(node) if name in at
    )


def _plainness(proto: ModelProto) -> int:
    nodes = [node for graph in graphs_of(proto.graph) for node in graph.node]
    return (
        sum(operator_rank(node.op_type, node.domain) + len(node.attribute) for node in nodes)
        + sum(opset.version for opset in proto.opset_import)
        + 10 * len(proto.opset_import)
        + proto.ir_version
        + len(proto.functions)
        + len(proto.graph.initializer)  # an input says more plainly where a value comes from
    )


def _type_rank(elem_type: int) -> int:
    return PLAIN_TYPES.index(elem_type) if elem_type in PLAIN_TYPES else len(PLAIN_TYPES)


def _names(graph: GraphProto) -> int:
    return sum(_name_length(node) for node in graph.node) + sum(
        len(value.name) for values in (graph.input, graph.output, graph.initializer) for value in values
    )


def _name_length(node: NodeProto) -> int:
    return len(node.name) + sum(len(name) for name in node.output)
