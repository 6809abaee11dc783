"""One wrong output in one run: what it should be, what it is, and every other value of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.order import weights
from onnxreduce.oracle.comparison import Tolerance, wrong_elements

MATCH_SHARE = 0.1
"""A match must be closer than this share of the tolerance: that is what healthy runs differ by."""
MOST_ELEMENTS = 1 << 24
"""Larger outputs are passed over."""
_SAMPLE = 2048
_BELOW_A_BYTE = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")


@dataclass(frozen=True, eq=False)
class Run:
    """A candidate with its recorded values (initializers included) and the outputs of the suspect, by name."""

    candidate: Candidate
    values: Mapping[str, np.ndarray]
    actual: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, candidate: Candidate, values: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> Run:
        """Complete the recorded values with the initializers."""
        held = {name: tensor.array for name, tensor in weights(candidate).items()}
        return cls(candidate, {**held, **values}, actual)

    @cached_property
    def index(self) -> GraphIndex:
        """The candidate's graph."""
        return GraphIndex(self.candidate.model, self.candidate.feeds)


@dataclass(frozen=True, eq=False)
class Observation:
    """One output of a run: `expected` and `got` have the same shape and dtype, and differ in the elements `wrong`."""

    run: Run
    output: str
    expected: np.ndarray
    got: np.ndarray
    wrong: np.ndarray
    tolerance: Tolerance

    @cached_property
    def is_number(self) -> bool:
        """Whether the output is of a floating-point type."""
        return self.tolerance.for_dtype(self.expected.dtype) > 0

    @cached_property
    def wide_got(self) -> np.ndarray:
        """What it is, as float64."""
        return widened(self.got)

    @cached_property
    def wide_expected(self) -> np.ndarray:
        """What it should be, as float64."""
        return widened(self.expected)

    @cached_property
    def scale(self) -> float:
        """The largest finite magnitude of what it is."""
        magnitudes = np.abs(self.wide_got[np.isfinite(self.wide_got)])
        return float(magnitudes.max(initial=0.0))

    @cached_property
    def sample(self) -> np.ndarray:
        """Flat positions that are looked at first."""
        size = self.got.size
        if size <= _SAMPLE:
            return np.arange(size)
        spread = np.linspace(0, size - 1, _SAMPLE // 2).astype(np.int64)
        wrong = np.flatnonzero(self.wrong)
        some = wrong[np.linspace(0, wrong.size - 1, _SAMPLE // 2).astype(np.int64)]
        return np.unique(np.concatenate([spread, some]))

    @cached_property
    def allowed(self) -> float:
        """How far a claim may be off, absolute; 0 for exact types."""
        return MATCH_SHARE * self.tolerance.for_dtype(self.expected.dtype) * self.scale

    @cached_property
    def differs(self) -> np.ndarray:
        """Elements that differ from the right answer by more than a match may, the wrong ones among them."""
        if not self.allowed:
            return self.wrong
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(self.wrong | (np.abs(self.wide_got - self.wide_expected) > self.allowed))

    def others(self) -> Iterator[tuple[str, np.ndarray]]:
        """Every other value of the run whose bytes numpy can give, with its name."""
        for name, array in self.run.values.items():
            if name != self.output and has_bytes(array):
                yield name, array


def observe(run: Run, output: str, tolerance: Tolerance) -> Observation | None:
    """An output with wrong content; None when it is right, wrong in shape or dtype, no numbers, or too large."""
    expected, got = run.values.get(output), run.actual.get(output)
    if expected is None or got is None or not 0 < expected.size <= MOST_ELEMENTS or not has_bytes(expected):
        return None
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return None
    wrong = wrong_elements(expected, got, tolerance)
    if not wrong.any():
        return None
    return Observation(run, output, expected, got, wrong, tolerance)


def has_bytes(array: np.ndarray) -> bool:
    """Whether an array's bytes are those that a runtime holds: strings and types below a byte are not."""
    return array.dtype.kind not in "OSUc" and array.dtype.name not in _BELOW_A_BYTE


def widened(array: np.ndarray) -> np.ndarray:
    """As float64."""
    wide: np.ndarray = np.asarray(array, dtype=np.float64)
    return wide
