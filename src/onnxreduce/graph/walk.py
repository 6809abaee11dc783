"""Walking over nodes and their subgraphs: which names a node reads, captured ones included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto


def subgraphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """The bodies of a node (If, Loop, Scan and the like), not those nested deeper."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph itself and every subgraph below it, each before those inside it."""
    left = [graph]
    while left:
        each = left.pop()
        yield each
        bodies = [body for node in each.node if node.attribute for body in subgraphs_of(node)]
        left.extend(reversed(bodies))


def bodies_of(node: NodeProto) -> Iterator[GraphProto]:
    """Every subgraph of a node, those nested deeper included."""
    for body in subgraphs_of(node):
        yield from graphs_of(body)


def every_graph(proto: ModelProto) -> Iterator[GraphProto]:
    """The model's graph and every subgraph, also of the nodes in its functions."""
    yield from graphs_of(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from bodies_of(node)


def every_node(proto: ModelProto) -> Iterator[NodeProto]:
    """Every node of a model: of its graph, its functions and all subgraphs."""
    for function in proto.functions:
        yield from function.node
    for graph in every_graph(proto):
        yield from graph.node


def tensors_inside(proto: ModelProto) -> Iterator[TensorProto]:
    """Every dense tensor of a model except the main graph's initializers: those of subgraphs and of attributes."""
    for graph in every_graph(proto):
        if graph is not proto.graph:
            yield from graph.initializer
    for node in every_node(proto):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors


def functions_of(proto: ModelProto, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
    """The model's functions that the given nodes call, directly or through other functions, in the model's order."""
    known = {(function.domain, function.name, function.overload): function for function in proto.functions}
    used: set[tuple[str, str, str]] = set()
    todo = list(nodes) if known else []
    while todo:
        node = todo.pop()
        todo.extend(inner for body in subgraphs_of(node) for inner in body.node)
        key = (node.domain, node.op_type, node.overload)
        if key in known and key not in used:
            used.add(key)
            todo.extend(known[key].node)
    return [function for key, function in known.items() if key in used]


def defined_names(graph: GraphProto) -> set[str]:
    """Names that a graph defines before any node runs: inputs and initializers."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    return names


def captured_names(graph: GraphProto) -> list[str]:
    """Names that a subgraph takes from the graphs around it, in order of first use."""
    known, captured = defined_names(graph), dict[str, None]()
    known.update(name for node in graph.node for name in node.output)
    for node in graph.node:
        captured.update((name, None) for name in read_names(node) if name not in known)
    captured.update((value.name, None) for value in graph.output if value.name and value.name not in known)
    return list(captured)


def read_names(node: NodeProto) -> list[str]:
    """Names that a node reads, each once: its inputs (left-out optional ones skipped), then what its bodies capture."""
    names = dict.fromkeys(name for name in node.input if name)
    for body in subgraphs_of(node):
        names.update(dict.fromkeys(captured_names(body)))
    return list(names)


def keep_only(field: Any, wanted: Sequence[bool]) -> None:
    """Remove the messages of a repeated field that are not wanted, in one go: single ones would shift the others."""
    if not all(wanted):
        kept = [each for each, stays in zip(field, wanted, strict=True) if stays]
        del field[:]
        field.extend(kept)


def is_sorted(graph: GraphProto) -> bool:
    """Whether every node comes after those that it reads from, in subgraphs too."""
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        if any(value in later for value in read_names(node)) or not all(map(is_sorted, subgraphs_of(node))):
            return False
        later.difference_update(node.output)
    return True
