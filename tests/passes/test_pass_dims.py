"""Sizes of dimensions, and their number."""

from __future__ import annotations

import numpy as np
import pytest
from planted_faults import calls, graph, shapes, shown, shrink_with

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights
from onnxreduce.reduction.passes.dims import sizes


def test_all_to_one_at_once() -> None:
    text = "(float[8, 5] x, float[8, 1] z) => (float[8, 5] y) { a = Neg(x) y = Add(a, z) }"
    found = shrink_with("dims", graph(text), lambda candidate: True)
    assert shapes(found.best) == {"x": (1, 1), "z": (1, 1)}
    assert calls(found) <= 2


@pytest.mark.parametrize("channels", [6, 9, 15])
def test_sizes_that_are_not_monotone(channels: int) -> None:
    """As the native Conv: wrong for 6, 9 and 15 channels, and not for 3, 4, 5, 7, 8, 12 and 16."""
    w = np.random.default_rng(0).normal(size=(4, channels, 3, 3)).astype(np.float32)
    text = f"(float[2, {channels}, 7, 7] x) => (float[2, 4, 5, 5] y) {{ y = Conv(x, w) }}"

    def fault(candidate: Candidate) -> bool:
        return weights(candidate)["w"].shape[1] in (6, 9, 15)

    found = shrink_with("dims", graph(text, w=w), fault)
    assert weights(found.best)["w"].shape == (1, 6, 1, 1)
    assert shapes(found.best) == {"x": (1, 6, 1, 1)}
    assert calls(found) <= 40


def test_constants_of_a_shape_follow() -> None:
    text = "(float[2, 12] x) => (float[2, 3, 4] y) { y = Reshape(x, s) }"

    def fault(candidate: Candidate) -> bool:
        return candidate.feeds["x"].shape[0] >= 1

    found = shrink_with("dims", graph(text, s=np.array([2, 3, 4])), fault)
    assert found.best.feeds["x"].size <= 12
    assert shown(found) == ["y = Reshape(x, s)"]


def test_equal_dimensions_go_together() -> None:
    text = "(float[6, 6] x, float[6, 6] z) => (float[6, 6] y) { y = MatMul(x, z) }"

    def at_least_three(candidate: Candidate) -> bool:
        return candidate.feeds["x"].shape[1] >= 3

    found = shrink_with("dims", graph(text), at_least_three)
    assert found.best.feeds["x"].shape == (1, 3) or found.best.feeds["x"].shape == (3, 3)
    assert calls(found) <= 12


def test_rank_drops_axes_of_length_one() -> None:
    text = "(float[1, 1, 4] x, float[1, 1, 1] z) => (float[1, 1, 4] y) { a = Neg(x) y = Add(a, z) }"
    found = shrink_with("rank", graph(text), lambda candidate: True)
    assert shapes(found.best) == {"x": (4,), "z": (1,)}
    assert calls(found) <= 2


def test_rank_of_one_component_where_the_other_needs_it() -> None:
    text = """(float[1, 1, 4] x, float[1, 2, 3, 3] i) => (float[1, 1, 4] y, float[1, 2, 2, 2] o) {
        a = Neg(x) y = Abs(a) o = MaxPool<kernel_shape=[2, 2]>(i) }"""
    found = shrink_with("rank", graph(text), lambda candidate: True)
    assert shapes(found.best) == {"x": (4,), "i": (1, 2, 3, 3)}
    assert calls(found) <= 2


def test_rank_that_the_fault_needs() -> None:
    text = "(float[1, 1, 4] x) => (float[1, 1, 4] y) { y = Neg(x) }"
    found = shrink_with("rank", graph(text), lambda candidate: len(candidate.feeds["x"].shape) == 3)
    assert shapes(found.best) == {"x": (1, 1, 4)}
    assert calls(found) <= 1


def test_attributes_follow_the_shapes() -> None:
    w = np.random.default_rng(0).normal(size=(8, 1, 3, 3)).astype(np.float32)
    text = "(float[1, 8, 5, 5] x) => (float[1, 8, 3, 3] y) { y = Conv<group=8, kernel_shape=[3, 3]>(x, w) }"
    found = shrink_with("dims", graph(text, w=w), lambda candidate: candidate.feeds["x"].shape[1] >= 2)
    assert weights(found.best)["w"].shape == (2, 1, 1, 1)
    assert shapes(found.best) == {"x": (1, 2, 1, 1)}


def test_multiples_of_a_size_follow() -> None:
    """The four gates of an LSTM lie side by side."""
    rng = np.random.default_rng(0)
    held = {
        "w": rng.normal(size=(1, 32, 6)).astype(np.float32),
        "r": rng.normal(size=(1, 32, 8)).astype(np.float32),
        "b": rng.normal(size=(1, 64)).astype(np.float32),
    }
    text = "(float[5, 1, 6] x) => (float[5, 1, 1, 8] y) { y = LSTM<hidden_size=8>(x, w, r, b) }"
    found = shrink_with("dims", graph(text, **held), lambda candidate: True)
    assert shapes(found.best) == {"x": (1, 1, 1)}
    assert {name: tensor.shape for name, tensor in weights(found.best).items()} == {
        "w": (1, 4, 1),
        "r": (1, 4, 1),
        "b": (1, 8),
    }
    assert calls(found) <= 10


def test_keep_shape_forbids_it() -> None:
    text = "(float[8, 5] x) => (float[8, 5] y) { y = Neg(x) }"
    found = shrink_with("dims rank", graph(text), lambda candidate: True, keep=["shape"])
    assert shapes(found.best) == {"x": (8, 5)}


def test_sizes_are_tried_from_one_upwards() -> None:
    assert sizes(4) == [1, 2, 3]
    found = sizes(194)
    assert found[:16] == list(range(1, 17))
    assert {97, 32, 33, 31, 64, 65, 128, 129} <= set(found)
    assert sorted(found) == found
    assert max(found) < 194
