"""Faults planted in a graph: a problem that answers at once and without any runtime, for the search to be tested.

A candidate is interesting when it holds all nodes of the fault. The wrong value arises at one of them, so that an
output is wrong when it lies downstream of that node within the candidate.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnxreduce.reduction.nodes import Evidence, Nodes


class Graph:
    """Who reads whom, and which nodes write graph outputs."""

    def __init__(self, producers: Sequence[Collection[int]], outputs: Collection[int]) -> None:
        self.size = len(producers)
        self.producers = [tuple(sorted(set(nodes))) for nodes in producers]
        self.outputs = tuple(outputs)
        self.consumers: list[list[int]] = [[] for _ in producers]
        for node, nodes in enumerate(self.producers):
            for producer in nodes:
                self.consumers[producer].append(node)

    @classmethod
    def random(cls, size: int, rng: random.Random) -> Graph:
        """A graph whose nodes read one or two earlier ones, mostly near."""
        producers: list[set[int]] = []
        for node in range(size):
            near = range(max(0, node - 12), node)
            producers.append({rng.choice(near) for _ in range(rng.randint(1, 2))} if near else set())
        read = {producer for nodes in producers for producer in nodes}
        return cls(producers, [node for node in range(size) if node not in read])

    def ancestors(self, node: int, kept: Collection[int] | None = None) -> set[int]:
        """The node and all that it depends on, within the kept ones."""
        return self._reach([node], self.producers, kept)

    def descendants(self, node: int) -> set[int]:
        """The node and all that depend on it."""
        return self._reach([node], self.consumers, None)

    def chain(self, start: int, length: int) -> list[int] | None:
        """A path in dataflow that always goes to the first reader, or None where it ends early."""
        path = [start]
        while len(path) < length:
            readers = self.consumers[path[-1]]
            if not readers:
                return None
            path.append(min(readers))
        return path

    def evidence(self, faulty: int) -> Evidence | None:
        """What the golden run tells when this node is wrong, or None when no output depends on it."""
        below = self.descendants(faulty)
        wrong = [end for end in self.outputs if end in below]
        if not wrong:
            return None
        suspects = set.intersection(*(self.ancestors(end) for end in wrong))
        for end in self.outputs:
            if end not in below:
                suspects -= self.ancestors(end)
        return Evidence(suspects=sorted(suspects))

    @staticmethod
    def _reach(start: Iterable[int], edges: Sequence[Collection[int]], kept: Collection[int] | None) -> set[int]:
        found: set[int] = set()
        stack = list(start)
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack.extend(at for at in edges[node] if kept is None or at in kept)
        return found


@dataclass
class Planted:
    """A problem with a known answer, which counts what it is asked.

    `faulty`: where the wrong value arises. `exposable`: exposing all values shows it, else that heals. `accepts`:
    further condition on a candidate, such as a mask. `groups`: nodes that go together.
    """

    graph: Graph
    needed: frozenset[int]
    faulty: int
    exposable: bool = False
    accepts: Callable[[frozenset[int]], bool] | None = None
    groups: Mapping[int, Nodes] = field(default_factory=dict)
    calls: int = 1  # the golden run
    work: int = 0  # nodes run, the golden run included
    accepted: int = 0
    asked: dict[frozenset[int], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = self.graph.size
        self.work = self.size
        self.asked[frozenset(range(self.size))] = True

    @property
    def full_models(self) -> float:
        """Nodes run, in full models."""
        return self.work / self.size

    def interesting(self, nodes: Collection[int]) -> bool:
        kept = frozenset(nodes)
        assert kept, "an empty candidate was asked for"
        assert all(kept.issuperset(self.together(node)) for node in kept), "a group was torn apart"
        if kept not in self.asked:
            self.calls += 1
            self.work += len(kept)
            self.asked[kept] = self.holds(kept)
            self.accepted += self.asked[kept]
        return self.asked[kept]

    def holds(self, kept: frozenset[int]) -> bool:
        """The truth, not counted."""
        return self.needed <= kept and (self.accepts is None or self.accepts(kept))

    def wrong_nodes(self, nodes: Collection[int]) -> Sequence[int]:
        self.calls += 1
        self.work += len(nodes)
        return [self.faulty] if self.exposable and self.faulty in nodes else []

    def wrong_ends(self, nodes: Collection[int]) -> Collection[int]:
        kept = frozenset(nodes)
        if not self.asked.get(kept):
            return []
        below: set[int] = set()
        for node in sorted(kept):
            if node == self.faulty or not below.isdisjoint(self.graph.producers[node]):
                below.add(node)
        return [node for node in below if kept.isdisjoint(self.graph.consumers[node])]

    def together(self, node: int) -> Nodes:
        return self.groups.get(node, (node,))

    def producers(self, node: int) -> Collection[int]:
        return self.graph.producers[node]
