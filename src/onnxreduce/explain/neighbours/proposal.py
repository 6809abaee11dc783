"""One change of a model, in words and as a draft, with how far it leads away from the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx import NodeProto

from onnxreduce.graph.draft import Draft


@dataclass(frozen=True)
class Proposal:
    """`kind`, `subject` and `change` are those of `explanation.Neighbour`.

    `drafts`: ways to make it, of which the first valid one counts. `distance`: how far the change goes among those of
    its sort, such as |log2| of a ratio of sizes.
    """

    kind: str
    subject: str
    change: str
    drafts: Iterable[Draft]
    distance: float = 0.0


def node_words(node: NodeProto) -> str:
    """A node for readers: its operator, and the first value that it writes."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"{operator} ({next((name for name in node.output if name), '')})"
