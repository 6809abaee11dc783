"""The table of changes. Its order says which change is smaller than which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from onnxreduce.explain.neighbours import attributes, dims, inputs, nodes
from onnxreduce.explain.neighbours.proposal import Proposal
from onnxreduce.reduction.shrink import Shrinking


@dataclass(frozen=True)
class Change:
    """A row: what is tried, and what of the model stays the same."""

    propose: Callable[[Shrinking], Iterator[Proposal]]
    help: str


CHANGES = (
    Change(nodes.swapped, "two nodes in a row swapped: the same nodes and values"),
    Change(nodes.moved, "an independent chain of nodes moved to the front"),
    Change(nodes.exposed, "an inner value that is also a graph output"),
    Change(attributes.attributes, "an attribute dropped or changed"),
    Change(dims.dims, "another size of axes that the graph holds equal"),
    Change(inputs.dtypes, "an input of another element type"),
    Change(inputs.constants, "an input as an initializer, or an initializer as an input"),
    Change(nodes.replaced, "a node replaced by Identity"),
    Change(nodes.left_out, "a node left out"),
    Change(nodes.hidden, "an output less, with the nodes that only it needs"),
    Change(inputs.values, "other content of an input: it comes last, since plain values can hide a fault"),
)
