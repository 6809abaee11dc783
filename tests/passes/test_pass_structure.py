"""Fewer outputs, fewer nodes, plainer nodes."""

from __future__ import annotations

import numpy as np
from planted_faults import calls, graph, holds, operators, shown, shrink_with

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights

CHAIN = "(float[4] x) => (float[4] y) { a = Abs(x) b = Sqrt(a) c = Exp(b) y = Tanh(c) }"
TWO = "(float[3] x, float[3] z) => (float[3] y, float[3] w) { a = Exp(x) y = Tanh(a) w = Abs(z) }"
DIAMOND = "(float[4] x) => (float[4] y) { a = Exp(x) b = Neg(a) c = Abs(a) y = Add(b, c) }"


def test_outputs_drops_one_with_what_only_it_needed() -> None:
    found = shrink_with("outputs", graph(TWO), holds("Exp"))
    assert shown(found) == ["a = Exp(x)", "y = Tanh(a)"]
    assert list(found.best.feeds) == ["x"]
    assert calls(found) <= 3


def test_outputs_keeps_what_the_fault_needs() -> None:
    found = shrink_with("outputs", graph(TWO), holds("Exp", "Abs"))
    assert found.best.outputs == ["y", "w"]
    assert calls(found) <= 2


def test_outputs_drops_one_that_another_node_reads() -> None:
    text = "(float[3] x) => (float[3] a, float[3] y) { a = Exp(x) y = Tanh(a) }"
    found = shrink_with("outputs", graph(text), holds("Exp", "Tanh"))
    assert found.best.outputs == ["y"]
    assert calls(found) <= 3


def test_nodes_promotes_what_is_still_read() -> None:
    found = shrink_with("nodes", graph(CHAIN), holds("Exp"))
    assert shown(found) == ["c = Exp(b)"]
    assert list(found.best.feeds) == ["b"]
    assert calls(found) <= 6


def test_nodes_keeps_two_that_are_needed_together() -> None:
    found = shrink_with("nodes", graph(CHAIN), holds("Abs", "Exp"))
    assert shown(found) == ["a = Abs(x)", "c = Exp(b)"]
    assert calls(found) <= 10


def test_nodes_deletes_pairs_where_no_single_one_can_go() -> None:
    def even(candidate: Candidate) -> bool:
        return len(candidate.model.proto.graph.node) % 2 == 0

    found = shrink_with("nodes", graph(CHAIN), even)
    assert len(shown(found)) == 2
    assert calls(found) <= 24


def test_bypass_takes_out_the_middle_of_a_chain() -> None:
    found = shrink_with("bypass", graph(CHAIN), holds("Abs", "Tanh"))
    assert shown(found) == ["a = Abs(x)", "y = Tanh(a)"]
    assert calls(found) <= 7


def test_bypass_of_a_graph_output_gives_another() -> None:
    found = shrink_with("bypass", graph(DIAMOND), holds("Exp", "Neg"))
    assert operators(found.best) == ["Exp", "Neg"]
    assert calls(found) <= 8


def test_bypass_leaves_nodes_that_change_the_shape() -> None:
    text = "(float[4, 3] x) => (float[3, 4] y) { a = Transpose<perm=[1, 0]>(x) y = Relu(a) }"
    found = shrink_with("bypass", graph(text), holds("Relu"))
    assert shown(found) == ["a = Transpose(x)", "y = Relu(a)"]
    assert calls(found) <= 2


def test_bypass_of_a_node_with_two_outputs() -> None:
    text = """(float[4, 6] x, float[4, 3] z) => (float[4, 3] y) {
        a = Exp(x) b, c = Split<axis=1, num_outputs=2>(a) d = Relu(b) e = Add(d, c) y = Mul(e, z) }"""
    found = shrink_with("bypass", graph(text), holds("Exp", "Split", "Mul"))
    assert shown(found) == ["a = Exp(x)", "b, c = Split(a)", "y = Mul(b, z)"]
    assert calls(found) <= 8


def test_fold_makes_an_initializer_of_a_value() -> None:
    text = "(float[4] x) => (float[4] y) { a = Exp(x) y = Mul(x, a) }"
    found = shrink_with("fold", graph(text), holds("Mul"))
    assert shown(found) == ["y = Mul(x, a)"]
    np.testing.assert_allclose(found.draft().weights["a"].array, np.exp(found.best.feeds["x"].array), rtol=1e-6)
    assert calls(found) <= 2


def test_fold_of_a_node_with_two_outputs() -> None:
    text = """(float[4, 6] x) => (float[4, 3] y) {
        b, c = Split<axis=1, num_outputs=2>(x) y = Mul(b, c) }"""
    found = shrink_with("fold", graph(text), holds("Mul"))
    assert shown(found) == ["y = Mul(b, c)"]
    assert calls(found) <= 2


def test_fold_of_a_value_that_is_a_graph_output_too() -> None:
    text = "(float[4] x) => (float[4] a, float[4] y) { a = Exp(x) y = Mul(x, a) }"
    found = shrink_with("fold", graph(text), holds("Mul"))
    assert shown(found) == ["y = Mul(x, a)"]
    assert found.best.outputs == ["y"]
    assert calls(found) <= 2


def test_simplify_a_whole_chain_at_once() -> None:
    found = shrink_with("simplify", graph(CHAIN), lambda candidate: len(candidate.model.proto.graph.node) == 4)
    assert shown(found) == ["a = Neg(x)", "b = Neg(a)", "c = Neg(b)", "y = Neg(c)"]
    assert calls(found) <= 2


def test_simplify_around_the_operator_that_is_needed() -> None:
    def three_with_tanh(candidate: Candidate) -> bool:
        return len(candidate.model.proto.graph.node) == 4 and "Tanh" in operators(candidate)

    found = shrink_with("simplify", graph(CHAIN), three_with_tanh)
    assert shown(found) == ["a = Neg(x)", "b = Neg(a)", "c = Neg(b)", "y = Tanh(c)"]
    assert calls(found) <= 8


def test_simplify_keeps_two_inputs_where_they_matter() -> None:
    text = "(float[3] x, float[3] z) => (float[3] y) { a = Atan(x) y = Pow(a, z) }"

    def two_inputs(candidate: Candidate) -> bool:
        return len(candidate.feeds) == 2

    found = shrink_with("simplify", graph(text), two_inputs, {"x": [1, 2, 3], "z": [1, 2, 3]})
    assert shown(found) == ["a = Neg(x)", "y = Add(a, z)"]
    assert calls(found) <= 8


BIASED = "(float[1, 1, 5, 5] x) => (float[1, 1, 3, 3] y) { y = Conv(x, w, b) }"
CONV = {"w": np.ones((1, 1, 3, 3), np.float32), "b": np.ones(1, np.float32)}


def test_optional_inputs_go() -> None:
    found = shrink_with("optional", graph(BIASED, **CONV), holds("Conv"))
    assert shown(found) == ["y = Conv(x, w)"]
    assert calls(found) <= 2


def test_optional_inputs_in_the_middle_are_left_out() -> None:
    text = "(float[4] x, float low, float high) => (float[4] y) { y = Clip(x, low, high) }"
    found = shrink_with("optional", graph(text), lambda candidate: "high" in candidate.feeds, {"low": -9, "high": 2})
    assert shown(found) == ["y = Clip(x, , high)"]
    assert calls(found) <= 4


def test_optional_inputs_stay_where_the_fault_needs_them() -> None:
    found = shrink_with("optional", graph(BIASED, **CONV), lambda candidate: len(weights(candidate)) == 2)
    assert shown(found) == ["y = Conv(x, w, b)"]
    assert calls(found) <= 1


def test_merge_makes_one_cast_of_two() -> None:
    text = "(float[4] x) => (int32[4] y) { a = Cast<to=7>(x) y = Cast<to=6>(a) }"
    found = shrink_with("merge", graph(text), holds("Cast"))
    assert shown(found) == ["y = Cast(x)"]
    assert calls(found) <= 2


def test_merge_of_reshapes() -> None:
    text = """(float[4, 6] x) => (float[3, 8] y) {
        a = Reshape(x, s) b = Exp(a) c = Reshape(b, t) y = Reshape(c, u) }"""
    model = graph(text, s=np.array([24]), t=np.array([12, 2]), u=np.array([3, 8]))
    found = shrink_with("merge", model, holds("Exp", "Reshape"))
    assert sorted(operators(found.best)) == ["Exp", "Reshape"]
    assert calls(found) <= 8


def test_merge_lets_the_first_write_what_the_second_wrote() -> None:
    text = "(float[4, 6] x) => (float[6, 4] y) { a = Exp(x) y = Transpose<perm=[1, 0]>(a) }"
    found = shrink_with("merge", graph(text), holds("Exp"))
    assert shown(found) == ["y = Exp(x)"]
    assert calls(found) <= 3


def test_merge_leaves_values_that_others_read() -> None:
    text = "(float[4] x) => (float[4] a, float[4] y) { a = Exp(x) y = Neg(a) }"
    found = shrink_with("merge", graph(text), holds("Exp"))
    assert shown(found) == ["a = Exp(x)", "y = Neg(a)"]
    assert calls(found) == 0


def test_keep_operators_forbids_plainer_ones() -> None:
    found = shrink_with("simplify", graph(CHAIN), lambda candidate: True, keep=["operators"])
    assert operators(found.best) == ["Abs", "Exp", "Sqrt", "Tanh"]
    assert calls(found) == 0
