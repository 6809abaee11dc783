"""Look in cheap places first: small sets that the evidence of the golden run points at.

A window of 16 nodes costs a hundredth of a full model, so that many of them may fail before it matters. A race shows
only in some of the windows around it, with gaps (its buffers must meet within one batch): a window that does not fail
says little, and is tried again at another offset while it is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from onnxreduce.reduction.nodes import Evidence, NodeProblem, Nodes, closed

SPAN_AT_MOST = 128
"""Suspects that span at most this many nodes are tried as one window."""
FIRST_WINDOW = 16
SHIFT_UP_TO = 32
"""Windows of at most this many nodes are also tried shifted by half, both ways."""
MARGIN = 8
"""Nodes added on both sides of the suspects' span: a race needs its neighbours in execution order."""
LARGEST_WINDOW_SHARE = 4
"""Windows grow to a quarter of the model; past that the sweep is cheaper."""
BEFORE_EXPOSING = 2
"""Windows that are tried before all values of the full model are exposed: for a plain kernel fault that ends it."""
BEFORE_DEAR = 8
"""The same where that one question costs far more than all these windows."""


def look(problem: NodeProblem, evidence: Evidence) -> Nodes | None:
    """The first interesting set among the cheap ones, or None."""
    sets: Iterator[Sequence[int]] = chain(([node] for node in evidence.named), evidence.alike)
    found = _first(problem, sets)
    if found or not evidence.suspects:
        return found
    windows = _windows(problem.size, evidence.suspects)
    found = _first(problem, islice(windows, BEFORE_DEAR if problem.dear else BEFORE_EXPOSING))
    if found:
        return found
    wrong = problem.wrong_nodes(range(problem.size))
    if wrong:
        first = min(wrong)
        windows = chain([(first,)], _windows(problem.size, [first]), windows)
    return _first(problem, windows)


def narrow(problem: NodeProblem, nodes: Nodes) -> Nodes:
    """One call that often saves many: expose every value of a small interesting set and try the first wrong node.

    Exposing heals some faults; a clean answer says nothing and costs this one call.
    """
    wrong = problem.wrong_nodes(nodes)
    found = _first(problem, [(min(wrong),)]) if wrong else None
    return found or nodes


def _first(problem: NodeProblem, sets: Iterable[Sequence[int]]) -> Nodes | None:
    listed = list(sets)
    for at, nodes in enumerate(listed):
        candidate = closed(problem, nodes)
        problem.foresee(closed(problem, later) for later in listed[at + 1 :])
        if candidate and problem.interesting(candidate):
            return candidate
    return None


def _windows(size: int, suspects: Sequence[int]) -> Iterator[Nodes]:
    """Windows in file order around the suspects: their whole span where it is small, else around the latest one."""
    low, high = min(suspects), max(suspects)
    if high - low < SPAN_AT_MOST:
        start, end = low - MARGIN, high + 1 + MARGIN
    else:
        start, end = high + 1 - FIRST_WINDOW // 2, high + 1 + FIRST_WINDOW // 2
    while True:
        start, end = max(start, 0), min(end, size)
        width = end - start
        yield tuple(range(start, end))
        if width <= SHIFT_UP_TO:
            for by in (-(width // 2), width // 2):
                yield tuple(range(max(start + by, 0), min(end + by, size)))
        if width * 2 > size // LARGEST_WINDOW_SHARE:
            return
        start, end = start - (width + 1) // 2, end + (width + 1) // 2
