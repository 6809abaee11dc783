"""How often a fault shows, and how many runs a verdict takes for it."""

from __future__ import annotations

import math
from collections import deque

CONFIDENCE = 0.95
"""A verdict shall find the fault, where it is, at least this often."""
MOST_REPEATS = 30
"""A fault that shows more seldom than one time in ten is found less often than that."""
RECENT_RUNS = 40
"""An estimate rests on this many of the last runs: a smaller candidate may fail more seldom, or more often."""


class Reliability:
    """Counts of runs of candidates that are known to show the fault.

    A fault is reliable until one such run does not fail. From then on a verdict takes `repeats` runs, of which the
    first that fails ends it.
    """

    def __init__(self) -> None:
        self._trials: deque[tuple[int, int]] = deque()
        self.unreliable = False

    def add(self, failed: int, runs: int) -> None:
        """Count the runs of one candidate."""
        self._trials.append((failed, runs))
        self.unreliable = self.unreliable or failed < runs
        while len(self._trials) > 1 and self.runs - self._trials[0][1] >= RECENT_RUNS:
            self._trials.popleft()

    @property
    def failed(self) -> int:
        """Runs that failed, of the recent ones."""
        return sum(failed for failed, _ in self._trials)

    @property
    def runs(self) -> int:
        """Recent runs."""
        return sum(runs for _, runs in self._trials)

    @property
    def p(self) -> float | None:
        """The share of runs that fail; None while nothing is known."""
        return self.failed / self.runs if self.runs else None

    @property
    def repeats(self) -> int:
        """Runs of one verdict: ceil(log(1 - confidence) / log(1 - p))."""
        if not self.unreliable:
            return 1
        if self.failed in (0, self.runs):
            return 2 if self.failed else MOST_REPEATS
        assert self.p is not None
        return min(max(math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - self.p)), 1), MOST_REPEATS)

    @property
    def confidence(self) -> float | None:
        """The chance that a verdict finds a fault that is there, given the counts and no other knowledge of p.

        With a uniform prior p is Beta(failed + 1, passed + 1), and all of r runs pass with the mean of (1 - p)^r.
        """
        if not self.runs:
            return None
        missed = 1.0
        for at in range(self.repeats):
            missed *= (self.runs - self.failed + 1 + at) / (self.runs + 2 + at)
        return 1 - missed
