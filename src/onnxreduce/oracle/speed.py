"""Whether the suspect is slower than it may be: asked for by a factor, and measured so that noise does not count."""

from __future__ import annotations

from onnxreduce.runtimes.base import RunResult

REPEATS = 5
"""Runs in the session of the first one, which is the warm-up; the median of them counts."""
SHORTEST = 0.005
"""Seconds of a run below which nothing is called slow: schedulers and timers alone cost up to a millisecond or two."""
FIRST_LOOK = 1.5
"""A first look must clear both bars by this factor, and its confirmation need not: no reduction ends at the edge."""


def slowness(factor: float, right: RunResult, result: RunResult, *, first_look: bool = False) -> str:
    """How much slower than the reference the suspect is, in words; empty when that is allowed."""
    seconds, limit = result.seconds_again, factor * right.seconds_again
    margin = FIRST_LOOK if first_look else 1.0
    if seconds <= margin * SHORTEST or seconds <= margin * limit:
        return ""
    times = seconds / max(right.seconds_again, 1e-9)
    return f"{1000 * seconds:.3g} ms a run, {times:.3g} times the {1000 * right.seconds_again:.3g} ms of the reference"
