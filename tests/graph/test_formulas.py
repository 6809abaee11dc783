from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnxreduce.graph.formulas import (
    description_cost,
    evaluate,
    formula,
    literal_length,
    nearest_series,
    same_bits,
    seeded,
)
from onnxreduce.graph.tensors import StoredTensor


def code(array: np.ndarray) -> str | None:
    found = formula(StoredTensor.from_array(array))
    return found.code if found else None


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.zeros((2, 3), np.float32), "np.zeros((2, 3), np.float32)"),
        (np.ones(4, np.int64), "np.ones(4, np.int64)"),
        (np.full((2, 2), 2.5, np.float32), "np.full((2, 2), 2.5, np.float32)"),
        (np.full(3, -np.inf, np.float32), "np.full(3, -np.inf, np.float32)"),
        (np.array(7, np.int64), "np.array(7, np.int64)"),
        (np.arange(5, dtype=np.int64), "np.arange(5, dtype=np.int64)"),
        (np.arange(1, 7, dtype=np.float32).reshape(2, 3), "np.arange(1, 7, dtype=np.float32).reshape(2, 3)"),
        (np.arange(9, 1, -2, dtype=np.int32), "np.arange(9, 1, -2, dtype=np.int32)"),
        (
            (10000.0 ** (np.arange(32) / 32)).astype(np.float32),
            "(10000.0 ** (np.arange(32) / 32)).astype(np.float32)",
        ),
        (
            (10000.0 ** (-np.arange(32) / 32)).astype(np.float32),
            "(10000.0 ** (-np.arange(32) / 32)).astype(np.float32)",
        ),
        (np.linspace(0, 1, 11).astype(np.float32), "np.linspace(0.0, 1.0, 11).astype(np.float32)"),
        (np.eye(4, dtype=np.float32), "np.eye(4, 4).astype(np.float32)"),
        (np.tri(4, dtype=bool), "np.tri(4, 4).astype(np.bool_)"),
        (np.eye(3, dtype=np.float32)[None, None] * 5, "np.tile((5.0 * np.eye(3, 3)).astype(np.float32), (1, 1, 1, 1))"),
        ((1 - np.tri(3)).astype(np.float32) * -9, "(-9.0 * (1 - np.tri(3, 3))).astype(np.float32)"),
        ((np.arange(6) == 2).astype(np.float32), "(np.arange(6) == 2).astype(np.float32)"),
        ((np.arange(6) == 2).astype(np.float32) * 3, "(3.0 * (np.arange(6) == 2)).astype(np.float32)"),
        (
            np.array([0, 0, 13.37, 0, 0, 2, 0, 0], np.float32),
            "np.bincount([2, 5], [13.37, 2], minlength=8).astype(np.float32)",
        ),
        (np.array([1, 1, 4, 1, 1, 1], np.float32), "(1 + np.bincount([2], [3], minlength=6)).astype(np.float32)"),
        (np.array([0.1, 0.7, 0.2, 0.9], np.float32), None),
        (np.array([0, -0.0, 0], np.float32), None),
        (np.array([], np.float32), None),
    ],
)
def test_known_arrays(array: np.ndarray, expected: str | None) -> None:
    assert code(array) == expected
    if expected is not None:
        assert same_bits(evaluate(expected), array)


@example(np.array([9223372036854775296, 0]))
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_, np.float16]),
        arrays.array_shapes(max_dims=3, max_side=4),
    )
)
def test_every_formula_gives_the_very_bits(array: np.ndarray) -> None:
    stored = StoredTensor.from_array(array)
    found = formula(stored)
    assert found is None or same_bits(evaluate(found.code), array)
    assert description_cost(stored) <= array.size
    assert literal_length(stored) >= 0


def test_seeded_values_carry_their_code() -> None:
    for dtype in (np.float32, np.int64):
        stored = seeded((2, 3), -1.0, 1.0, np.dtype(dtype))
        assert stored.code is not None
        assert same_bits(evaluate(stored.code), stored.array)
        assert description_cost(stored) == 6


def test_nearest_series_keeps_the_shape_and_refuses_what_is_far() -> None:
    exact = (10000.0 ** (np.arange(32) / 32)).astype(np.float32).reshape(1, 32)
    near = exact * np.float32(1 + 1e-6)
    found = nearest_series(near)
    assert found is not None and found.shape == (1, 32)
    assert np.allclose(found, exact, rtol=1e-5)
    assert nearest_series(np.array([1, 5, 2, 9], np.float32)) is None


def test_plainer_values_cost_less() -> None:
    def cost(array: np.ndarray) -> int:
        return description_cost(StoredTensor.from_array(array))

    rng = np.random.default_rng(0)
    assert cost(np.ones(20, np.float32)) < cost(np.arange(20, dtype=np.float32)) < cost(np.eye(5, 4, dtype=np.float32))
    assert cost(rng.normal(size=20).astype(np.float32)) == 20


def test_of_single_numbers_small_ones_come_first() -> None:
    def length(value: float) -> int:
        return literal_length(StoredTensor.from_array(np.array(value, np.float32)))

    assert length(1.0) == length(0.0) < length(3.0) < length(9.0) < length(3.17)
