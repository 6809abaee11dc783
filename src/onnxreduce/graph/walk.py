"""Walking over nodes and their subgraphs: which names a node reads, captured ones included."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, NodeProto


def subgraphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The bodies of a node (If, Loop, Scan and the like), not those nested deeper."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph itself and every subgraph below it."""
    yield graph
    for node in graph.node:
        for body in subgraphs_of(node):
            yield from graphs_of(body)


def defined_names(graph: GraphProto) -> set[str]:
    """Names that a graph defines before any node runs: inputs and initializers."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    return names


def captured_names(graph: GraphProto) -> list[str]:
    """Names that a subgraph takes from the graphs around it, in order of first use."""
    known, captured = defined_names(graph), dict[str, None]()
    for node in graph.node:
        captured.update((name, None) for name in read_names(node) if name not in known)
        known.update(node.output)
    captured.update((value.name, None) for value in graph.output if value.name and value.name not in known)
    return list(captured)


def read_names(node: NodeProto) -> list[str]:
    """Names that a node reads, each once: its inputs (left-out optional ones skipped), then what its bodies capture."""
    names = dict.fromkeys(name for name in node.input if name)
    for body in subgraphs_of(node):
        names.update(dict.fromkeys(captured_names(body)))
    return list(names)
