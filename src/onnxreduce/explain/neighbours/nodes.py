"""Nodes left out, replaced by Identity, or in another order; values put out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from onnx import NodeProto, helper

from onnxreduce.explain.neighbours.proposal import Proposal, node_words
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.passes.nodes import without
from onnxreduce.reduction.passes.reorder import LARGEST, chains
from onnxreduce.reduction.passes.structure import same_type
from onnxreduce.reduction.shrink import Shrinking


def left_out(problem: Shrinking) -> Iterator[Proposal]:
    """Each node left out; what read its output gets the reference's value as a graph input."""
    for at, node in enumerate(problem.draft().nodes):
        draft = without(problem, problem.draft(), (at,), expose=True)
        fed = [problem.values[name] for name in node.output if name in draft.feeds]
        change = "left out"
        if len(fed) == 1:
            change += f", its output fed as {fed[0].dtype_name} input"
        elif fed:
            change += ", its outputs fed as inputs"
        yield Proposal("node", node_words(node), change, [draft])


def replaced(problem: Shrinking) -> Iterator[Proposal]:
    """Each node replaced by Identity, where an input has the output's dtype and shape."""
    for at, node in enumerate(problem.draft().nodes):
        outputs = [name for name in node.output if name]
        if node.op_type == "Identity" or len(outputs) != 1:
            continue
        source = next((name for name in read_names(node) if same_type(problem, outputs[0], name)), None)
        if source is not None:
            draft = problem.draft()
            made = helper.make_node("Identity", [source], outputs, name=node.name)
            draft.order([*draft.nodes[:at], made, *draft.nodes[at + 1 :]])
            yield Proposal("node", node_words(node), "replaced by Identity", [draft])


def swapped(problem: Shrinking) -> Iterator[Proposal]:
    """Each two nodes in a row that do not depend on each other, the other way round."""
    nodes = problem.draft().nodes
    for at, (first, second) in enumerate(itertools.pairwise(nodes)):
        if not set(first.output) & set(read_names(second)):
            order = [*nodes[:at], second, first, *nodes[at + 2 :]]
            yield Proposal(
                "order", f"{node_words(first)} and {node_words(second)}", "swapped", [_ordered(problem, order)]
            )


def moved(problem: Shrinking) -> Iterator[Proposal]:
    """Each chain of nodes that is independent of the others, before them all."""
    nodes = problem.draft().nodes
    parts = chains(nodes) if len(nodes) <= LARGEST else []
    for chain in parts if len(parts) > 1 else []:
        order = [*chain, *(node for node in nodes if not any(node is member for member in chain))]
        if [id(node) for node in order] == [id(node) for node in nodes]:
            continue
        words = node_words(chain[0]) + (f" to {node_words(chain[-1])}" if len(chain) > 1 else "")
        yield Proposal("order", words, "moved to the front", [_ordered(problem, order)])


def exposed(problem: Shrinking) -> Iterator[Proposal]:
    """Each inner value as one more graph output."""
    draft = problem.draft()
    for node in draft.nodes:
        for name in node.output:
            if name and not draft.is_output(name) and draft.readers(name):
                other = problem.draft()
                other.proto.graph.output.add().name = name
                yield Proposal("output", name, "also a graph output", [other])


def hidden(problem: Shrinking) -> Iterator[Proposal]:
    """Each graph output that is no longer one, with the nodes that only it needed."""
    draft = problem.draft()
    names = [value.name for value in draft.proto.graph.output]
    for at, name in enumerate(names if len(names) > 1 else []):
        other = problem.draft()
        del other.proto.graph.output[at]
        other.tidy()
        gone = len(draft.nodes) - len(other.nodes)
        change = "no longer an output"
        if gone:
            change += f", nor {'is the node' if gone == 1 else f'are the {gone} nodes'} there that only it needs"
        yield Proposal("output", name, change, [other], gone)


def _ordered(problem: Shrinking, order: Sequence[NodeProto]) -> Draft:
    draft = problem.draft()
    draft.order(order)
    return draft
