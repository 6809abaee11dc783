"""Which subsets of nodes to try, in which order. Knows no model and no runtime: a `NodeProblem` answers.

The steps follow the project's design (docs/search.md has the reasons and the complexity):

1. `look`: cheap places first. Small sets that the evidence of the golden run points at, then windows around it.
2. `sweep`: from the first set that is interesting, or from the whole model, remove chunks of halving size, backwards,
   complements only, without restart. A chunk that could not go and whose one half could is known to be needed in the
   other half, which is not asked again at that size; halves of which nothing is known are first asked all together.
   This is generalised binary splitting (Hwang 1972), here breadth first so that the model shrinks early.
3. `minimise`: single deletions until none is left that can go (1-minimal), then neighbouring pairs once.

Nothing is ruled out for good because a larger set was not interesting: faults are not monotone, and `minimise` asks
again for every node that is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Nodes = tuple[int, ...]


class NodeProblem(Protocol):
    """What a search may ask. Positions are those of nodes in the file, from 0 to `size - 1`."""

    size: int

    def interesting(self, nodes: Collection[int]) -> bool:
        """Whether these nodes alone still show the fault. Answers are remembered; asking twice costs once."""

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


SPAN_AT_MOST = 128
"""Suspects that span at most this many nodes are tried as one window."""
FIRST_WINDOW = 16
MARGIN = 8
"""Nodes added on both sides of the suspects' span: a race needs its neighbours in execution order."""
LARGEST_WINDOW_SHARE = 4
"""Windows grow to a quarter of the model; past that the sweep is cheaper."""
SMALLEST_CHUNK = 8
"""Below this, single deletions, which are needed in the end anyway, cost no more than halving on."""
PAIRS_UP_TO = 8
"""Pairs are tried for at most this many nodes: they cost a call each and rarely succeed."""


def reduce_nodes(problem: NodeProblem, evidence: Evidence) -> Nodes:
    """The fewest nodes found that are interesting; the whole model is known to be."""
    best = look(problem, evidence)
    if best is None:
        best = tuple(range(problem.size))
    elif len(best) > 1:
        best = narrow(problem, best)
    keep = Upstream(problem).fit(best)
    best = sweep(problem, best if keep is None else keep.trim(best), keep)
    return minimise(problem, best, keep)


def look(problem: NodeProblem, evidence: Evidence) -> Nodes | None:
    """The first interesting set among the cheap ones, or None."""
    for nodes in [(node,) for node in evidence.named] + list(evidence.alike):
        if problem.interesting(nodes):
            return tuple(sorted(nodes))
    if not evidence.suspects:
        return None
    whole = tuple(range(problem.size))
    windows = _windows(problem.size, evidence.suspects)
    for _, window in zip(range(2), windows):
        if problem.interesting(window):
            return window
    wrong = problem.wrong_nodes(whole)
    if wrong:
        first = min(wrong)
        windows = _chain([(first,)], _windows(problem.size, [first]), windows)
    for window in windows:
        if problem.interesting(window):
            return window
    return None


def narrow(problem: NodeProblem, nodes: Nodes) -> Nodes:
    """One call that often saves many: expose every value of a small interesting set and try the first wrong node.

    Exposing heals some faults; a clean answer says nothing and costs this one call.
    """
    wrong = problem.wrong_nodes(nodes)
    if wrong and problem.interesting((min(wrong),)):
        return (min(wrong),)
    return nodes


class Upstream:
    """Whether the fault needs only nodes that a wrong output depends on.

    Most faults do; a race between two independent branches does not. Where it holds, each deletion takes along what
    no wrong output depends on any more, which saves a call for each such node.
    """

    def __init__(self, problem: NodeProblem) -> None:
        self.problem = problem
        self.ends: frozenset[int] = frozenset()

    def fit(self, nodes: Nodes) -> Upstream | None:
        """Ask once; None when the fault needs more, or when nothing is known or to be gained."""
        self.ends = frozenset(self.problem.wrong_ends(nodes))
        trimmed = self.trim(nodes)
        gain = self.ends and len(trimmed) < len(nodes)
        return self if gain and self.problem.interesting(trimmed) else None

    def trim(self, nodes: Collection[int]) -> Nodes:
        """Those of the nodes that a wrong output depends on.

        Where an output's own node was deleted, its nearest remaining producers stand for it.
        """
        kept, found, seen = set(nodes), set[int](), set[int]()
        stack = list(self.ends)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in kept:
                found.update(self.problem.together(node))
            if node in kept or node in self.ends:
                producers = self.problem.producers(node)
                stack.extend(at for at in producers if at in kept)
        return tuple(sorted(found & kept)) or tuple(sorted(kept))

    def learn(self, nodes: Nodes) -> None:
        """Take over the wrong outputs of a set that was just found interesting."""
        self.ends = frozenset(self.problem.wrong_ends(nodes)) or self.ends


def sweep(problem: NodeProblem, nodes: Nodes, keep: Upstream | None = None) -> Nodes:
    """Remove chunks of halving size, down to `SMALLEST_CHUNK` nodes."""
    state = _Sweep(problem, nodes, keep)
    chunks = [_Chunk(tuple(nodes), needed=True)]
    while any(len(chunk.nodes) > SMALLEST_CHUNK for chunk in chunks):
        chunks = state.level(chunks)
    return tuple(sorted(state.kept))


def minimise(problem: NodeProblem, nodes: Nodes, keep: Upstream | None = None) -> Nodes:
    """Single deletions, backwards and around, until each node left was tried on the very set that is left.

    Then, for a handful of nodes, each node together with a producer of it, once; a pair that goes starts the singles
    again.
    """
    best = _singles(problem, nodes, keep)
    while 2 < len(best) <= PAIRS_UP_TO:
        for pair in _pairs(problem, best):
            smaller = tuple(node for node in best if node not in pair)
            if problem.interesting(smaller):
                best = _singles(problem, smaller, keep)
                break
        else:
            break
    return best


@dataclass(frozen=True)
class _Chunk:
    """Nodes next to each other; `needed` when at least one of them is thought to be."""

    nodes: Nodes
    needed: bool


class _Sweep:
    """What is kept, over the levels of one sweep."""

    def __init__(self, problem: NodeProblem, kept: Collection[int], keep: Upstream | None) -> None:
        self.problem = problem
        self.kept = frozenset(kept)
        self.keep = keep

    def level(self, chunks: Sequence[_Chunk]) -> list[_Chunk]:
        """Halve every chunk, backwards, and remove the halves that can go."""
        found: list[_Chunk] = []
        unknown: list[Nodes] = []
        for chunk in reversed(chunks):
            nodes = tuple(node for node in chunk.nodes if node in self.kept)
            middle = (len(nodes) + 1) // 2
            left, right = nodes[:middle], nodes[middle:]
            if not right:
                found.append(_Chunk(nodes, chunk.needed))
            elif not self._remove(right):
                found.append(_Chunk(right, needed=True))
                unknown.append(left)
            elif chunk.needed:
                found.append(_Chunk(left, needed=True))
            else:
                unknown.append(left)
        found.extend(_Chunk(nodes, needed=False) for nodes in self._remove_together(unknown))
        alive = [_Chunk(tuple(n for n in chunk.nodes if n in self.kept), chunk.needed) for chunk in found]
        return sorted((chunk for chunk in alive if chunk.nodes), key=lambda chunk: chunk.nodes[0])

    def _remove(self, nodes: Collection[int]) -> bool:
        smaller = _without(self.problem, self.kept, nodes, self.keep)
        if not smaller or len(smaller) == len(self.kept):
            return len(smaller) > 0 and not self.kept & set(nodes)
        if not self.problem.interesting(smaller):
            return False
        self.kept = frozenset(smaller)
        if self.keep:
            self.keep.learn(smaller)
        return True

    def _remove_together(self, unknown: list[Nodes]) -> list[Nodes]:
        """Remove all the given chunks at once, else by halves; returns those that stay."""
        if not unknown:
            return []
        if self._remove([node for nodes in unknown for node in nodes]):
            return []
        if len(unknown) == 1:
            return unknown
        middle = len(unknown) // 2
        return self._remove_together(unknown[:middle]) + self._remove_together(unknown[middle:])


def _without(problem: NodeProblem, kept: Collection[int], nodes: Collection[int], keep: Upstream | None) -> Nodes:
    gone = {member for node in nodes for member in problem.together(node)}
    left = tuple(sorted(set(kept) - gone))
    return keep.trim(left) if keep and left else left


def _singles(problem: NodeProblem, best: Nodes, keep: Upstream | None) -> Nodes:
    at, untried = len(best) - 1, len(best)
    while untried > 0 and len(best) > 1:
        at %= len(best)
        alone = _without(problem, best, (best[at],), None)
        smaller = keep.trim(alone) if keep and alone else alone
        removed = bool(smaller) and problem.interesting(smaller)
        if not removed and alone and alone != smaller:
            smaller, removed = alone, problem.interesting(alone)
        if removed:
            at -= sum(1 for node in best[:at] if node not in smaller)
            best, untried = smaller, len(smaller)
            if keep:
                keep.learn(smaller)
        else:
            untried -= 1
        at -= 1
    return best


def _pairs(problem: NodeProblem, best: Nodes) -> Iterator[Nodes]:
    for node in reversed(best):
        for producer in sorted(set(problem.producers(node)) & set(best), reverse=True):
            yield (producer, node)


def _windows(size: int, suspects: Sequence[int]) -> Iterator[Nodes]:
    """Windows in file order around the suspects: their whole span where it is small, else around the latest one."""
    low, high = min(suspects), max(suspects)
    if high - low < SPAN_AT_MOST:
        start, end = low - MARGIN, high + 1 + MARGIN
    else:
        start, end = high + 1 - FIRST_WINDOW // 2, high + 1 + FIRST_WINDOW // 2
    while True:
        start, end = max(start, 0), min(end, size)
        yield tuple(range(start, end))
        width = end - start
        if width * 2 > size // LARGEST_WINDOW_SHARE:
            return
        start, end = start - (width + 1) // 2, end + (width + 1) // 2


def _chain(*parts: Sequence[Nodes] | Iterator[Nodes]) -> Iterator[Nodes]:
    for part in parts:
        yield from part
