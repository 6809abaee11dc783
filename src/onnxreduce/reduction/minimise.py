"""From few nodes to a set of which no node can go: 1-minimal (Zeller & Hildebrandt 2002).

What counts is a single deletion of each node from the very set that is left. So the nodes likeliest to be free are
tried first: each success makes all answers about larger sets void.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from onnxreduce.reduction.nodes import NodeProblem, Nodes, by_paths, closed
from onnxreduce.reduction.sweep import Sweep

LEAST_CHANCE = 0.05
"""What is less likely to go is left to single deletions."""
HALVES_FROM = 20
"""Halves of sets larger than this are tried alone."""
PAIRS_UP_TO = 8
"""Pairs are tried for at most this many nodes: they cost a call each and rarely succeed."""


def minimise(
    problem: NodeProblem,
    nodes: Nodes,
    needed: Iterable[int] = (),
    monotone: Callable[[Nodes], bool] = lambda nodes: False,
) -> Nodes:
    """Sweep along paths, then delete singly until no node can go; `needed` are tried last.

    Pairs are tried where `monotone` denies that what cannot go alone cannot go together.
    """
    nodes = _halves(problem, nodes)
    state = Sweep(problem, by_paths(problem, nodes), LEAST_CHANCE, set(needed).intersection(nodes))
    best = _singles(problem, state.run(), state.needed)
    while 2 < len(best) <= PAIRS_UP_TO and not monotone(best):
        for pair in _pairs(problem, best):
            smaller = _without(problem, best, pair)
            if smaller and problem.interesting(smaller):
                best = _singles(problem, smaller, ())
                break
        else:
            break
    return best


def _halves(problem: NodeProblem, nodes: Nodes) -> Nodes:
    """Keep one half of the nodes as long as one is interesting.

    A race may need a whole batch of nodes before it to stay or to go, of which no part can go: two cheap calls.
    """
    while len(nodes) > HALVES_FROM:
        middle = len(nodes) // 2
        for half in (closed(problem, nodes[middle:]), closed(problem, nodes[:middle])):
            problem.foresee([closed(problem, nodes[:middle])])
            if len(half) < len(nodes) and problem.interesting(half):
                nodes = half
                break
        else:
            break
    return nodes


def _singles(problem: NodeProblem, best: Nodes, needed: Iterable[int]) -> Nodes:
    last = frozenset(needed)
    order = sorted(by_paths(problem, best), key=last.__contains__)
    untried = list(order)
    while untried:
        node = untried.pop(0)
        smaller = _without(problem, best, (node,))
        after = (_without(problem, smaller, (later,)) for later in untried)
        problem.foresee(_later(problem, best, smaller, untried), after)
        if smaller and problem.interesting(smaller):
            left, again = set(smaller), set(order) - set(untried)
            order = [at for at in order if at in left]
            untried = [at for at in order if at not in again] + [at for at in order if at in again]
            best = smaller
    return best


def _later(problem: NodeProblem, best: Nodes, smaller: Nodes, untried: Sequence[int]) -> Iterator[Nodes]:
    """What is asked next where `smaller` is not interesting, which is likely by now, and where it is."""
    for node in untried:
        yield _without(problem, best, (node,))
        if node in smaller:
            yield _without(problem, smaller, (node,))


def _without(problem: NodeProblem, nodes: Nodes, gone: Iterable[int]) -> Nodes:
    away = closed(problem, gone)
    return tuple(node for node in nodes if node not in away)


def _pairs(problem: NodeProblem, best: Nodes) -> Iterator[Nodes]:
    for node in reversed(best):
        for producer in sorted(set(problem.producers(node)) & set(best), reverse=True):
            yield (producer, node)
