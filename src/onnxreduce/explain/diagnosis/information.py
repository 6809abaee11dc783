"""How much a match says: bits of the wrong elements that a claim foretells and the right answer does not.

A single element, a constant, or 0, 1, 2, 3, ... is met by chance. So each distinct number counts once, for what it
takes to write it down (few bits for 1 or 0.25, 23 for a float32 of no pattern), and never for more than the claim is
nearer to it than the right answer is. Numbers that lie in a series count by their differences. This is the idea of
minimum description length (Rissanen 1978), with plain codes.
"""

from __future__ import annotations

import zlib

import numpy as np

FEW = 16
"""Up to this many distinct numbers, their arrangement counts too: bool and small integers say nothing otherwise."""
_MOST_ELEMENTS = 1 << 18
_DECIMALS = 6
_DECIMAL_BITS = 3.33
_ZLIB_TRUST = 0.5
"""A deflated pattern is no shortest description: half of its length is counted."""


def information(expected: np.ndarray, got: np.ndarray, predicted: np.ndarray) -> float:
    """Bits that a prediction of wrong elements is worth; all three are float64, of the same length."""
    if got.size > _MOST_ELEMENTS:
        at = np.linspace(0, got.size - 1, _MOST_ELEMENTS).astype(np.int64)
        expected, got, predicted = expected[at], got[at], predicted[at]
    if not got.size:
        return 0.0
    bits = np.minimum(_gain(expected, got, predicted), number_bits(got))
    numbers, first, codes = np.unique(got, return_index=True, return_inverse=True)
    distinct = float(bits[first].sum())
    series = _series_bits(got)
    arrangement = pattern_bits(codes.ravel()) if numbers.size <= FEW else 0.0
    return min(distinct, series) + min(arrangement, float(np.count_nonzero(bits)))


def pattern_bits(codes: np.ndarray) -> float:
    """Bits in the arrangement of a few small integers (0 to 255), beyond what all equal ones would take."""
    flat = codes.astype(np.uint8).ravel()
    packed = np.packbits(flat.astype(bool)) if flat.max(initial=0) <= 1 else flat
    length = len(zlib.compress(packed.tobytes(), 9)) - len(zlib.compress(bytes(packed.size), 9))
    return max(0.0, 8.0 * length * _ZLIB_TRUST)


def number_bits(numbers: np.ndarray) -> np.ndarray:
    """Bits to write each number (float64) down, in binary or in decimal, whichever is shorter; 0 for 0, NaN and Inf."""
    finite = np.isfinite(numbers) & (numbers != 0)
    safe = np.where(finite, np.abs(numbers), 1.0)
    bits: np.ndarray = np.where(finite, np.minimum(_binary(safe), _decimal(safe)), 0.0)
    return bits


def nearness(expected: np.ndarray, got: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """How many times nearer the prediction is than the right answer, as log2; 0 where it is not nearer."""
    return _gain(expected, got, predicted)


def _gain(expected: np.ndarray, got: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        off = np.abs(got - predicted)
        finest = np.maximum(np.abs(got) * 2.0**-24, np.finfo(np.float32).tiny)
        before = np.abs(got - expected)
        gain = np.log2(before / np.maximum(off, finest))
    both = np.isnan(got) & np.isnan(predicted) | (got == predicted) & ~np.isfinite(got)
    usual = np.isfinite(gain)
    lost = np.isfinite(got) & np.isfinite(predicted) & ~np.isfinite(expected)
    return np.where(both | lost, 24.0, np.where(usual, np.clip(gain, 0.0, 24.0), 0.0))


def _series_bits(got: np.ndarray) -> float:
    """Bits of the numbers as a first one and the distinct steps between them, where the steps are few."""
    if got.size < 4 or not np.isfinite(got).all():
        return float("inf")
    steps = np.diff(got)
    grain = float(np.abs(got).max()) * 1e-6
    if not grain:
        return float("inf")
    distinct = np.unique(np.round(steps / grain))
    if distinct.size * 4 > steps.size:
        return float("inf")
    return float(number_bits(got[:1])[0] + number_bits(distinct * grain).sum())


def _binary(numbers: np.ndarray) -> np.ndarray:
    """Significant bits of a float32's mantissa."""
    mantissa = np.round(np.frexp(numbers)[0] * 2.0**24).astype(np.int64)
    lowest = mantissa & -mantissa
    bits: np.ndarray = 24.0 - np.log2(np.maximum(lowest, 1).astype(np.float64))
    return bits


def _decimal(numbers: np.ndarray) -> np.ndarray:
    """Bits of the fewest decimal digits that give a float32."""
    power = np.floor(np.log10(numbers))
    leading = numbers / 10.0**power
    digits = np.full(numbers.shape, _DECIMALS + 1)
    for count in reversed(range(_DECIMALS)):
        digits[np.abs(np.round(leading, count) - leading) <= 2.0**-23 * leading] = count + 1
    return np.asarray(digits * _DECIMAL_BITS)
