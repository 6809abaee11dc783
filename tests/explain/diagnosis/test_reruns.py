"""Other inputs confirm, refute or tell apart; every element type and kind of graph is taken or passed over."""

from __future__ import annotations

from collections.abc import Callable

import faults
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from planted_outputs import Planted, Tools, Values, node, planted, recorded, single

from onnxreduce.explain.diagnosis import Diagnosis, DiagnosisKind, Rerun, diagnose
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft, rename_reads
from onnxreduce.oracle.comparison import Tolerance

Fault = Callable[[Values], np.ndarray]


def suspect(fault: Fault, tools: Tools, asked: list[Candidate], output: str = "out") -> Rerun:
    """Runs a candidate and puts the fault into one output."""

    def rerun(candidate: Candidate) -> tuple[Values, Values] | None:
        asked.append(candidate)
        if tools.reference.record(candidate) is None:
            return None
        values = recorded(candidate, tools)
        wrong = np.asarray(fault(values)).astype(values[output].dtype)
        return values, {**{name: values[name] for name in candidate.outputs}, output: wrong}

    return rerun


def overwriting(value: str, by: str, tools: Tools) -> Rerun:
    """A suspect whose node that gives `out` reads another value: its nodes are those of the candidate, otherwise."""

    def rerun(candidate: Candidate) -> tuple[Values, Values] | None:
        if tools.reference.record(candidate) is None:
            return None
        draft = Draft(candidate)
        last = next(each for each in draft.nodes if "out" in each.output)
        rename_reads(last, {value: by})
        draft.order([*(each for each in draft.nodes if "out" not in each.output), last])
        return recorded(candidate, tools), recorded(draft.candidate(), tools)

    return rerun


def said(case: Planted, fault: Fault, tools: Tools) -> tuple[list[Diagnosis], list[Candidate]]:
    asked: list[Candidate] = []
    return case.diagnose("out", fault(case.values), rerun=suspect(fault, tools, asked)), asked


def two_branches(tools: Tools, content: np.ndarray, last: str = "Neg") -> Planted:
    """Plain nodes that repeat, on inputs as a reduction leaves them."""
    nodes = [
        node("Neg", ["x"], ["a"]),
        node(last, ["a"], ["out"]),
        node("Neg", ["y"], ["b"]),
        node("Neg", ["b"], ["c"]),
    ]
    shape = list(content.shape)
    ends = [faults.floats("x", shape), faults.floats("y", shape)]
    proto = faults.model(nodes, ends, [faults.floats("out", shape), faults.floats("c", shape)], opset=13)
    return planted((proto, {"x": content, "y": content * 3}), tools)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 3)])
def test_ones_become_sure_with_other_inputs(tools: Tools, shape: tuple[int, ...]) -> None:
    """On ones alone, nothing can be said; the inputs then grow, where they are few."""
    case = two_branches(tools, np.ones(shape, np.float32), "Tanh")
    assert case.diagnose("out", np.tanh(case.values["b"])) == []
    (found,) = case.diagnose("out", np.tanh(case.values["b"]), rerun=overwriting("a", "b", tools))
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert "a was overwritten by b before Tanh read it; so too for" in found.statement
    assert (found.matched, found.total) == (case.values["out"].size, case.values["out"].size)


def test_repeated_nodes_are_told_apart_by_another_operator(tools: Tools) -> None:
    """-b is c and y: where the last node itself reads b, exchanging it shows that."""
    case = two_branches(tools, np.linspace(1, 2, 20, dtype=np.float32))
    alone = case.diagnose("out", -case.values["b"])[0]
    assert (alone.kind, alone.confidence) == (DiagnosisKind.OTHER_VALUE, "likely")
    assert "or, as likely" in alone.statement
    (found,) = case.diagnose("out", -case.values["b"], rerun=overwriting("a", "b", tools))
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert "a was overwritten by b before the Neg that gives out read it" in found.statement
    (found,), _ = said(case, lambda v: v["y"], tools)
    assert (found.kind, found.confidence) == (DiagnosisKind.OTHER_VALUE, "certain")
    assert "holds the content of y" in found.statement


def test_other_inputs_refute(tools: Tools) -> None:
    """By their content, sorted inputs cut an activation into a right beginning and a tail of zeros."""
    falling = np.concatenate([np.linspace(3, 0.1, 30), np.linspace(-3, -0.1, 30)[::-1]]).astype(np.float32)
    case = two_branches(tools, falling.reshape(6, 10), "Identity")

    def cut_off(v: Values) -> np.ndarray:
        return np.where(v["a"] < -1, v["a"], np.where(v["a"] > 0, 0, v["a"]))

    found, asked = said(case, cut_off, tools)
    assert found == []

    def doubled(v: Values) -> np.ndarray:
        """b, but only for the very inputs of the reduced model."""
        return (
            v["b"]
            if np.allclose(v["x"], case.values["x"])
            else v["out"] * np.linspace(2, 9, v["out"].size).reshape(6, 10)
        )

    assert case.diagnose("out", doubled(case.values)) != []
    found, asked = said(case, doubled, tools)
    assert found == []
    assert asked


def test_inputs_for_which_the_fault_does_not_show_say_nothing(tools: Tools) -> None:
    case = two_branches(tools, np.linspace(1, 2, 40, dtype=np.float32), "Exp")

    def only_here(v: Values) -> np.ndarray:
        return v["y"] if np.array_equal(v["out"], case.values["out"]) else v["out"]

    (found,), asked = said(case, only_here, tools)
    assert found.kind is DiagnosisKind.OTHER_VALUE
    assert "so too" not in found.statement
    assert asked
    again = case.diagnose("out", only_here(case.values), rerun=lambda candidate: None)
    assert again == [found]


TYPES = {
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}


@pytest.mark.parametrize("name", TYPES)
def test_content_of_another_value_in_each_type(tools: Tools, name: str) -> None:
    rng = np.random.default_rng(12)
    high = 2 if name == "bool" else 100
    feeds = {each: (rng.random((16, 9)) * high).astype(np.int64).astype(name) for each in ("c", "d")}
    if name.startswith("float"):
        feeds = {each: rng.normal(size=(16, 9)).astype(name) for each in feeds}
    if name == "uint8":
        feeds = {"flags": rng.random((16, 9)) < 0.5, **feeds}
    operator = {"bool": "And", "uint8": "Where"}.get(name, "Add")
    case = planted(single(operator, feeds, (16, 9), elem_type=TYPES[name]), tools)
    (found,) = case.diagnose("out", feeds["d"])
    assert found.kind is DiagnosisKind.OTHER_VALUE
    assert "the content of d" in found.statement
    rest = rng.permutation(feeds["d"].ravel()).reshape(16, 9)
    assert [each.kind for each in case.diagnose("out", rest)] in ([], [DiagnosisKind.REARRANGED])


def test_what_has_no_bytes_of_its_own_is_passed_over(tools: Tools) -> None:
    """Strings, types below a byte, no elements, no axes."""
    words = np.array(["a", "b"], object)
    nodes = [
        node("Identity", ["s"], ["t"]),
        node("Cast", ["x"], ["bf"], to=TensorProto.BFLOAT16),
        node("Neg", ["none"], ["empty"]),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Neg", ["x"], ["out"]),
    ]
    feeds = {"s": words, "x": np.linspace(1, 3, 24, dtype=np.float32), "none": np.zeros((0, 2), np.float32)}
    ends = [faults.tensor_info("s", TensorProto.STRING, [2]), faults.floats("x", [24]), faults.floats("none", [0, 2])]
    outputs = [
        faults.tensor_info("t", TensorProto.STRING, [2]),
        faults.tensor_info("bf", TensorProto.BFLOAT16, [24]),
        faults.floats("empty", [0, 2]),
        faults.floats("sum", []),
        faults.floats("out", [24]),
    ]
    case = planted((faults.model(nodes, ends, outputs, opset=13), feeds), tools)
    v = case.values
    actual = {name: v[name] for name in case.candidate.outputs}
    actual |= {"t": words[::-1], "sum": np.array(7.25, np.float32), "out": v["x"]}
    actual["bf"] = np.full(24, 2, ml_dtypes.bfloat16)
    wrong = ["t", "bf", "empty", "sum", "out"]
    found = diagnose(case.candidate, v, actual, wrong, Tolerance(), recomputer=tools.recomputer)
    assert [each.output for each in found] == ["out"]


def test_bodies_and_sequences_on_the_way(tools: Tools) -> None:
    """A body reads the overwritten value from around it, and a value on the way is a sequence."""
    same = [node("Tanh", ["a"], ["inner"])]
    other = [node("Sin", ["a"], ["inner2"])]
    branches = [
        helper.make_graph(same, "then", [], [faults.floats("inner", [4, 6])]),
        helper.make_graph(other, "else", [], [faults.floats("inner2", [4, 6])]),
    ]
    nodes = [
        node("Exp", ["x"], ["a"]),
        node("Cos", ["y"], ["b"]),
        node("If", ["flag"], ["chosen"], then_branch=branches[0], else_branch=branches[1]),
        node("SequenceConstruct", ["chosen", "b"], ["pair"]),
        node("ConcatFromSequence", ["pair"], ["out"], axis=0),
    ]
    rng = np.random.default_rng(13)
    feeds = {name: rng.normal(size=(4, 6)).astype(np.float32) for name in ("x", "y")} | {"flag": np.array(True)}
    ends = [faults.floats("x", [4, 6]), faults.floats("y", [4, 6]), faults.tensor_info("flag", TensorProto.BOOL, [])]
    case = planted((faults.model(nodes, ends, [faults.floats("out", [8, 6])], opset=13), feeds), tools)
    v = case.values
    (found,) = case.diagnose("out", np.concatenate([np.tanh(v["b"]), v["b"]]))
    assert found.kind is DiagnosisKind.OVERWRITTEN_INPUT
    assert "a was overwritten by b before If read it" in found.statement


def test_a_content_that_cannot_be_run_is_left_out(tools: Tools) -> None:
    """Indices that other content would throw out of range do not hide the value that was overwritten."""
    rng = np.random.default_rng(14)
    nodes = [
        node("Gather", ["x", "indices"], ["rows"]),
        node("Mul", ["y", "y"], ["squares"]),
        node("Tanh", ["rows"], ["t"]),
        node("Sub", ["t", "y"], ["out"]),
    ]
    feeds = {
        "x": rng.normal(size=(9, 8)).astype(np.float32),
        "y": rng.normal(size=(5, 8)).astype(np.float32),
        "indices": rng.integers(0, 9, 5),
        "others": rng.integers(10, 99, 5),
    }
    nodes.append(node("Neg", ["others"], ["negative"]))
    ends = [faults.floats("x", [9, 8]), faults.floats("y", [5, 8])]
    ends += [faults.tensor_info(name, TensorProto.INT64, [5]) for name in ("indices", "others")]
    outputs = [faults.floats("out", [5, 8]), faults.floats("squares", [5, 8])]
    outputs.append(faults.tensor_info("negative", TensorProto.INT64, [5]))
    case = planted((faults.model(nodes, ends, outputs, opset=13), feeds), tools)
    v = case.values
    (found,) = case.diagnose("out", np.tanh(v["squares"]) - v["y"])
    assert "rows was overwritten by squares before Tanh read it" in found.statement


def test_a_large_output_is_looked_at_in_bounded_time(tools: Tools) -> None:
    rng = np.random.default_rng(15)
    x = rng.normal(size=(1024, 1536)).astype(np.float32)
    case = planted(single("Abs", {"x": x}, (1024, 1536)), tools)
    (found,) = case.diagnose("out", np.abs(x[::-1]))
    assert found.kind is DiagnosisKind.REARRANGED
    assert "reversed along axis 0" in found.statement
