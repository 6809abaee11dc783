"""Sign or range lost on the way: saturated, absolute, read with or without a sign, or NaN by a plain condition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.information import pattern_bits
from onnxreduce.explain.diagnosis.observation import Observation, widened
from onnxreduce.explain.diagnosis.recompute import Recomputer

LIMITS = {
    "int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int16": (-32768.0, 32767.0), "uint16": (0.0, 65535.0),
    "int32": (-(2.0**31), 2.0**31 - 1), "uint32": (0.0, 2.0**32 - 1), "float16": (-65504.0, 65504.0),
}  # fmt: skip
WIDTHS = (8, 16, 32)
_LARGEST_HALF = 65504.0
_LARGEST_EXP = 88.8
"""exp() of more is no float32."""


def ranges(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """All exact: each claim foretells every element."""
    if seen.expected.dtype.kind == "b":
        return
    yield from _saturated(seen)
    if (seen.wide_expected < 0).any():
        predicted = np.abs(seen.wide_expected)
        yield _claim(seen, ("absolute",), predicted, "is the right answer without its sign")
    yield from _reinterpreted(seen)
    if np.isnan(seen.wide_got).any():
        yield from _not_a_number(seen)


def _claim(seen: Observation, key: Key, wide: np.ndarray, what: str, evidence: float | None = None) -> Claim:
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = wide.astype(seen.expected.dtype)
    return Claim(DiagnosisKind.RANGE, key, predicted, what, evidence=evidence)


def _saturated(seen: Observation) -> Iterator[Claim]:
    """At the limits of a type. A limit of 0 alone says nothing: so does many an activation."""
    right = seen.wide_expected
    for name, (low, high) in LIMITS.items():
        if not (right > high).any() and not (low and (right < low).any()):
            continue
        beyond = (right > high) | (right < low)
        what = f"is the right answer cut to the range of {name}, {low:g} to {high:g}"
        yield _claim(seen, ("range", name), np.clip(right, low, high), what, _pattern(beyond))


def _reinterpreted(seen: Observation) -> Iterator[Claim]:
    """Negative numbers that come out as if they had no sign, or the reverse; floats in units of a recorded scalar."""
    right = seen.wide_expected
    for width in WIDTHS:
        for name, unit in _units(seen):
            times = "" if name == "1" else f" times {name}"
            added = np.where(right < 0, right + 2.0**width * unit, right)
            what = f"is the right answer with 2**{width}{times} added to its negative elements, as if they had no sign"
            yield _claim(seen, ("unsigned", str(width), name), added, what, _pattern(right < 0))
            wrapped = right / unit
            wrapped = (wrapped - 2.0**width * np.floor(wrapped / 2.0**width + 0.5)) * unit
            what = f"is the right answer with only its low {width} bits, read with a sign{times and ', in units of '}"
            what += name if times else ""
            yield _claim(seen, ("signed", str(width), name), wrapped, what)


def _units(seen: Observation) -> Iterator[tuple[str, float]]:
    yield "1", 1.0
    if not seen.is_number:
        return
    for name, array in seen.others():
        if array.size == 1 and array.dtype == seen.expected.dtype:
            unit = float(widened(array).ravel()[0])
            if unit > 0 and np.isfinite(unit) and unit != 1.0:
                yield name, unit


def _not_a_number(seen: Observation) -> Iterator[Claim]:
    """NaN exactly where the right answer or a value of the same shape fulfils a condition."""
    for name, array in [("the right answer", seen.expected), *seen.others()]:
        if array.shape != seen.expected.shape:
            continue
        wide = widened(array)
        conditions = {
            "negative": wide < 0,
            "zero": wide == 0,
            "zero or negative": wide <= 0,
            "above 65504, the largest float16": np.abs(wide) > _LARGEST_HALF,
            "too large for exp": wide > _LARGEST_EXP,
            "infinite": np.isinf(wide),
        }
        for condition, where in conditions.items():
            if where.any() and not where.all():
                predicted = np.where(where, np.nan, seen.wide_expected)
                what = f"is NaN exactly where {name} is {condition}"
                yield _claim(seen, ("NaN", name, condition), predicted, what, _pattern(where))


def _pattern(where: np.ndarray) -> float:
    return pattern_bits(where.ravel().astype(np.uint8))
