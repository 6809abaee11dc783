"""Remove stretches of nodes, always the one whose answer tells most for its price.

Each step asks the question that is worth most (`Cut.worth`): near even chances, so that the answer halves what is open,
and large, so that later questions are about smaller models. From one needed node in n this is bisection; from few
needed nodes anywhere it is generalised binary splitting (Hwang 1972); where runs are found it looks for their borders.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxreduce.reduction.belief import Belief, Kind
from onnxreduce.reduction.nodes import NodeProblem, Nodes, suspects_within

SHRINK = 3.0
"""What removing all nodes of a candidate is worth, in bits."""
SHRINK_MODEL = 30.0
"""What removing all nodes of the full model is worth: full-size questions are dear."""

Stretch = tuple[int, int]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Cut:
    """Stretches [low, high) of units to remove at once, and the chance that they can go."""

    worth: float
    chance: float
    stretches: Sequence[Stretch]


class Sweep:
    """What is kept and what is known of it. A unit is a node with those that go with it."""

    def __init__(self, problem: NodeProblem, order: Nodes, least_chance: float, needed: Iterable[int] = ()) -> None:
        self.problem = problem
        self.least_chance = least_chance
        units: dict[Nodes, None] = {}
        for node in order:
            units.setdefault(problem.together(node))
        self.units = list(units)
        self.kept = np.ones(len(self.units), dtype=bool)
        self.known: list[Stretch] = []  # disjoint; at least one unit of each is needed
        self.belief = Belief(len(self.units))
        self.know(0, len(self.units))
        self.place = {node: at for at, unit in enumerate(self.units) for node in unit}
        for node in needed:
            self.know(self.place[node], self.place[node] + 1)

    @property
    def nodes(self) -> Nodes:
        """What is kept, in file order."""
        return self._nodes(self.kept)

    @property
    def needed(self) -> set[int]:
        """Nodes that could not go alone from a larger set."""
        return {node for low, high in self.known if high - low == 1 for node in self.units[low]}

    def run(self) -> Nodes:
        """Cut until no cut is likely enough."""
        self.know_suspects()
        while (cut := self.best_cut()) is not None:
            self.problem.foresee(self.likely_after(cut), self.likely_after(cut, certain=True))
            self.take(cut.stretches)
            self.know_suspects()
        return self.nodes

    def know_suspects(self) -> None:
        """Take note that the wrong value arises among the nodes that each wrong output of the kept depends on."""
        found = suspects_within(self.problem, self.nodes)
        if found:
            at = [self.place[node] for node in found]
            self.know(min(at), max(at) + 1)

    def take(self, stretches: Sequence[Stretch]) -> None:
        """Remove these stretches, or learn in which one of them something is needed.

        Two or more that cannot go together are halved until one is left, the likelier half first.
        """
        if self.remove(stretches):
            return
        while len(stretches) > 1:
            middle = (len(stretches) + 1) // 2
            gone = self.remove(stretches[:middle])
            stretches = stretches[middle:] if gone else stretches[:middle]
        self.know(*stretches[0])

    def likely_after(self, cut: Cut, *, certain: bool = False) -> Iterator[Nodes]:
        """What will be asked after a cut, likeliest first. Asks nothing and changes nothing.

        `certain`: what it cuts can go; else under either answer.
        """
        places = itertools.count()
        open_ends = [(-1.0, next(places), self, cut)]
        while open_ends:
            likelihood, _, state, tried = heapq.heappop(open_ends)
            if tried is not cut:
                yield state.without(tried.stretches)
            answers = state.answers(tried)
            for chance, after, follows in itertools.islice(answers, 1 if certain and tried is cut else None):
                if follows is not None:
                    heapq.heappush(open_ends, (likelihood * chance, next(places), after, follows))

    def answers(self, cut: Cut) -> Iterator[tuple[float, Sweep, Cut | None]]:
        """For each answer to a cut its chance, the state after it, and the cut that follows."""
        gone = self._copy()
        gone.kept = self._kept_without(cut.stretches)
        gone.known = gone.tightened()
        yield cut.chance, gone, gone.best_cut()
        stays = self._copy()
        if len(cut.stretches) > 1:
            half = cut.stretches[: (len(cut.stretches) + 1) // 2]
            yield 1 - cut.chance, stays, Cut(0.0, math.sqrt(cut.chance), half)
        else:
            stays.know(*cut.stretches[0])
            yield 1 - cut.chance, stays, stays.best_cut()

    def without(self, stretches: Sequence[Stretch]) -> Nodes:
        """What would be kept without these stretches, in file order."""
        return self._nodes(self._kept_without(stretches))

    def remove(self, stretches: Sequence[Stretch]) -> bool:
        """Remove all units of these stretches if what is left is interesting."""
        left = self.without(stretches)
        if not left or not self.problem.interesting(left):
            return False
        self.kept = self._kept_without(stretches)
        self.known = self.tightened()
        return True

    def tightened(self) -> list[Stretch]:
        """What is known, less the units that are gone."""
        return [tight for tight in map(self._tight, self.known) if tight[0] < tight[1]]

    def know(self, low: int, high: int) -> None:
        """Take note that one of these units is needed, unless that is known already or cannot be told apart."""
        low, high = self._tight((low, high))
        over = [(start, end) for start, end in self.known if start < high and low < end]
        if low < high and all(start <= low and high <= end for start, end in over):
            self.known = sorted({*self.known, (low, high)}.difference(span for span in over if span != (low, high)))

    def best_cut(self) -> Cut | None:
        """The cut worth most, or None when none is likely enough."""
        stretches = self._stretches()
        cuts = self.belief.cuts([(kind, high - low) for kind, low, high in stretches])
        size = int(np.count_nonzero(self.kept))
        best = Cut(0.0, 0.0, ())
        whole: list[tuple[float, Stretch]] = []
        for (kind, low, high), (first, last) in zip(stretches, cuts, strict=True):
            most = high - low - (kind is Kind.SOME)
            if kind in (Kind.FREE, Kind.NEEDED) or most < 1:
                continue
            for chances, backwards in ((first, False), (last, True)):
                worth = self._worth(chances[1 : most + 1], np.arange(1, most + 1), size)
                count = int(np.argmax(worth)) + 1
                if worth[count - 1] > best.worth + 1e-9:
                    span = (high - count, high) if backwards else (low, low + count)
                    best = Cut(float(worth[count - 1]), float(chances[count]), [span])
            if kind is Kind.UNKNOWN:
                whole.append((float(first[-1]), (low, high)))
        whole.sort(key=lambda item: (-item[0], item[1]))
        for count in range(2, len(whole) + 1):
            chance = math.prod(chance for chance, _ in whole[:count])
            spans = [span for _, span in whole[:count]]
            worth = self._worth(np.array([chance]), np.array([sum(high - low for low, high in spans)]), size)
            if worth[0] > best.worth + 1e-9:
                best = Cut(float(worth[0]), chance, spans)
        return best if best.stretches else None

    def _nodes(self, kept: Flags) -> Nodes:
        return tuple(sorted(node for at in np.flatnonzero(kept).tolist() for node in self.units[at]))

    def _kept_without(self, stretches: Sequence[Stretch]) -> Flags:
        kept = self.kept.copy()
        for low, high in stretches:
            kept[low:high] = False
        return kept

    def _copy(self) -> Sweep:
        other = copy.copy(self)
        other.kept, other.known = self.kept.copy(), list(self.known)
        return other

    def _worth(self, chance: np.ndarray, count: np.ndarray, size: int) -> np.ndarray:
        """Bits per call, where an interesting answer is asked twice to confirm it, and what there is to shrink."""
        some = np.clip(chance, 1e-9, 1 - 1e-9)
        bits = -(some * np.log2(some) + (1 - some) * np.log2(1 - some))
        worth = bits / (1 + some) + chance * count * (SHRINK / size + SHRINK_MODEL / self.problem.size)
        return np.where(chance < self.least_chance, 0.0, worth)

    def _stretches(self) -> list[tuple[Kind, int, int]]:
        """All units as stretches, each as long as one thing is known of it."""
        ends = dict(self.known)
        begins = np.ones(len(self.units) + 1, dtype=bool)
        begins[1:-1] = self.kept[1:] != self.kept[:-1]
        for low, high in self.known:  # removed units inside stay a part of the stretch
            begins[low], begins[low + 1 : high], begins[high] = True, False, True
        found: list[tuple[Kind, int, int]] = []
        for low, high in itertools.pairwise(np.flatnonzero(begins).tolist()):
            if ends.get(low) == high:
                kind = Kind.NEEDED if high - low == 1 else Kind.SOME
            else:
                kind = Kind.UNKNOWN if self.kept[low] else Kind.FREE
            found.append((kind, low, high))
        return found

    def _tight(self, stretch: Stretch) -> Stretch:
        """Without removed units at either end."""
        low, high = stretch
        inside = np.flatnonzero(self.kept[low:high])
        return (low + int(inside[0]), low + int(inside[-1]) + 1) if len(inside) else (high, high)
