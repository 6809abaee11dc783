"""Who is told how a reduction goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnxreduce.reduction.problem import Problem
from onnxreduce.reduction.shrink import Shrinking


@dataclass(frozen=True)
class Watcher:
    """Who is told: `stage` gets a line at each step, `progress` and `shrinking` the problem on the way."""

    stage: Callable[[str], None] = lambda text: None
    progress: Callable[[Problem], None] = lambda problem: None
    shrinking: Callable[[Shrinking], None] = lambda problem: None
