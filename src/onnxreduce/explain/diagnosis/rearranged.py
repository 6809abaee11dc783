"""The right numbers at wrong places: axes exchanged, slices reversed, shifted, repeated or in another order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.matching import agree
from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.recompute import Recomputer

MOST_AXES = 5
MOST_SLICES = 256
"""Up to this many slices along an axis, each is sought on its own."""
MOST_SORTED = 1 << 18
"""Up to this many elements, all are compared in order of size."""
_WINDOW = 32
_MOST_SHIFTS = 8
_MOST_ALIKE = 64
_LEAST_COVERED = 0.75


def rearranged(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """Plain rearrangements first; each costs the bits that name it among its like."""
    yield from _transposed(seen)
    for axis, length in enumerate(seen.expected.shape):
        if length > 1:
            yield from _along(seen, axis)
    yield from _shifted_flat(seen)
    yield from _in_any_order(seen)


def _claim(
    seen: Observation, key: Key, predicted: np.ndarray, what: str, bits: float, covered: np.ndarray | None = None
) -> Claim:
    array = np.ascontiguousarray(predicted).reshape(seen.expected.shape)
    return Claim(DiagnosisKind.REARRANGED, key, array, what, parameters=bits, covered=covered)


def _transposed(seen: Observation) -> Iterator[Claim]:
    """Written in another order of axes, or read in one."""
    shape = seen.expected.shape
    long = [axis for axis, length in enumerate(shape) if length > 1]
    if not 2 <= len(long) <= MOST_AXES:
        return
    squeezed = seen.expected.reshape([shape[axis] for axis in long])
    orders = [order for order in itertools.permutations(range(len(long))) if list(order) != sorted(order)]
    bits = math.log2(2 * len(orders))
    for order in orders:
        names = [long[axis] for axis in order]
        written = squeezed.transpose(order)
        what = f"is the right answer with its axes in the order {names}, in the same shape"
        yield _claim(seen, ("written", *map(str, order)), written, what, bits)
        read = squeezed.reshape([squeezed.shape[axis] for axis in order]).transpose(np.argsort(order))
        what = f"is the right answer read as if its axes lay in the order {names}"
        yield _claim(seen, ("read", *map(str, order)), read, what, bits)


def _along(seen: Observation, axis: int) -> Iterator[Claim]:
    """Slices along one axis that are other slices of the right answer."""
    length = seen.expected.shape[axis]
    one_of = math.log2(length)
    right, got = np.moveaxis(seen.expected, axis, 0), np.moveaxis(seen.got, axis, 0)

    def taken(word: str, places: np.ndarray, what: str, bits: float) -> Claim:
        return _claim(seen, (word, str(axis)), seen.expected.take(places, axis), what, bits)

    numbers = np.arange(length)
    yield taken("reversed", numbers[::-1], f"is the right answer reversed along axis {axis}", 1.0)
    middle = length // 2
    same = _slices_like(right, got[middle], seen.allowed)
    for place in same[:_MOST_SHIFTS]:
        shift = int(place) - middle
        if shift:
            rolled = f"is the right answer rolled by {-shift} along axis {axis}"
            yield taken("rolled", (numbers + shift) % length, rolled, one_of)
            yield from _shifted(seen, axis, shift)
        repeated = f"is slice {place} of the right answer repeated along axis {axis}"
        yield taken("repeated", np.full(length, place), repeated, one_of)
    if length <= MOST_SLICES and same.size:
        places = _each_slice(right, got, seen.allowed)
        if places is not None:
            shown = ", ".join(map(str, places[:8])) + (", ..." if length > 8 else "")
            what = f"has along axis {axis} slices {shown} of the right answer"
            yield taken("slices", places, what, length * one_of)


def _shifted(seen: Observation, axis: int, shift: int) -> Iterator[Claim]:
    """As rolled, but what comes in at the edge is not looked at."""
    length = seen.expected.shape[axis]
    from_places = np.arange(length) + shift
    inside = (from_places >= 0) & (from_places < length)
    if inside.mean() < _LEAST_COVERED:
        return
    shape = [length if each == axis else 1 for each in range(seen.expected.ndim)]
    covered = np.broadcast_to(inside.reshape(shape), seen.expected.shape)
    predicted = seen.expected.take(np.clip(from_places, 0, length - 1), axis)
    what = f"is the right answer shifted by {-shift} along axis {axis}"
    yield _claim(seen, ("shifted", str(axis)), predicted, what, math.log2(length), covered)


def _shifted_flat(seen: Observation) -> Iterator[Claim]:
    """The right elements, a number of places further on in memory."""
    right, got = seen.expected.ravel(), seen.got.ravel()
    if right.size < 2 * _WINDOW:
        return
    middle = right.size // 2
    window = got[middle : middle + _WINDOW]
    places = np.flatnonzero(agree(right[: right.size - _WINDOW + 1], window[0], seen.allowed))
    places = places[np.argsort(np.abs(places - middle), kind="stable")][: 64 * _MOST_SHIFTS]
    shifts = [
        int(place) - middle
        for place in places
        if place != middle and agree(right[place : place + _WINDOW], window, seen.allowed).all()
    ]
    for shift in shifts[:_MOST_SHIFTS]:
        from_places = np.arange(right.size) + shift
        inside = (from_places >= 0) & (from_places < right.size)
        if inside.mean() < _LEAST_COVERED:
            continue
        predicted = right[np.clip(from_places, 0, right.size - 1)]
        what = f"is the right answer shifted by {-shift} elements"
        bits = math.log2(right.size)
        yield _claim(seen, ("flat",), predicted, what, bits, inside.reshape(seen.expected.shape))


def _in_any_order(seen: Observation) -> Iterator[Claim]:
    """The same numbers, sorted: an order of n elements takes log2(n!) bits to tell."""
    size = seen.expected.size
    if size > MOST_SORTED or not np.isfinite(seen.wide_got).all() or not np.isfinite(seen.wide_expected).all():
        return
    predicted = np.empty_like(seen.expected.ravel())
    predicted[np.argsort(seen.got.ravel(), kind="stable")] = np.sort(seen.expected.ravel())
    bits = math.lgamma(size + 1) / math.log(2)
    yield _claim(seen, ("order",), predicted, "holds the right numbers in another order", bits)


def _slices_like(slices: np.ndarray, wanted: np.ndarray, allowed: float) -> np.ndarray:
    """Which slices along the first axis are like the wanted one: by their first elements, then by all."""
    flat, whole = slices.reshape(slices.shape[0], -1), wanted.reshape(1, -1)
    places = np.flatnonzero(agree(flat[:, :_WINDOW], whole[:, :_WINDOW], allowed).all(axis=1))[:_MOST_ALIKE]
    return places[agree(flat[places], whole, allowed).all(axis=1)]


def _each_slice(right: np.ndarray, got: np.ndarray, allowed: float) -> np.ndarray | None:
    """For each slice, the nearest in number of those of the right answer that it is like; None where one has none."""
    places: list[int] = []
    for number, wanted in enumerate(got):
        same = _slices_like(right, wanted, allowed)
        if not same.size:
            return None
        places.append(int(same[np.argmin(np.abs(same - number))]))
    return np.array(places)
