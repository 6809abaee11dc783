"""Comparison on the scale of each tensor: rounding is never a fault, and a fault is never rounding."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnxreduce.oracle.comparison import ABSOLUTE, NOISE_MARGIN, RELATIVE, Difference, Tolerance, compare
from onnxreduce.oracle.signature import Kind

F = np.float32
DEFAULT = Tolerance()
FLOATS = [
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
]  # fmt: skip
EXACT = [
    np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, ml_dtypes.int4, ml_dtypes.uint4,
]  # fmt: skip


def judged(expected: object, actual: object, tolerance: Tolerance = DEFAULT) -> Difference:
    return compare("y", np.asarray(expected), np.asarray(actual), tolerance)


def name_of(dtype: type) -> str:
    return np.dtype(dtype).name


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (0,), (2, 0, 3)], ids=str)
def test_equal_floats_agree(dtype: type, shape: tuple[int, ...]) -> None:
    values = np.linspace(-2, 2, int(np.prod(shape))).reshape(shape).astype(dtype)
    found = judged(values, values.copy())
    assert (found.kind, found.wrong, found.relative, found.first) == (None, 0, 0.0, ())
    assert (found.dtype, found.shape, found.total) == (name_of(dtype), shape, values.size)


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_half_and_double_the_scale_is_seen_in_every_float(dtype: type) -> None:
    expected = np.array([1, -2, 4, 0.5], dtype=dtype)
    actual = expected.copy()
    actual[2] = 2
    found = judged(expected, actual)
    assert (found.kind, found.wrong, found.first) == (Kind.NUMERIC, 1, (2,))
    assert found.absolute == 2
    assert found.relative == 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=name_of)
def test_rounding_of_the_last_bits_is_no_fault(dtype: type) -> None:
    expected = np.random.default_rng(0).normal(size=(4, 64)).astype(dtype)
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    actual = (expected.astype(np.float64) * (1 + 2 * epsilon)).astype(dtype)
    assert judged(expected, actual).kind is None


def test_tolerance_follows_the_scale_of_the_tensor() -> None:
    expected = np.array([1000.0, 1e-3, 0.0], F)
    assert judged(expected, expected + F(1)).kind is None
    assert judged(expected, expected + F(4)).kind is Kind.NUMERIC
    assert judged(expected / F(1000), expected / F(1000) + F(1)).kind is Kind.NUMERIC


def test_a_tensor_of_tiny_values_has_a_tiny_scale() -> None:
    expected = np.array([1e-3, -2e-3], F)
    assert judged(expected, expected * F(1.5)).kind is Kind.NUMERIC
    assert judged(expected * F(1e-6), -expected * F(1e-6)).kind is None, "below the absolute tolerance"


FILLS = [
    (np.float32, -3.4028235e38), (np.float32, -1e9), (np.float32, -1e10), (np.float64, -1.7e308),
    (np.float16, -65504.0), (ml_dtypes.bfloat16, -3.38e38), (np.float32, -np.inf), (np.float16, -np.inf),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "fill"), FILLS, ids=lambda value: name_of(value) if isinstance(value, type) else "")
def test_the_fill_of_a_mask_sets_no_scale(dtype: type, fill: float) -> None:
    expected = np.array([0.5, fill, -1.0, fill], dtype=np.float64).astype(dtype)
    assert judged(expected, expected.copy()).kind is None
    actual = expected.copy()
    actual[0] = 1.5
    assert judged(expected, actual).first == (0,)
    gone = expected.copy()
    gone[1] = 0
    assert judged(expected, gone).first == (1,)


def test_a_mask_alone_is_compared_on_its_own_scale() -> None:
    expected = np.array([-1e9, -1e9], F)
    assert judged(expected, expected * F(1.0001)).kind is None
    assert judged(expected, np.array([-1e9, 0], F)).kind is Kind.NUMERIC


def test_nan_agrees_with_nan_in_the_same_place_only() -> None:
    nan = np.nan
    assert judged(np.array([nan, 1], F), np.array([nan, 1], F)).kind is None
    lost = judged(np.array([2, 1], F), np.array([nan, 1], F))
    assert (lost.kind, lost.not_finite, lost.wrong, lost.first) == (Kind.NAN, 1, 1, (0,))
    assert judged(np.array([nan, 1], F), np.array([2, 1], F)).kind is Kind.NUMERIC
    moved = judged(np.array([nan, 1], F), np.array([1, nan], F))
    assert (moved.kind, moved.wrong) == (Kind.NAN, 2)


def test_infinities_agree_with_their_own_sign_only() -> None:
    inf = np.inf
    assert judged(np.array([inf, -inf], F), np.array([inf, -inf], F)).kind is None
    assert judged(np.array([inf, 1], F), np.array([-inf, 1], F)).kind is Kind.NUMERIC
    assert judged(np.array([inf, 1], F), np.array([3e38, 1], F)).kind is Kind.NUMERIC
    assert judged(np.array([1, 1], F), np.array([inf, 1], F)).kind is Kind.NAN


def test_all_zeros_is_a_class_of_its_own() -> None:
    assert judged(np.ones(3, F), np.zeros(3, F)).kind is Kind.ZEROS
    assert judged(np.zeros(3, F), np.zeros(3, F)).kind is None
    assert judged(np.zeros(3, F), np.full(3, 1e-3, F)).kind is Kind.NUMERIC
    assert judged(np.zeros(3, F), np.full(3, ABSOLUTE / 2, F)).kind is None
    assert judged(np.array([0.0, -0.0], F), np.array([-0.0, 0.0], F)).kind is None


@pytest.mark.parametrize("dtype", EXACT, ids=name_of)
def test_integers_are_exact(dtype: type) -> None:
    expected = np.array([0, 1, 7, 3], dtype=dtype)
    assert judged(expected, expected.copy()).kind is None
    actual = np.array([0, 1, 6, 3], dtype=dtype)
    found = judged(expected, actual)
    assert (found.kind, found.wrong, found.absolute, found.first) == (Kind.NUMERIC, 1, 1.0, (2,))


def test_large_integers_are_exact_to_the_last_bit() -> None:
    assert judged(np.array([2**63 - 1]), np.array([2**63 - 2])).wrong == 1
    assert judged(np.array([2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64)).wrong == 1


def test_bool_and_strings_are_exact() -> None:
    assert judged(np.array([True, False]), np.array([True, False])).kind is None
    assert judged(np.array([True, False]), np.array([True, True])).first == (1,)
    words = np.array([["a", ""], ["ä", "日本"]], object)
    assert judged(words, words.copy()).kind is None
    other = words.copy()
    other[1, 0] = "a"
    assert judged(words, other).first == (1, 0)
    assert judged(np.array("a", object), np.array("b", object)).wrong == 1
    assert judged(np.array([], object), np.array([], object)).kind is None


def test_shape_dtype_and_absence() -> None:
    assert judged(np.zeros((2, 3), F), np.zeros((3, 2), F)).kind is Kind.WRONG_SHAPE
    assert judged(np.zeros(0, F), np.zeros((0, 1), F)).kind is Kind.WRONG_SHAPE
    assert judged(np.zeros((), F), np.zeros((1,), F)).kind is Kind.WRONG_SHAPE
    assert judged(np.zeros(2, F), np.zeros(2, np.float64)).kind is Kind.WRONG_DTYPE
    assert judged(np.zeros(2, np.uint8), np.zeros(2, bool)).kind is Kind.WRONG_DTYPE
    missing = compare("y", np.zeros(2, F), None, DEFAULT)
    assert (missing.kind, missing.note) == (Kind.WRONG_SHAPE, "no such output")


def test_tolerances_can_be_given_by_dtype() -> None:
    wide = Tolerance({"float32": 0.5})
    assert judged(np.ones(2, F), np.full(2, 1.4, F), wide).kind is None
    assert judged(np.ones(2), np.full(2, 1.4), wide).kind is Kind.NUMERIC
    assert judged(np.ones(2), np.full(2, 1.4), Tolerance({"*": 0.5})).kind is None
    assert judged(np.zeros(2, F), np.full(2, 0.1, F), Tolerance(absolute=0.2)).kind is None


def test_the_noise_floor_widens_and_never_narrows() -> None:
    quiet, loud = Tolerance(noise=1e-9), Tolerance(noise=1e-2)
    assert quiet.for_dtype(np.dtype(F)) == RELATIVE["float32"]
    assert loud.for_dtype(np.dtype(F)) == NOISE_MARGIN * 1e-2
    assert loud.for_dtype(np.dtype(np.int64)) == loud.for_dtype(np.dtype(bool)) == 0


def test_extreme_doubles_do_not_overflow_into_agreement() -> None:
    assert judged(np.array([1e308]), np.array([-1e308])).kind is Kind.NUMERIC
    assert judged(np.array([5e-324]), np.array([5e-324])).kind is None


shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ordinary = st.floats(-1e6, 1e6, width=32)
anything = st.floats(width=32)


@given(hnp.arrays(np.float32, shapes, elements=anything))
def test_any_array_agrees_with_itself(array: np.ndarray) -> None:
    found = compare("y", array, array.copy(), DEFAULT)
    assert (found.kind, found.wrong, found.not_finite) == (None, 0, 0)


@given(st.data())
def test_agreement_holds_both_ways(data: st.DataObject) -> None:
    one = data.draw(hnp.arrays(np.float64, shapes, elements=ordinary))
    factor = data.draw(hnp.arrays(np.float64, one.shape, elements=st.floats(-0.05, 0.05)))
    other = one + factor * np.abs(one).max(initial=0)
    tight, wide = Tolerance({"*": 1e-2}), Tolerance({"*": 2.1e-2}, absolute=2.1 * ABSOLUTE)
    if compare("y", one, other, tight).kind is None:
        assert compare("y", other, one, wide).kind is None


@given(st.data())
def test_a_change_beyond_tolerance_is_always_seen(data: st.DataObject) -> None:
    sizes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
    expected = data.draw(hnp.arrays(np.float32, sizes, elements=ordinary))
    at = tuple(data.draw(st.integers(0, side - 1)) for side in expected.shape)
    allowed = ABSOLUTE + RELATIVE["float32"] * float(np.abs(expected).max())
    sign = data.draw(st.sampled_from([-1, 1]))
    actual = expected.astype(np.float64)
    actual[at] += sign * 3 * allowed
    found = compare("y", expected, actual.astype(np.float32), DEFAULT)
    assert found.kind in (Kind.NUMERIC, Kind.ZEROS)
    assert (found.wrong, found.first) == (1, at)


@given(st.data())
@settings(max_examples=50)
def test_a_change_within_tolerance_is_never_seen(data: st.DataObject) -> None:
    expected = data.draw(hnp.arrays(np.float64, shapes, elements=ordinary))
    share = data.draw(hnp.arrays(np.float64, expected.shape, elements=st.floats(-0.9, 0.9)))
    actual = expected + share * RELATIVE["float64"] * np.abs(expected).max(initial=0)
    assert compare("y", expected, actual, DEFAULT).kind is None


@given(hnp.arrays(np.float32, shapes, elements=anything), hnp.arrays(np.float32, shapes, elements=anything))
def test_nothing_makes_it_stumble(one: np.ndarray, other: np.ndarray) -> None:
    found = compare("y", one, other, DEFAULT)
    assert found.wrong <= found.total
    assert (found.kind is None) == (found.wrong == 0 and one.shape == other.shape)


def test_elements_from_the_first_wrong_one_on_are_shown() -> None:
    expected = np.arange(24, dtype=np.float32).reshape(2, 12) / 10
    actual = expected.copy()
    actual[1, 2:] = np.nan
    found = judged(expected, actual)
    assert found.samples[0] == ((1, 2), "1.4", "nan")
    assert [place for place, _, _ in found.samples] == [(1, at) for at in range(2, 10)]
    assert judged(expected, expected.copy()).samples == ()
    assert judged(np.array(3), np.array(4)).samples == (((), "3", "4"),)
    assert judged(np.array(["a"], object), np.array(["b"], object)).samples == (((0,), "a", "b"),)


def test_a_difference_is_json_whatever_was_measured() -> None:
    found = Difference(
        "y", Kind.NAN, "float32", (1,), absolute=np.nan, relative=np.inf, samples=(((0,), "1.0", "nan"),)
    )
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (told["kind"], told["absolute"], told["relative"]) == ("NaN or Inf", None, None)
    assert told["samples"] == [[[0], "1.0", "nan"]]
    assert Difference("y", None).to_json()["kind"] is None
