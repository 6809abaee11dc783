"""Faults planted in a graph: a problem that answers at once and without any runtime, for the search to be tested.

A candidate is interesting when it holds all nodes of the fault. The wrong value arises at one of them, so that an
output is wrong when it lies downstream of that node within the candidate.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.reduction.nodes import Evidence, Nodes
from onnxreduce.reduction.paths import upstream_of_all


class Graph:
    """Who reads whom, and which nodes write graph outputs."""

    def __init__(self, producers: Sequence[Collection[int]], outputs: Collection[int]) -> None:
        self.size = len(producers)
        self.producers = [tuple(sorted(set(nodes))) for nodes in producers]
        self.reads = dict(enumerate(self.producers))
        self.outputs = tuple(outputs)
        self.consumers: list[list[int]] = [[] for _ in producers]
        for node, nodes in enumerate(self.producers):
            for producer in nodes:
                self.consumers[producer].append(node)

    @classmethod
    def of(cls, index: GraphIndex) -> Graph:
        """The graph of a model."""
        producers = [[index.producer[v] for v in values if v in index.producer] for values in index.reads]
        return cls(producers, [index.producer[v] for v in index.graph_outputs if v in index.producer])

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
        right = [end for end in self.outputs if end not in below]
        suspects = upstream_of_all(self.reads, wrong) - self._reach(right, self.producers, None)
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

    @property
    def dear(self) -> bool:
        return False

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

    def foresee(self, sets: Iterable[Nodes], if_interesting: Iterable[Nodes] = ()) -> None:
        """Nothing is judged ahead here."""

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


@dataclass(frozen=True)
class Fault:
    """What is planted: see `Planted`. `evidence` is what the golden run tells of it."""

    needed: frozenset[int]
    faulty: int
    evidence: Evidence
    exposable: bool = False

    def problem(self, graph: Graph, accepts: Callable[[frozenset[int]], bool] | None = None) -> Planted:
        return Planted(graph, self.needed, self.faulty, self.exposable, accepts)


@dataclass(frozen=True)
class Kind:
    """Faults of one kind, with the most oracle calls that their reduction may take in the median."""

    plant: Callable[[Graph, random.Random], tuple[Collection[int], int] | None]
    budget: int
    exposable: bool = False
    from_node: int = 0

    def faults(self, graph: Graph, count: int, seed: int) -> list[Fault]:
        """This many faults at random places, such that some output is wrong."""
        rng, found = random.Random(seed), list[Fault]()
        while len(found) < count:
            planted = self.plant(graph, rng)
            if planted is None or min(planted[0]) < self.from_node:
                continue
            evidence = graph.evidence(planted[1])
            if evidence is not None:
                found.append(Fault(frozenset(planted[0]), planted[1], evidence, self.exposable))
        return found


def _two_chains(graph: Graph, rng: random.Random, near: bool) -> tuple[list[int], int] | None:
    first = graph.chain(rng.randrange(graph.size), 4)
    if first is None:
        return None
    start = max(first) + rng.randrange(-12, 12) if near else rng.randrange(graph.size)
    second = graph.chain(start, 3) if 0 <= start < graph.size else None
    if second is None or set(first) & set(second):
        return None
    if not near and abs(first[0] - second[0]) < graph.size // 4:
        return None
    return first + second, max(first)


def _near(graph: Graph, rng: random.Random) -> tuple[list[int], int] | None:
    return _two_chains(graph, rng, near=True)


def _far(graph: Graph, rng: random.Random) -> tuple[list[int], int] | None:
    return _two_chains(graph, rng, near=False)


def _one(graph: Graph, rng: random.Random) -> tuple[list[int], int]:
    node = rng.randrange(graph.size)
    return [node], node


def _scattered(graph: Graph, rng: random.Random) -> tuple[list[int], int]:
    nodes = rng.sample(range(graph.size), 12)
    return nodes, max(nodes)


def _chain(graph: Graph, rng: random.Random) -> tuple[list[int], int] | None:
    path = graph.chain(rng.randrange(graph.size), 20)
    return (path, max(path)) if path else None


TEXT = 1441
"""Where the layers of the language model begin in the example: what is wrong there leaves outputs of earlier layers
right, so that the output spectrum tells something."""

KINDS = {
    "chains of 4 and 3, near": Kind(_near, budget=35, from_node=TEXT),
    "chains of 4 and 3, far apart": Kind(_far, budget=130),
    "one node": Kind(_one, budget=5, exposable=True),
    "12 scattered nodes": Kind(_scattered, budget=220),
    "chain of 20": Kind(_chain, budget=60, from_node=TEXT),
    "near, anywhere": Kind(_near, budget=60),
    "chain of 20, anywhere": Kind(_chain, budget=70),
}


@functools.cache
def smolvla() -> Graph:
    """The graph of the example model, 2,553 nodes."""
    examples = str(Path(__file__).parents[2] / "examples")
    if examples not in sys.path:
        sys.path.insert(0, examples)
    from smolvla_model import build

    return Graph.of(GraphIndex(normalise(load(build()[0]))))


def race(first: int, last: int, phase: int = 0, batch: int = 16) -> Callable[[frozenset[int]], bool]:
    """A race between two nodes that shows only where both are run within one batch, counted from a phase.

    So it fails in some of the windows around it, with gaps: of those with 24 and 64 nodes about four in ten, as
    measured on a real one.
    """

    def shows(kept: frozenset[int]) -> bool:
        return len({(sum(at < node for at in kept) + phase) // batch for node in (first, last)}) == 1

    return shows


def mask(share: float, seed: int) -> Callable[[frozenset[int]], bool]:
    """Makes this share of the candidates not interesting, at random but always the same ones."""

    def shows(kept: frozenset[int]) -> bool:
        return random.Random(f"{seed} {sorted(kept)}").random() >= share

    return shows
