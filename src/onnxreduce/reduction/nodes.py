"""What a search over nodes may ask, and what it is told at the start. No model and no runtime behind these types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from onnxreduce.reduction.paths import longest_paths, upstream, upstream_of_all

Nodes = tuple[int, ...]


class NodeProblem(Protocol):
    """What a search may ask. Positions are those of nodes in the file, from 0 to `size - 1`."""

    size: int

    @property
    def dear(self) -> bool:
        """Whether a question about all nodes costs far more than many about a few."""

    def interesting(self, nodes: Collection[int]) -> bool:
        """Whether these nodes alone still show the fault. Answers are remembered; asking twice costs once."""

    def foresee(self, sets: Iterable[Nodes], if_interesting: Iterable[Nodes] = ()) -> None:
        """Tell which sets may be asked after the next one, likeliest first: in any case, and if that is interesting.

        Changes no answer; may do nothing.
        """

    def wrong_nodes(self, nodes: Collection[int]) -> Sequence[int]:
        """Nodes whose own values are wrong when all values of these nodes are exposed (one call; may be none)."""

    def wrong_ends(self, nodes: Collection[int]) -> Collection[int]:
        """Nodes with a wrong output in the verdict already given on these nodes (no call; may be none)."""

    def together(self, node: int) -> Nodes:
        """The nodes that can only stay or go with `node`, itself included."""

    def producers(self, node: int) -> Collection[int]:
        """The nodes whose values `node` reads."""


@dataclass(frozen=True)
class Evidence:
    """What the golden run says about the place, for nothing.

    `named`: nodes that a message names, most telling first. `alike`: sets of nodes that a message could mean, such as
    all nodes of one operator. `suspects`: nodes that every wrong output depends on and no right one.
    """

    named: Sequence[int] = ()
    alike: Sequence[Nodes] = ()
    suspects: Sequence[int] = ()


def closed(problem: NodeProblem, nodes: Iterable[int]) -> Nodes:
    """The nodes and all that must stay with one of them, in file order."""
    found = set[int]()
    for node in nodes:
        if node not in found:
            found.update(problem.together(node))
    return tuple(sorted(found))


def suspects_within(problem: NodeProblem, nodes: Nodes) -> set[int]:
    """Nodes of an interesting set that each wrong output depends on and no right one."""
    kept, wrong = set(nodes), problem.wrong_ends(nodes)
    if not wrong:
        return set()
    reads = {node: kept.intersection(problem.producers(node)) for node in nodes}
    right = kept.difference(wrong).difference(*reads.values())
    return upstream_of_all(reads, wrong) - upstream(reads, right)


def by_paths(problem: NodeProblem, nodes: Nodes) -> Nodes:
    """The nodes as paths in dataflow, the longest last.

    Faults of fusion and of buffer reuse need a path; nodes beside it are likelier to be free.
    """
    kept = set(nodes)
    return tuple(longest_paths({node: [p for p in problem.producers(node) if p in kept] for node in nodes}))
