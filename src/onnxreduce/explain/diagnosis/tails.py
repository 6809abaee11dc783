"""The output is right up to some place, and from there on was never written, or written by something else."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.other_values import content_of
from onnxreduce.explain.diagnosis.overlay import overlaid, ways
from onnxreduce.explain.diagnosis.recompute import Recomputer

GARBAGE_BITS = 24.0
"""A tail of unknown content is told as likely, and takes further inputs with the same place to be certain."""
GARBAGE_ELEMENTS = 16
_UNRELATED = 2.4
"""Times the correlation that unrelated numbers have by chance, one over the root of their count."""
_JUMP = 0.5


def tails(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """From the first wrong element on: zeros, NaN, one number, another value's content, or something unrelated.

    Nothing is said where the wrong elements are those whose right values are the largest or smallest: then the value
    decides, not the place.
    """
    start = int(np.argmax(seen.wrong.ravel()))
    if start == 0 or seen.wrong.ndim == 0 or _decided_by_value(seen):
        return
    yield from _fills(seen, start)
    for name, source in seen.others():
        for way in ways(seen.expected, source):
            predicted, written = overlaid(seen.expected, source, way)
            if written > start * seen.expected.itemsize:
                part = "" if written == predicted.nbytes else f" up to byte {written} of {predicted.nbytes}"
                text = f"{content_of(seen, name, way)}{part}"
                yield _claim(seen, start, ("value", name, way), predicted.ravel()[start:], text)
    if _is_garbage(seen, start):
        tail = seen.got.ravel()[start:]
        yield _claim(seen, start, ("unrelated",), tail, "numbers unrelated to the right ones", GARBAGE_BITS)


def _fills(seen: Observation, start: int) -> Iterator[Claim]:
    """Each wrong element counts one bit, but for the first where it says which number it is."""
    tail = seen.got.ravel()[start:]
    count = float(np.count_nonzero(seen.wrong.ravel()[start:]))
    if not tail.any():
        yield _claim(seen, start, ("zeros",), tail, "zeros", count)
    elif (tail != tail).all():
        yield _claim(seen, start, ("NaN",), tail, "NaN", count)
    elif (tail == tail[0]).all():
        yield _claim(seen, start, ("constant",), tail, f"{float(tail[0]):.6g} everywhere", count - 1)


def _claim(
    seen: Observation, start: int, key: Key, tail: np.ndarray, text: str, evidence: float | None = None
) -> Claim:
    predicted = seen.expected.ravel().copy()
    predicted[start:] = tail
    what = f"is right up to {_place(seen, start)}, and from there on holds {text}"
    return Claim(DiagnosisKind.TAIL, key, predicted.reshape(seen.expected.shape), what, evidence=evidence)


def _place(seen: Observation, start: int) -> str:
    row = seen.expected.size // seen.expected.shape[0]
    if start % row == 0:
        return f"row {start // row} of {seen.expected.shape[0]}"
    return f"element {start} of {seen.expected.size}"


def _decided_by_value(seen: Observation) -> bool:
    wrong = seen.wrong.ravel()
    right = seen.wide_expected.ravel()
    inside, outside = right[wrong], right[~wrong]
    if not outside.size:
        return True
    return bool(inside.min() >= outside.max() or inside.max() <= outside.min())


def _is_garbage(seen: Observation, start: int) -> bool:
    """At least two whole rows after at least as many right ones, wrong at once and everywhere, and uncorrelated."""
    shape = seen.expected.shape
    row = seen.expected.size // shape[0]
    rows = shape[0] - start // row
    wrong = seen.wrong.ravel()[start:]
    if start % row or rows < 2 or start // row < 2 or wrong.size < GARBAGE_ELEMENTS or wrong.mean() < 0.95:
        return False
    got, right = seen.wide_got.ravel()[start:], seen.wide_expected.ravel()[start:]
    if not np.isfinite(got).all():
        return bool(np.isfinite(right).all())
    off = np.abs(got - right)
    if off[:row].mean() < _JUMP * off.mean() or not got.std() or not right.std():
        return False
    return bool(abs(np.corrcoef(got, right)[0, 1]) < _UNRELATED / math.sqrt(got.size))
