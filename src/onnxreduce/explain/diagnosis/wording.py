"""Nodes and values in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxreduce.graph.index import GraphIndex

_MOST_NODES = 3
_MOST_INPUTS = 4


def expression(index: GraphIndex, path: Sequence[int], output: str, instead: Mapping[str, str], reader: int) -> str:
    """What an output was computed as: the nodes of a path as nested functions, with other texts for some values.

    Nodes before position `reader` read the values as they are. A long path is told by its first and last node.
    """
    if len(path) > _MOST_NODES:
        first, last = (index.nodes[at].op_type for at in (path[0], path[-1]))
        return f"what its {len(path)} nodes from {first} to {last} give for {' and '.join(instead.values())}"
    return _nested(index, set(path), index.producer[output], instead, reader)


def node_named(index: GraphIndex, at: int) -> str:
    """A node by its operator, and by an output where there are several of that operator."""
    operator = index.nodes[at].op_type
    if sum(node.op_type == operator for node in index.nodes) == 1:
        return operator
    return f"the {operator} that gives {index.writes[at][0]}" if index.writes[at] else operator


def _nested(index: GraphIndex, path: set[int], at: int, instead: Mapping[str, str], reader: int) -> str:
    texts: list[str] = []
    for name in (name for name in index.nodes[at].input if name):
        if name in instead and at >= reader:
            texts.append(instead[name])
        elif index.producer.get(name) in path:
            texts.append(_nested(index, path, index.producer[name], instead, reader))
        else:
            texts.append(name)
    if len(texts) > _MOST_INPUTS:
        texts = [*texts[:_MOST_INPUTS], "..."]
    return f"{index.nodes[at].op_type}({', '.join(texts)})"
