"""The right answer times a constant, or plus one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.recompute import Recomputer

FITTED_BITS = 24.0
"""What one fitted float32 costs."""


def scaled(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """The constant that fits best: by least squares for a factor, the median difference for an offset."""
    finite = np.isfinite(seen.wide_expected) & np.isfinite(seen.wide_got)
    right, got = seen.wide_expected[finite], seen.wide_got[finite]
    if not right.size or seen.expected.dtype.kind == "b":
        return
    with np.errstate(over="ignore", invalid="ignore"):
        square = float((right * right).sum())
        factor = float((right * got).sum()) / square if square else 0.0
        offset = float(np.median(got - right))
    if factor and np.isfinite(factor):
        yield _claim(seen, "factor", seen.wide_expected * factor, f"is the right answer times {factor:.6g}")
    if offset and np.isfinite(offset):
        sign = "plus" if offset > 0 else "minus"
        yield _claim(seen, "offset", seen.wide_expected + offset, f"is the right answer {sign} {abs(offset):.6g}")


def _claim(seen: Observation, name: str, wide: np.ndarray, what: str) -> Claim:
    with np.errstate(over="ignore", invalid="ignore"):
        if seen.expected.dtype.kind in "iu":
            wide = np.round(wide)
        predicted = wide.astype(seen.expected.dtype)
    return Claim(DiagnosisKind.SCALED, (name,), predicted, what, parameters=FITTED_BITS)
