"""What a model must fulfil before anything else looks at it: names, and operators whose version is known.

onnx's checker is not used: it refuses much that runtimes accept, and wants external data on disk.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.walk import every_graph, every_node, graphs_of, read_names, subgraphs_of


def check(proto: ModelProto) -> None:
    """Raise BadInputError, with the node or value in its message, when names or domains do not fit together."""
    graph = proto.graph
    _check_text(proto)
    if not graph.output:
        raise BadInputError("the graph has no outputs: there is nothing to compare")
    for each in graphs_of(graph):
        _check_definitions(each)
    known = _defined(graph)
    _check_reads(graph.node, known)
    for value in graph.output:
        if value.name not in known:
            raise BadInputError(f"nothing produces the graph output {value.name!r}")
    _check_domains(graph.node, {_domain(opset.domain) for opset in proto.opset_import})
    for function in proto.functions:
        known = {*function.input, *(name for node in function.node for name in node.output)}
        try:
            _check_reads(function.node, known)
            _check_domains(function.node, {_domain(opset.domain) for opset in function.opset_import})
        except BadInputError as error:
            raise BadInputError(f"function {function.name!r}: {error}") from error


def node_text(node: NodeProto, position: int | None = None) -> str:
    """A node for messages, always on one line: its name or else its position, and its operator."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    place = repr(node.name) if node.name or position is None else str(position)
    return f"node {place} ({operator if operator.isprintable() else repr(operator)})"


def one_line(text: object, limit: int = 300) -> str:
    """A text for messages: on one line, control characters escaped, and not too long."""
    words = " ".join(str(text).split())[:limit]
    return words if words.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def _check_text(proto: ModelProto) -> None:
    """Protobuf hands out bytes where text is not UTF-8."""
    texts: list[object] = [opset.domain for opset in proto.opset_import]
    for node in every_node(proto):
        texts += (node.op_type, node.domain, node.name, node.overload, *node.input, *node.output)
        texts += (attribute.name for attribute in node.attribute)
    for graph in every_graph(proto):
        texts += (value.name for values in (graph.input, graph.output, graph.value_info) for value in values)
        texts += (tensor.name for tensor in graph.initializer)
    for function in proto.functions:
        texts += (function.name, function.domain, *function.input, *function.output)
    for text in texts:
        if not isinstance(text, str):
            raise BadInputError(f"the name {text!r} is not UTF-8; the file is damaged")


def _check_definitions(graph: GraphProto) -> None:
    """Each value is defined once; an initializer may be a graph input too."""
    inputs: set[str] = set()
    for value in graph.input:
        if not value.name:
            raise BadInputError(f"an input of graph {graph.name!r} has no name")
        if value.name in inputs:
            raise BadInputError(f"the graph input {value.name!r} is listed twice")
        inputs.add(value.name)
    defined: set[str] = set()
    for tensor in graph.initializer:
        if not tensor.name:
            raise BadInputError(f"an initializer of graph {graph.name!r} has no name")
        if tensor.name in defined:
            raise BadInputError(f"the initializer {tensor.name!r} is there twice")
        defined.add(tensor.name)
    defined |= inputs
    for position, node in enumerate(graph.node):
        for name in node.output:
            if name in defined:
                raise BadInputError(f"{node_text(node, position)} produces {name!r}, which is defined before it")
            if name:
                defined.add(name)
    if any(not value.name for value in graph.output):
        raise BadInputError(f"an output of graph {graph.name!r} has no name")


def _defined(graph: GraphProto) -> set[str]:
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(output for node in graph.node for output in node.output)
    return names


def _check_reads(nodes: Iterable[NodeProto], known: set[str]) -> None:
    for position, node in enumerate(nodes):
        for value in read_names(node):
            if value not in known:
                inside = "" if value in node.input else ", in a subgraph,"
                raise BadInputError(f"{node_text(node, position)} reads{inside} {value!r}, which nothing produces")


def _check_domains(nodes: Iterable[NodeProto], imported: set[str]) -> None:
    for position, node in enumerate(nodes):
        if not node.op_type:
            raise BadInputError(f"{node_text(node, position)} has no operator")
        if _domain(node.domain) not in imported:
            raise BadInputError(
                f"{node_text(node, position)} is of domain {node.domain!r}, for which no opset is imported"
            )
        for body in subgraphs_of(node):
            _check_domains(body.node, imported)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name
