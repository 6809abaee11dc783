"""How far one output is from what it should be, on the scale of its own tensor.

Element by element with a fixed floor, healthy outputs of deep models look wrong wherever they are near zero; relative
to each tensor's largest value they agree (measured on SmolVLA: 6e-2 against 2e-4, while faults are 0.5 to 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxreduce.oracle.signature import Kind

MASK_MAGNITUDE = 1e9
"""Values from here on are fills of attention masks and the like: they do not set a tensor's scale."""

RELATIVE = {"float64": 1e-6, "float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Default tolerance by dtype, as a share of the tensor's scale: about ten times what healthy providers differ by."""
RELATIVE_NARROW = 0.25
"""For floating-point types of 8 bits and fewer, which hold 2 or 3 bits of mantissa."""
ABSOLUTE = 1e-6
NOISE_MARGIN = 10.0
"""A difference counts from this many times the measured noise floor on."""
UNSTABLE = 5e-2
"""Two ways to run the reference that differ by more than this, relative to scale, are no reference."""


@dataclass(frozen=True)
class Tolerance:
    """Relative tolerances by dtype name (numpy's and ml_dtypes'), and one absolute; integers and bool are exact.

    `noise` is the measured noise floor (relative to scale): the tolerance is never below `NOISE_MARGIN` times it.
    """

    relative: Mapping[str, float] = field(default_factory=dict)
    absolute: float = ABSOLUTE
    noise: float = 0.0

    def for_dtype(self, dtype: np.dtype) -> float:
        """The relative tolerance for a dtype; 0 for exact ones."""
        if not _is_floating(dtype):
            return 0.0
        default = RELATIVE.get(dtype.name, RELATIVE_NARROW)
        return max(self.relative.get(dtype.name, self.relative.get("*", default)), NOISE_MARGIN * self.noise)


@dataclass(frozen=True)
class Difference:
    """One output compared. `kind` is None where it agrees.

    `absolute`: largest absolute difference; `relative`: that over the tensor's scale; `wrong` of `total` elements
    differ by more than the tolerance, the first at the index `first`. NaN where nothing could be measured.
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


def compare(output: str, expected: np.ndarray, actual: np.ndarray | None, tolerance: Tolerance) -> Difference:
    """Compare an output with its reference (any ONNX dtype, strings as dtype object)."""
    base = {"output": output, "dtype": expected.dtype.name, "shape": expected.shape, "total": expected.size}
    if actual is None:
        return Difference(kind=Kind.WRONG_SHAPE, note="no such output", wrong=expected.size, **base)
    if actual.dtype != expected.dtype:
        note = f"dtype {actual.dtype.name}, expected {expected.dtype.name}"
        return Difference(kind=Kind.WRONG_DTYPE, note=note, wrong=expected.size, **base)
    if actual.shape != expected.shape:
        note = f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        return Difference(kind=Kind.WRONG_SHAPE, note=note, wrong=expected.size, **base)
    if expected.dtype.kind in "OSU" or not _is_numeric(expected.dtype):
        bad = np.asarray(expected != actual)
        return _exact(base, bad)
    if not _is_floating(expected.dtype):
        bad = np.asarray(expected != actual)
        far = np.abs(_wide(expected) - _wide(actual)).max(initial=0.0)
        return _exact(base, bad, float(far), float(far) / max(float(np.abs(_wide(expected)).max(initial=0.0)), 1.0))
    return _floating(base, _wide(expected), _wide(actual), tolerance.for_dtype(expected.dtype), tolerance.absolute)


def _floating(
    base: dict[str, object], expected: np.ndarray, actual: np.ndarray, relative: float, absolute: float
) -> Difference:
    finite = np.isfinite(expected)
    scale = _scale(np.abs(expected[finite]))
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(actual - expected)
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    distance = np.where(same, 0.0, distance)
    allowed = absolute + relative * np.maximum(scale, np.where(finite, np.abs(expected), 0.0))
    lost = finite & ~np.isfinite(actual)
    bad = ~same & (~(distance <= allowed) | lost)
    measured = distance[np.isfinite(distance)].max(initial=0.0)
    kind = None
    if bad.any():
        kind = Kind.NUMERIC
        if lost.any():
            kind = Kind.NAN
        elif not actual.any():
            kind = Kind.ZEROS
    return Difference(
        kind=kind,
        absolute=float(measured),
        relative=float(measured / scale) if scale else float(measured),
        wrong=int(bad.sum()),
        not_finite=int(lost.sum()),
        first=_first(bad),
        **base,  # type: ignore[arg-type]
    )


def _exact(base: dict[str, object], bad: np.ndarray, absolute: float = 0.0, relative: float = 0.0) -> Difference:
    kind = Kind.NUMERIC if bad.any() else None
    return Difference(
        kind=kind,
        absolute=absolute,
        relative=relative,
        wrong=int(bad.sum()),
        first=_first(bad),
        **base,  # type: ignore[arg-type]
    )


def _scale(magnitudes: np.ndarray) -> float:
    ordinary = magnitudes[magnitudes < MASK_MAGNITUDE]
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
    if array.dtype.kind == "c":
        return np.abs(array)
    return np.asarray(array, dtype=np.float64)
