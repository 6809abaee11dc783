"""Cosine similarity and units in the last place, also where numbers are extreme, and where they are shown."""

from __future__ import annotations

import io

import faults
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from onnxreduce import terminal
from onnxreduce.api import Check
from onnxreduce.difference_table import WIDE
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.oracle.distance import cosine, ulps
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict

WITH_ULP = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
NAN = np.nan


@pytest.mark.parametrize(
    ("expected", "actual", "similar"),
    [
        ([1, 2, 3], [1, 2, 3], 1),
        ([1, 2, 3], [2, 4, 6], 1),
        ([1, 2, 3], [-1, -2, -3], -1),
        ([1, 0], [0, 5], 0),
        ([3, 4], [4, 3], 0.96),
        ([1e300, 1e300], [1e-300, 1e-300], 1),
        ([1, NAN, np.inf, 2], [2, 9, 9, NAN], 1),
        ([0, 0], [1, 1], None),
        ([0], [0], None),
        ([], [], None),
        ([NAN], [NAN], None),
    ],
)
def test_cosine(expected: list[float], actual: list[float], similar: float | None) -> None:
    found = cosine(np.array(expected, float), np.array(actual, float))
    assert found == (None if similar is None else pytest.approx(similar, abs=1e-12))


@pytest.mark.parametrize("dtype", WITH_ULP, ids=lambda dtype: np.dtype(dtype).name)
def test_steps_to_the_next_number_are_counted_over_every_boundary(dtype: type) -> None:
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    below_two = 2 - float(ml_dtypes.finfo(dtype).eps)

    def apart(one: list[float], other: list[float]) -> int | None:
        return ulps(np.array(one, dtype), np.array(other, dtype))

    assert apart([1, -3, 0], [1, -3, -0.0]) == 0
    assert apart([below_two], [2]) == 1
    assert apart([tiny], [-tiny]) == 2
    assert apart([tiny], [0]) == 1
    assert apart([1, below_two, 5], [1, 2, NAN]) == 1
    assert apart([NAN, np.inf], [1, 1]) == 0
    assert apart([], []) == 0
    steps = 1 << np.dtype(dtype).itemsize * 8 - 1  # all numbers of one sign, subnormal, infinite and NaN ones too
    farthest = apart([float(ml_dtypes.finfo(dtype).max)], [float(ml_dtypes.finfo(dtype).min)])
    assert farthest is not None
    assert steps / 2 < farthest < 2 * steps


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_one_step_of_single_precision_is_one(value: float) -> None:
    one = np.array([value], np.float32)
    up = np.nextafter(one, np.float32(np.inf))
    if np.isfinite(up).all():
        assert ulps(one, up) == ulps(up, one) == 1


@pytest.mark.parametrize("dtype", [np.int32, ml_dtypes.float8_e5m2, np.bool_, object], ids=str)
def test_dtypes_without_such_a_measure(dtype: type) -> None:
    assert ulps(np.zeros(2, dtype), np.zeros(2, dtype)) is None
    assert ulps(np.zeros(2, np.float32), np.zeros(2, dtype)) is None


def test_a_difference_holds_them_and_counts_nan_that_differ() -> None:
    expected = np.array([[1, NAN, 2], [3, 4, NAN]], np.float32)
    actual = np.array([[1, 0, 2], [NAN, np.nextafter(np.float32(4), np.float32(5)), NAN]], np.float32)
    found = compare("y", expected, actual, Tolerance())
    assert (found.nan, found.first_nan, found.ulp) == (2, (0, 1), 1)
    assert found.cosine == pytest.approx(1)
    told = Verdict(Outcome.FAILS, None, [found]).summary()["worst"]
    assert (told["nan"], told["ulp"], told["output"]) == (2, 1, "y")
    whole = compare("y", np.array([1, 2]), np.array([2, 1]), Tolerance())
    assert (whole.cosine, whole.ulp, whole.nan) == (pytest.approx(0.8), None, 0)
    assert compare("y", np.array(["a"], object), np.array(["b"], object), Tolerance()).cosine is None


@pytest.mark.parametrize("columns", [40, 80, 100, 160])
def test_they_are_shown_where_there_is_room(columns: int) -> None:
    wrong = compare("out", np.array([1, 2, 3], np.float32), np.array([1, 2, NAN], np.float32), Tolerance())
    close = compare("much/longer/name/of/an/output", np.ones(3, np.float32), np.full(3, 1.001, np.float32), Tolerance())
    said = io.StringIO()
    checked = Check(Golden(Verdict(Outcome.FAILS, None, [wrong, close])), {}, [])
    terminal.show_check(Console(file=said, width=columns), checked)
    table = said.getvalue().splitlines()
    assert all(len(line) <= columns for line in table)
    for text in ("cosine", "ULP", "1.000000", "8389", "1 from [2]"):
        assert (text in said.getvalue()) is (columns >= WIDE), text


def test_a_real_fault_is_measured() -> None:
    oracle = faults.levels()
    try:
        (found,) = oracle.judge(faults.candidate(faults.normalisation())).differences
    finally:
        oracle.close()
    assert found.cosine is not None and found.ulp is not None
    assert found.cosine < 0.999
    assert found.ulp > 1000
