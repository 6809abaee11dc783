"""Whether a claim holds for an observation, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim
from onnxreduce.explain.diagnosis.information import FEW, information, nearness, pattern_bits
from onnxreduce.explain.diagnosis.observation import Observation, widened

NEARER = 3.0
"""A claim must be 2**3 times nearer to the wrong elements than the right answer is ..."""
NEARER_SHARE = 0.99
"""... to all but one in a hundred of them."""
MOST_COUNTED = 1 << 18
"""So many elements are looked at to count the bits in their places."""


@dataclass(frozen=True)
class Match:
    """A claim that holds: for `matched` elements, to `error` (over the output's scale), worth so many `bits`."""

    claim: Claim
    matched: int
    error: float
    bits: float


def match(claim: Claim, seen: Observation) -> Match | None:
    """Try a claim; None when it does not hold for every element that it speaks of."""
    predicted = claim.predicted
    if predicted.shape != seen.got.shape or predicted.dtype != seen.got.dtype:
        return None
    covered = np.ones(seen.got.size, bool) if claim.covered is None else claim.covered.ravel()
    flat = predicted.ravel()
    sample = seen.sample[covered[seen.sample]]
    if not agree(flat[sample], seen.got.ravel()[sample], seen.allowed).all():
        return None
    if not agree(flat[covered], seen.got.ravel()[covered], seen.allowed).all():
        return None
    wrong = seen.wrong.ravel() & covered
    if not wrong.any() or (seen.is_number and not _is_nearer(seen, flat, wrong)):
        return None
    bits = claim.evidence
    if bits is None:
        bits = information(*_at(seen, flat, seen.differs.ravel() & covered)) + _which(seen, wrong, covered)
        bits = min(claim.at_most, bits)
    return Match(claim, int(covered.sum()), _error(widened(flat[covered]), seen, covered), bits - claim.parameters)


def agree(predicted: np.ndarray, got: np.ndarray, allowed: float) -> np.ndarray:
    """Which elements are the same, NaN included, or differ by no more than `allowed`."""
    if not allowed:
        same = predicted == got
        return np.asarray(same | (predicted != predicted) & (got != got))
    first, second = widened(predicted), widened(got)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(first - second) <= allowed
    return np.asarray(near | (first == second) | (np.isnan(first) & np.isnan(second)))


def _is_nearer(seen: Observation, predicted: np.ndarray, wrong: np.ndarray) -> bool:
    return bool((nearness(*_at(seen, predicted, wrong)) >= NEARER).mean() >= NEARER_SHARE)


def _which(seen: Observation, wrong: np.ndarray, covered: np.ndarray) -> float:
    """Bits in which of the elements are wrong, of those that could be by their right values, where numbers are few."""
    right = seen.expected.ravel()
    at = np.flatnonzero(covered)[:MOST_COUNTED]
    if np.unique(seen.got.ravel()[at][wrong[at]]).size > FEW:
        return 0.0
    could_be = np.isin(right[at], np.unique(right[at][wrong[at]]))
    return pattern_bits(wrong[at][could_be])


def _at(seen: Observation, predicted: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right answer, output and prediction at some elements, as float64."""
    return seen.wide_expected.ravel()[where], seen.wide_got.ravel()[where], widened(predicted[where])


def _error(predicted: np.ndarray, seen: Observation, covered: np.ndarray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(predicted - seen.wide_got.ravel()[covered])
    largest = float(off[np.isfinite(off)].max(initial=0.0))
    return largest / seen.scale if seen.scale else largest
