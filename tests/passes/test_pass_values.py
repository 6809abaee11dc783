"""Content of inputs and initializers."""

from __future__ import annotations

import numpy as np
from planted_faults import calls, graph, shrink_with

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.formulas import formula
from onnxreduce.graph.order import weights

NEG = "(float[12] x) => (float[12] y) { y = Neg(x) }"
ADD = "(float[6] x) => (float[6] y) { y = Add(x, w) }"


def x(candidate: Candidate) -> np.ndarray:
    return candidate.feeds["x"].array


def test_ones_where_the_values_do_not_matter() -> None:
    """Ones and not zeros, which hide what is not computed at all."""
    found = shrink_with("inputs", graph(NEG), lambda candidate: True)
    assert (x(found.best) == 1).all()
    assert calls(found) <= 2


def test_zeros_where_ones_hide_the_fault() -> None:
    found = shrink_with("inputs", graph(NEG), lambda candidate: not (x(candidate) == 1).any())
    assert not x(found.best).any()
    assert calls(found) <= 3


def test_all_inputs_at_once() -> None:
    text = "(float[6] x, float[6] z, float[6] w) => (float[6] y) { a = Add(x, z) y = Mul(a, w) }"
    found = shrink_with("inputs", graph(text), lambda candidate: True)
    assert all((tensor.array == 1).all() for tensor in found.best.feeds.values())
    assert calls(found) <= 2


def test_counting_where_all_must_differ() -> None:
    found = shrink_with("inputs", graph(NEG), lambda candidate: len(set(x(candidate).tolist())) == 12)
    assert x(found.best).tolist() == list(range(12))
    assert calls(found) <= 12


def test_seeded_where_they_must_be_in_disorder() -> None:
    def in_disorder(candidate: Candidate) -> bool:
        return bool((np.diff(x(candidate)) > 0).any() and (np.diff(x(candidate)) < 0).any())

    found = shrink_with("inputs", graph(NEG), in_disorder)
    made = formula(found.best.feeds["x"])
    assert made is not None and made.cost < 12
    assert calls(found) <= 16


def test_weights_become_inputs_with_plain_values() -> None:
    w = np.array([0.3, 1.7, -2.2, 0.1, 5.5, 1.25], np.float32)
    found = shrink_with("weights inputs", graph(ADD, w=w), lambda candidate: True)
    assert set(found.best.feeds) == {"x", "w"}
    assert (found.best.feeds["w"].array == 1).all()
    assert calls(found) <= 6


def test_weights_stay_where_the_fault_needs_an_initializer() -> None:
    w = np.array([0.3, 1.7, -2.2, 0.1, 5.5, 1.25], np.float32)
    found = shrink_with("weights", graph(ADD, w=w), lambda candidate: "w" in weights(candidate))
    assert (weights(found.best)["w"].array == 1).all()
    assert calls(found) <= 4


def test_a_series_is_found_in_weights_that_are_close_to_one() -> None:
    timescale = np.float32(10000.0) ** (np.arange(32, dtype=np.float32) / np.float32(32))

    def fault(candidate: Candidate) -> bool:
        w = weights(candidate)["w"].array if weights(candidate) else np.zeros(32)
        return bool(np.allclose(w, timescale, rtol=1e-3))

    text = "(float[32] x) => (float[32] y) { y = Div(x, w) }"
    found = shrink_with("weights", graph(text, w=timescale), fault)
    made = formula(weights(found.best)["w"])
    assert made is not None
    assert made.code == "(10000.0 ** (np.arange(32) / 32)).astype(np.float32)"


def test_sparse_finds_the_elements_that_matter() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=40).astype(np.float32) * 7

    def fault(candidate: Candidate) -> bool:
        found = x(candidate)
        return bool(found[7] == start[7] and found[31] == start[31])

    text = "(float[40] x) => (float[40] y) { y = Neg(x) }"
    found = shrink_with("inputs sparse", graph(text), fault, {"x": start})
    assert np.flatnonzero(x(found.best)).tolist() == [7, 31]
    made = formula(found.best.feeds["x"])
    assert made is not None and made.code.startswith("np.bincount([7, 31], [")
    assert calls(found) <= 50


def test_sparse_of_one_element_in_zeros() -> None:
    def fault(candidate: Candidate) -> bool:
        found = x(candidate)
        return bool(found[5] > 100)

    start = np.arange(12, dtype=np.float32) ** 3
    found = shrink_with("sparse", graph(NEG), fault, {"x": start})
    assert np.flatnonzero(x(found.best)).tolist() == [5]
    assert calls(found) <= 12


def test_sparse_around_ones_where_zeros_are_refused() -> None:
    """Division by zero gives no number to compare with."""
    start = np.linspace(2, 9, 12).astype(np.float32) ** 2
    found = shrink_with(
        "sparse",
        graph("(float[12] x) => (float[12] y) { y = Reciprocal(x) }"),
        lambda candidate: bool(x(candidate)[3] == start[3]),
        {"x": start},
    )
    assert np.flatnonzero(x(found.best) != 1).tolist() == [3]
    assert calls(found) <= 12


def test_keep_values_forbids_it() -> None:
    found = shrink_with("inputs weights sparse", graph(NEG), lambda candidate: True, keep=["values"])
    assert calls(found) == 0
