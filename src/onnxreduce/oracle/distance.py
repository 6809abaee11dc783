"""Two more measures of how far arrays are apart. They decide nothing: they tell what kind of fault it may be.

A cosine of almost 1 beside large differences is a wrong scale or offset; one of almost 0 is other data. A distance of a
few units in the last place is rounding; where signs differ it is beyond any.
"""

from __future__ import annotations

import numpy as np

_ULP_DTYPES = ("float16", "bfloat16", "float32", "float64")


def cosine(expected: np.ndarray, actual: np.ndarray) -> float | None:
    """Cosine similarity of float64 arrays, over elements that are finite in both; None where one side is all zeros."""
    both = np.isfinite(expected) & np.isfinite(actual)
    one, other = _on_scale(expected[both]), _on_scale(actual[both])
    length = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.clip(np.dot(one, other) / length, -1.0, 1.0)) if length else None


def ulps(expected: np.ndarray, actual: np.ndarray) -> int | None:
    """The largest distance in units in the last place, over elements that are finite in both; None for other dtypes.

    That many representable numbers lie from one to the other, those across zero included (B. Dawson, "Comparing
    Floating Point Numbers", 2012).
    """
    if expected.dtype.name not in _ULP_DTYPES or expected.dtype != actual.dtype:
        return None
    one, other = _ordinals(expected), _ordinals(actual)
    both = np.isfinite(expected) & np.isfinite(actual)
    return int((np.maximum(one, other) - np.minimum(one, other))[both].max(initial=0))


def _on_scale(values: np.ndarray) -> np.ndarray:
    """Flat, with a largest magnitude of 1, so that no square overflows."""
    largest = float(np.abs(values).max(initial=0.0))
    return values.ravel() / largest if largest else values.ravel()


def _ordinals(values: np.ndarray) -> np.ndarray:
    """The position of each number among all of its dtype, as uint64; both zeros have the same."""
    width = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"u{width}").astype(np.uint64)
    sign = np.uint64(1 << (8 * width - 1))
    return np.where(bits & sign, sign - (bits & (sign - np.uint64(1))), bits + sign)
