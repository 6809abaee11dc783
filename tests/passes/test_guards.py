"""What a reduction must not drift to: references that are not sure of themselves, and other faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_faults import PlantedOracle, calls, graph, holds, operators, shrink_with, shrinking

import onnxreduce
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.signature import Kind
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.shrink import KINDS_KEPT

TEN = np.array(10, np.float32)
AMPLIFIERS = {
    "Floor": ("(float[1] x) => (float[1] y) { a = Mul(x, ten) y = Floor(a) }", {}),
    "Ceil": ("(float[1] x) => (float[1] y) { a = Mul(x, ten) b = Neg(a) y = Ceil(b) }", {}),
    "Cast": ("(float[1] x) => (int64[1] y) { a = Mul(x, ten) y = Cast<to=7>(a) }", {}),
    "ArgMax": (
        "(float[1] x) => (int64[1] y) { a = Mul(x, ten) b = Concat<axis=0>(a, seven) y = ArgMax<axis=0>(b) }",
        {"seven": np.array([7], np.float32)},
    ),
    "comparison": (
        "(float[1] x) => (bool[1] y) { a = Mul(x, ten) y = GreaterOrEqual(a, seven) }",
        {"seven": np.array(7, np.float32)},
    ),
    "almost zero": (
        "(float[1] x) => (float[1] y) { a = Mul(x, ten) b = Sub(a, near) y = Reciprocal(b) }",
        {"near": np.array(6.9999, np.float32)},
    ),
}


@pytest.mark.parametrize("name", AMPLIFIERS)
def test_rounding_that_an_operator_amplifies_is_refused(name: str) -> None:
    """0.7 times 10 is 7 in single precision, with every optimization, and less than 7 in double precision."""
    text, weights = AMPLIFIERS[name]
    problem = shrinking(graph(text, ten=TEN, **weights), lambda candidate: True, {"x": [0.33]})
    for value, sure in ((0.7, False), (0.41, True)):
        draft = problem.draft()
        draft.feeds["x"] = StoredTensor.from_array(np.array([value], np.float32))
        assert (problem.still_fails(draft) is not None) == sure
    assert calls(problem) == 1


def test_such_values_are_passed_over_for_others() -> None:
    """Ones would be plainer than zeros; at 1 the Floor amplifies rounding."""
    text = "(float[3] x) => (float[3] y) { a = Mul(x, w) b = Mul(a, ten) y = Floor(b) }"
    model = graph(text, ten=TEN, w=np.array(0.7, np.float32))
    found = shrink_with("inputs", model, holds("Floor"), {"x": [0.33, 0.41, 0.55]})
    assert not found.best.feeds["x"].array.any()
    assert calls(found) <= 2


def test_what_is_ill_conditioned_from_the_start_is_shrunk_all_the_same() -> None:
    text = "(float[3] x) => (float[3] y) { a = Mul(x, ten) y = Floor(a) }"
    found = shrink_with("dims", graph(text, ten=TEN), holds("Floor"), {"x": [0.7, 0.7, 0.7]})
    assert found.best.feeds["x"].shape == (1,)


def test_operators_without_double_precision_are_not_asked_for_it() -> None:
    w = np.random.default_rng(0).normal(size=(2, 3, 3, 3)).astype(np.float32)
    text = "(float[1, 3, 5, 5] x) => (float[1, 2, 3, 3] y) { a = HardSwish(x) y = Conv(a, w) }"
    found = shrink_with("inputs", graph(text, w=w), holds("Conv"))
    assert (found.best.feeds["x"].array == 1).all()


@pytest.mark.parametrize(
    "text",
    [
        "(float[1] x) => (float[1] y) { y = Sqrt(x) }",
        "(float[1] x) => (bool[1] y) { a = Sqrt(x) y = IsNaN(a) }",
        "(float[1] x) => (float[1] y) { a = Sqrt(x) b = Sub(a, a) c = IsNaN(b) y = Where(c, x, a) }",
    ],
)
def test_nan_in_the_reference_is_refused(text: str) -> None:
    problem = shrinking(graph(text), lambda candidate: True, {"x": [4]})
    draft = problem.draft()
    draft.feeds["x"] = StoredTensor.from_array(np.array([-1], np.float32))
    assert problem.still_fails(draft) is None
    assert calls(problem) == 0


def test_infinity_in_an_output_is_refused() -> None:
    problem = shrinking(graph("(float[1] x) => (float[1] y) { y = Reciprocal(x) }"), lambda candidate: True, {"x": [4]})
    draft = problem.draft()
    draft.feeds["x"] = StoredTensor.from_array(np.array([0], np.float32))
    assert problem.still_fails(draft) is None


def test_another_class_of_failure_is_kept_aside_with_its_script_and_not_followed(tmp_path: Path) -> None:
    """Alone, the Tanh gives a run error; with the Exp before it, wrong values."""

    def fault(candidate: Candidate) -> bool | Kind:
        there = operators(candidate)
        if "Tanh" not in there:
            return False
        return Kind.NUMERIC if "Exp" in there else Kind.RUN_ERROR

    model = graph("(float[4] x) => (float[4] y) { a = Neg(x) b = Exp(a) c = Abs(b) y = Tanh(c) }")
    oracle = PlantedOracle(fault, "no such kernel")
    found = onnxreduce.reduce(model, oracle, {"x": np.ones(4, np.float32)}, output=tmp_path / "out")
    assert found.summary["operators"] == ["Exp", "Tanh"]
    assert found.summary["confirmed_fresh"]
    assert found.summary["also_found"] == ["error at run"]
    aside = tmp_path / "out" / "also-found" / "error-at-run"
    namespace: dict[str, Any] = {"__name__": "build_repro", "__file__": str(aside / "build_repro.py")}
    exec((aside / "build_repro.py").read_text(), namespace)
    assert [node.op_type for node in namespace["model"]().graph.node] == ["Tanh"]


RICH = """(float[1, 4, 6] activations, int64[1, 4] positions) =>
    (float[1, 4, 6] first_output, float[1, 4] second_output) {
    a = Exp(activations) second_output = Cast<to=1>(positions) b = Mul(a, scale) first_output = Tanh(b) }"""


def facts(candidate: Candidate) -> dict[str, Any]:
    """What each kind of `--keep` is about."""
    proto = candidate.model.proto
    by_position = sorted(candidate.feeds.values(), key=lambda tensor: tensor.elem_type)
    return {
        "dtype": [tensor.elem_type for tensor in by_position],
        "opset": ([each.version for each in proto.opset_import], proto.ir_version),
        "operators": operators(candidate),
        "shape": [tensor.shape for tensor in by_position],
        "values": [tensor.blob.digest for tensor in by_position],
        "order": [node.op_type for node in proto.graph.node],
    }


@pytest.mark.parametrize("kind", KINDS_KEPT)
def test_keep_forbids_a_kind_of_change(kind: str) -> None:
    model = graph(RICH, scale=np.linspace(1, 2, 6).astype(np.float32))

    def fault(candidate: Candidate) -> bool:
        return len(candidate.model.proto.graph.node) == 4 and "Cast" in operators(candidate)

    also = {"values": ["shape", "dtype"], "order": ["operators"]}  # what would change it too
    kept = [kind, *also.get(kind, [])]
    start = facts(shrinking(model, fault).best)
    free, found = shrink_with("all", model, fault), shrink_with("all", model, fault, keep=kept)
    if kind == "values":
        assert set(start[kind]) <= set(facts(found.best)[kind])
    else:
        assert facts(found.best)[kind] == start[kind]
    assert facts(free.best)[kind] != start[kind]


def test_keep_goes_through_the_whole_reduction() -> None:
    model = graph("(float[4] x) => (float[4] y) { a = Neg(x) b = Exp(a) y = Tanh(b) }")

    def two(candidate: Candidate) -> bool:
        return len(candidate.model.proto.graph.node) >= 2

    inputs = {"x": np.ones(4, np.float32)}
    found = onnxreduce.reduce(model, PlantedOracle(two), inputs, shrinks=Shrinks(keep=["operators", "shape"]))
    assert set(found.summary["operators"]) <= {"Neg", "Exp", "Tanh"}
    assert "operators" not in found.summary["changed"]
    assert found.inputs[next(iter(found.inputs))].shape == (4,)
