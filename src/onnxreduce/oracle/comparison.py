"""How far one output is from what it should be, on the scale of its own tensor.

Element by element with a fixed floor, healthy outputs of deep models look wrong wherever they are near zero; relative
to each tensor's largest value they agree (measured on SmolVLA: 6e-2 against 2e-4, while faults are 0.5 to 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from onnxreduce.oracle.distance import cosine, ulps
from onnxreduce.oracle.signature import Kind

MASK_MAGNITUDE = 1e9
"""Values from here on are fills of attention masks and the like: they do not set a tensor's scale."""
MASK_MAGNITUDES = {"float16": 65504.0}
"""The same for types that do not reach so far: their largest value."""

RELATIVE = {"float64": 1e-6, "float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Default tolerance by dtype, as a share of the tensor's scale: about ten times what healthy providers differ by."""
RELATIVE_NARROW = 0.25
"""For floating-point types of 8 bits and fewer, which hold 2 or 3 bits of mantissa."""
ABSOLUTE = 1e-6
NOISE_MARGIN = 10.0
"""A difference counts from this many times the measured noise floor on."""
SAMPLES = 8
"""Elements of a wrong output that are shown."""
UNSTABLE = 5e-2
"""Two ways to run the reference that differ by more than this, relative to scale, are no reference."""

_NATIVE = ("float16", "float32", "float64")
"""The floating-point types that numpy has by itself, and browsers too."""


@dataclass(frozen=True)
class Tolerance:
    """Relative tolerances by dtype name (numpy's and ml_dtypes'), and one absolute; integers and bool are exact.

    `noise` is the measured noise floor (relative to scale): the tolerance is never below `NOISE_MARGIN` times it.
    """

    relative: Mapping[str, float] = field(default_factory=dict)
    absolute: float = ABSOLUTE
    noise: float = 0.0

    def with_noise(self, noise: float) -> Tolerance:
        """The same with a measured noise floor."""
        return replace(self, noise=noise)

    def for_dtype(self, dtype: np.dtype) -> float:
        """The relative tolerance for a dtype; 0 for exact ones."""
        if not _is_floating(dtype):
            return 0.0
        default = RELATIVE.get(dtype.name, RELATIVE_NARROW)
        return max(self.relative.get(dtype.name, self.relative.get("*", default)), NOISE_MARGIN * self.noise)

    def to_json(self) -> dict[str, Any]:
        """All figures that decide, for code that compares elsewhere: `absolute`, and `relative` and `fill` by dtype.

        `fill`: the magnitude from which values do not set a tensor's scale; `*` stands for dtypes that are not named.
        """
        relative = {name: self.for_dtype(np.dtype(name)) for name in _NATIVE}
        fill = {"*": MASK_MAGNITUDE, **MASK_MAGNITUDES}
        return {"absolute": self.absolute, "relative": relative, "fill": fill}


@dataclass(frozen=True)
class Difference:
    """One output compared. `kind` is None where it agrees.

    `absolute`: largest absolute difference; `relative`: that over the tensor's scale; `wrong` of `total` elements
    differ by more than the tolerance, the first at the index `first`. NaN where nothing could be measured. `share`:
    the relative tolerance that it was judged by. `samples`: `SAMPLES` elements in a row from the first wrong one on,
    each as index, expected and actual value in text.

    `cosine` and `ulp`: see `distance`. `nan`: elements of which one side alone is NaN, the first at `first_nan`.
    """

    output: str
    kind: Kind | None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    absolute: float = 0.0
    relative: float = 0.0
    wrong: int = 0
    total: int = 0
    not_finite: int = 0
    first: tuple[int, ...] = ()
    note: str = ""
    share: float = 0.0
    samples: tuple[tuple[tuple[int, ...], str, str], ...] = ()
    cosine: float | None = None
    ulp: int | None = None
    nan: int = 0
    first_nan: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a record: JSON types only; numbers that JSON lacks are None, as is the kind of an output that agrees."""
        found = asdict(self) | {"kind": self.kind.value if self.kind else None}
        found |= {"shape": list(self.shape), "first": list(self.first), "first_nan": list(self.first_nan)}
        found["samples"] = [[list(place), expected, actual] for place, expected, actual in self.samples]
        return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in found.items()}


def compare(output: str, expected: np.ndarray, actual: np.ndarray | None, tolerance: Tolerance) -> Difference:
    """Compare an output with its reference (any ONNX dtype, strings as dtype object)."""
    share = tolerance.for_dtype(expected.dtype)
    agreeing = Difference(output, None, expected.dtype.name, expected.shape, total=expected.size, share=share)
    if actual is None:
        return replace(agreeing, kind=Kind.WRONG_SHAPE, note="no such output", wrong=expected.size)
    if actual.dtype != expected.dtype:
        note = f"dtype {actual.dtype.name}, expected {expected.dtype.name}"
        return replace(agreeing, kind=Kind.WRONG_DTYPE, note=note, wrong=expected.size)
    if actual.shape != expected.shape:
        note = f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        return replace(agreeing, kind=Kind.WRONG_SHAPE, note=note, wrong=expected.size)
    if _is_floating(expected.dtype):
        found = _floating(agreeing, expected, actual, tolerance)
    else:
        found = _exact(agreeing, expected, actual)
    return replace(found, samples=_samples(expected, actual, found.first)) if found.kind else found


def _samples(
    expected: np.ndarray, actual: np.ndarray, first: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], str, str], ...]:
    start = int(np.ravel_multi_index(first, expected.shape)) if first else 0
    shown = range(start, min(start + SAMPLES, expected.size))
    places = (tuple(int(at) for at in np.unravel_index(flat, expected.shape)) for flat in shown)
    return tuple((place, str(expected[place]), str(actual[place])) for place in places)


def wrong_elements(expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Which elements differ by more than the tolerance, as bool of the same shape; shapes and dtypes are the same."""
    if _is_floating(expected.dtype):
        return _disagreement(expected, actual, tolerance)[0]
    return np.asarray(expected != actual)


def _floating(agreeing: Difference, expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance) -> Difference:
    bad, distance, scale = _disagreement(expected, actual, tolerance)
    ulp = ulps(expected, actual)
    expected, actual = _wide(expected), _wide(actual)
    lost = np.isfinite(expected) & ~np.isfinite(actual)
    one_nan = np.isnan(expected) != np.isnan(actual)
    measured = float(distance[np.isfinite(distance)].max(initial=0.0))
    kind = None
    if bad.any():
        kind = Kind.NAN if lost.any() else Kind.NUMERIC if actual.any() else Kind.ZEROS
    return replace(
        agreeing,
        kind=kind,
        absolute=measured,
        relative=measured / scale if scale else measured,
        wrong=int(bad.sum()),
        not_finite=int(lost.sum()),
        first=_first(bad),
        cosine=cosine(expected, actual),
        ulp=ulp,
        nan=int(one_nan.sum()),
        first_nan=_first(one_nan),
    )


def _disagreement(
    expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance
) -> tuple[np.ndarray, np.ndarray, float]:
    """Which floating-point elements are wrong, how far each is off, and the scale of the tensor."""
    relative = tolerance.for_dtype(expected.dtype)
    fill = MASK_MAGNITUDES.get(expected.dtype.name, MASK_MAGNITUDE)
    expected, actual = _wide(expected), _wide(actual)
    finite = np.isfinite(expected)
    scale = _scale(np.abs(expected[finite]), fill)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(actual - expected)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    distance = np.where(same, 0.0, distance)
    allowed = tolerance.absolute + relative * np.maximum(scale, np.where(finite, np.abs(expected), 0.0))
    lost = finite & ~np.isfinite(actual)
    return ~same & (~(distance <= allowed) | lost), distance, scale


def _exact(agreeing: Difference, expected: np.ndarray, actual: np.ndarray) -> Difference:
    """Integers, bool and strings."""
    bad = np.asarray(expected != actual)
    far = scale = 0.0
    similar = None
    if _is_numeric(expected.dtype):
        far = float(np.abs(_wide(expected) - _wide(actual)).max(initial=0.0))
        scale = float(np.abs(_wide(expected)).max(initial=0.0))
        similar = cosine(_wide(expected), _wide(actual))
    return replace(
        agreeing,
        kind=Kind.NUMERIC if bad.any() else None,
        absolute=far,
        relative=far / max(scale, 1.0),
        wrong=int(bad.sum()),
        first=_first(bad),
        cosine=similar,
    )


def _scale(magnitudes: np.ndarray, fill: float) -> float:
    ordinary = magnitudes[magnitudes < fill]
    return float((ordinary if ordinary.size else magnitudes).max(initial=0.0))


def _first(bad: np.ndarray) -> tuple[int, ...]:
    if not bad.any():
        return ()
    return tuple(int(at) for at in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "biuf" or _is_floating(dtype) or dtype.name.startswith(("int", "uint"))


def _is_floating(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def _wide(array: np.ndarray) -> np.ndarray:
    wide: np.ndarray = np.asarray(array, dtype=np.float64)
    return wide
