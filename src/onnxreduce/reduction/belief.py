"""How likely each set of nodes can go, given all answers so far.

Nodes that a fault needs come in runs: a fusion's pattern, a chain of kernels, the tenants of one buffer. So the nodes
in their order are a Markov chain of two states, free and needed, and the answers are observations:

- a set that could go is free; a node that could not go alone is needed;
- of a stretch of nodes that could not go at least one is needed.

The stretches of the last kind are kept disjoint, so that the probability of all answers is a product of one 2 x 2
matrix per stretch, and that of a further cut needs only the product up to it and the product after it (the forward and
backward passes of a hidden Markov model). How frequent runs are is not known: it is given a grid of values, and each
counts as much as it explains the answers. (ProbDD, Wang et al. 2021, learns a probability for each element on its own;
this adds the neighbours and learns the density.)
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

RUN_BEGINS = 2.0 ** -np.arange(1, 12)
"""Chances that a needed node follows a free one, equally likely at first."""
RUN_ENDS = 0.1
"""The chance that a free node follows a needed one; a run has about ten nodes, or many fewer, at little cost."""


class Kind(Enum):
    """What is known of a stretch of nodes."""

    FREE = 0
    NEEDED = 1
    UNKNOWN = 2
    SOME = 3
    """At least one is needed."""


class Belief:
    """Matrices [grid point, state before, state after] of stretches of up to `length` nodes; state 0 is free."""

    def __init__(self, length: int) -> None:
        begins, ends = RUN_BEGINS, np.full_like(RUN_BEGINS, RUN_ENDS)
        usual = np.stack([ends, begins], -1) / (begins + ends)[:, None]
        power = np.arange(length + 1)[:, None, None, None]
        settled = np.broadcast_to(usual[:, None, :], (len(begins), 2, 2))
        step = np.stack([np.stack([1 - begins, begins], -1), np.stack([ends, 1 - ends], -1)], -2)
        self._start = usual
        self._any: Array = settled + (1 - begins - ends)[:, None, None] ** power * (np.eye(2) - settled)
        self._free: Array = np.zeros_like(self._any)
        free = step[..., 0] * (1 - begins)[:, None] ** (power[1:, ..., 0] - 1)
        self._free[1:, :, :, 0] = np.maximum(free, 1e-200)  # long stretches would underflow
        self._free[0] = np.eye(2)
        self._needed: Array = step * np.array([0.0, 1.0])

    def cuts(self, stretches: Sequence[tuple[Kind, int]]) -> list[tuple[Array, Array]]:
        """For each stretch the chances that its first n nodes are free, and its last n, for n from 0 to its length."""
        forward, backward = [self._start], [np.ones_like(self._start)]
        evidence = np.zeros(len(self._start))  # logarithms: each grid point on its own scale, so that none is lost
        for kind, length in stretches:
            after = np.einsum("gi,gij->gj", forward[-1], self._matrix(kind, length))
            forward.append(after / after.sum(1, keepdims=True))
            evidence += np.log(after.sum(1))
        for kind, length in reversed(stretches):
            before = np.einsum("gij,gj->gi", self._matrix(kind, length), backward[-1])
            backward.append(before / before.sum(1, keepdims=True))
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        return [
            self._cut(kind, length, forward[at], backward[-2 - at], weights)
            for at, (kind, length) in enumerate(stretches)
        ]

    def _matrix(self, kind: Kind, length: int) -> Array:
        if kind is Kind.NEEDED:
            return self._needed
        matrix: Array = self._any[length] if kind is not Kind.FREE else self._free[length]
        return matrix - self._free[length] if kind is Kind.SOME else matrix

    def _cut(self, kind: Kind, length: int, before: Array, after: Array, weights: Array) -> tuple[Array, Array]:
        if kind in (Kind.FREE, Kind.NEEDED):
            return np.zeros(length + 1), np.zeros(length + 1)
        free = self._free[: length + 1]
        rest = (self._any[: length + 1] - free if kind is Kind.SOME else self._any[: length + 1])[::-1]
        total = np.einsum("gi,gij,gj->g", before, rest[0], after)
        first = np.einsum("gi,ngij,ngjk,gk->ng", before, free, rest, after, optimize=True)
        last = np.einsum("gi,ngij,ngjk,gk->ng", before, rest, free, after, optimize=True)
        return first / total @ weights, last / total @ weights
