"""What a reader is told about changes in kind."""

from __future__ import annotations

from planted_faults import graph, holds, shrink_with, shrinking

from onnxreduce.reduction.changes import changes

TWO = "(double[4] x, int64[4] p) => (double[4] y, float[4] q) { q = Cast<to=1>(p) a = Exp(x) y = Tanh(a) }"


def test_nothing_changed() -> None:
    problem = shrinking(graph(TWO), holds("Exp"))
    assert changes(problem.best, problem.best) == {}


def test_every_kind_is_told() -> None:
    before = shrinking(graph(TWO), holds("Exp")).best
    found = shrink_with("all", graph(TWO), lambda candidate: len(candidate.model.proto.graph.node) == 3)
    told = changes(before, found.best)
    assert told["dtype"] == "double, int64 → float, int32"
    assert told["opset"] == "ai.onnx 18 → ai.onnx 7"
    assert told["operators"] == "Cast, Exp, Tanh → Cast, Neg ×2"
    assert told["elements of inputs and initializers"] == "8 → 2"
    assert "values" in told


def test_another_order_of_the_same_operators() -> None:
    text = "(float[4] x, float[4] p) => (float[4] y, float[4] q) { a = Exp(x) q = Abs(p) y = Tanh(a) }"
    before = shrinking(graph(text), holds("Exp")).best
    found = shrink_with("reorder", graph(text), lambda candidate: len(candidate.model.proto.graph.node) == 3)
    assert changes(before, found.best) == {"order": "Exp, Abs, Tanh → Abs, Exp, Tanh"}
