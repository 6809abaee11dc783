"""What one change makes of a model, in exact words, under planted oracles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxreduce.explain.neighbours import Near, find_neighbours, nearest
from onnxreduce.explain.neighbours.dims import nearest_sizes
from onnxreduce.explain.neighbours.table import CHANGES
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.custom import INTERESTING, CustomOracle
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.shrink import Shrinking

Fails = Callable[[ModelProto, dict[str, np.ndarray]], bool]
VALUE = helper.make_tensor_value_info
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Planted(CustomOracle):
    """Fails where a function says so; counts the fresh runs."""

    def __init__(self, fails: Fails) -> None:
        super().__init__("planted")
        self.fails = fails
        self.fresh = 0

    def judge(self, candidate, *, fresh=False, alone=False):  # type: ignore[no-untyped-def]
        self.fresh += fresh
        return super().judge(candidate, fresh=fresh, alone=alone)

    def answer(self, model: ModelProto, inputs: object) -> Verdict:
        arrays = {name: tensor.array for name, tensor in inputs.items()}  # type: ignore[attr-defined]
        if self.fails(model, arrays):
            return Verdict(Outcome.FAILS, INTERESTING)
        return Verdict(Outcome.PASSES)


def graph_of_two_chains() -> tuple[ModelProto, dict[str, np.ndarray]]:
    """`Cast → Div` beside `ReduceMean → Add`, as the founding fault has them, with 5 positions."""
    nodes = [
        helper.make_node("Cast", ["u"], ["f"], to=FLOAT),
        helper.make_node("Div", ["f", "ts"], ["D"]),
        helper.make_node("ReduceMean", ["pw"], ["mn"], axes=[-1], keepdims=1),
        helper.make_node("Add", ["mn", "eps"], ["ad"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [VALUE("u", INT64, [1, 5, 1]), VALUE("pw", FLOAT, [1, 5, 7])],
        [VALUE("D", FLOAT, [1, 5, 3]), VALUE("ad", FLOAT, [1, 5, 1])],
        [
            numpy_helper.from_array(np.array([1, 2, 4], np.float32), "ts"),
            numpy_helper.from_array(np.array(0.5, np.float32), "eps"),
        ],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    pw = np.random.RandomState(3).uniform(1, 9, (1, 5, 7)).astype(np.float32)
    return model, {"u": np.arange(5).reshape(1, 5, 1), "pw": pw}


def told(
    fails: Fails, case: tuple[ModelProto, dict[str, np.ndarray]], calls: int = 1000, repeats: int = 1
) -> tuple[dict[str, bool], list[Near], Planted]:
    """Whether each neighbour is right, by its words; all of them; and the oracle."""
    model, arrays = case
    oracle = Planted(fails)
    candidate = whole(load(model), {name: StoredTensor.from_array(array) for name, array in arrays.items()})
    problem = Shrinking(candidate, oracle, INTERESTING, Journal(), repeats=repeats)
    assert problem.start()
    try:
        found = list(find_neighbours(problem, [], Budget(calls, 60)))
    finally:
        problem.close()
    words = {f"{near.neighbour.subject} {near.neighbour.change}": near.neighbour.heals for near in found}
    assert len(words) == len(found), "no words are used twice"
    return words, found, oracle


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def race(model: ModelProto, arrays: dict[str, np.ndarray]) -> bool:
    """All four operators, the Cast's chain first, equal positions, nothing exposed between: like the founding fault."""
    graph = model.graph
    names = operators(model)
    return (
        sorted(names) == ["Add", "Cast", "Div", "ReduceMean"]
        and names[0] == "Cast"
        and {name: array.dtype.name for name, array in arrays.items()} == {"u": "int64", "pw": "float32"}
        and arrays["u"].shape[1] == arrays["pw"].shape[1]
        and "mn" not in [value.name for value in graph.output]
    )


@pytest.fixture(scope="module")
def racing() -> tuple[dict[str, bool], list[Near], Planted]:
    return told(race, graph_of_two_chains())


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("Cast (f) left out, its output fed as float input", True),
        ("Div (D) left out", True),
        ("ReduceMean (mn) left out, its output fed as float input", True),
        ("Add (ad) left out", True),
        ("Add (ad) replaced by Identity", True),
        ("ReduceMean (mn) to Add (ad) moved to the front", True),
        ("Div (D) and ReduceMean (mn) swapped", False),
        ("f also a graph output", False),
        ("mn also a graph output", True),
        ("u int64 → int32", True),
        ("u made an initializer", True),
        ("ts made a graph input", True),
        ("axis 1 of pw and axis 1 of u 5 → 2", False),
        ("axis 1 of u 5 → 4", True),
        ("axis 2 of pw 7 → 8", False),
        ("axis 2 of ts 3 → 6", None),
        ("axis 0 of ts 3 → 6", False),
        ("pw all 0", False),
        ("u random from 0 to 4", False),
        ("axes of ReduceMean (mn) [-1] → [-2]", False),
        ("keepdims of ReduceMean (mn) 1 → 0", False),
    ],
)
def test_each_change_is_told_in_words(
    racing: tuple[dict[str, bool], list[Near], Planted], words: str, right: bool | None
) -> None:
    assert racing[0].get(words) is right


def test_every_neighbour_is_valid_and_only_what_is_right_is_confirmed(
    racing: tuple[dict[str, bool], list[Near], Planted],
) -> None:
    _, found, oracle = racing
    for near in found:
        onnx.checker.check_model(near.candidate.model.with_weights_inside(), full_check=True)
        assert set(near.candidate.expected or {}) == set(near.candidate.outputs)
    assert oracle.fresh == sum(near.neighbour.heals for near in found) > 10


def test_the_nearest_is_the_smallest_change(racing: tuple[dict[str, bool], list[Near], Planted]) -> None:
    right = [near.neighbour for near in nearest(racing[1])]
    assert (right[0].subject, right[0].change) == ("ReduceMean (mn) to Add (ad)", "moved to the front")
    assert (right[1].subject, right[1].change) == ("mn", "also a graph output")
    order = ["order", "output", "dimension", "input", "node"]
    assert list(dict.fromkeys(each.kind for each in right))[: len(order)] == order


def test_a_fault_that_shows_seldom_is_asked_as_often_as_it_takes() -> None:
    """A pass that three fresh runs do not bear out is none."""
    runs: dict[bytes, int] = {}

    def seldom(model: ModelProto, arrays: dict[str, np.ndarray]) -> bool:
        key = model.SerializeToString() + b"".join(array.tobytes() for array in arrays.values())
        runs[key] = runs.get(key, 0) + 1
        return "Neg" in operators(model) and runs[key] == 3

    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["y"])],
        "g",
        [VALUE("x", FLOAT, [2])],
        [VALUE("y", FLOAT, [2])],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    words, _, _ = told(seldom, (model, {"x": np.array([1, 2], np.float32)}), repeats=3)
    assert words["Abs (y) left out"] is False
    assert words["Neg (a) left out, its output fed as float input"] is True


def test_calls_are_bounded_and_each_kind_of_change_gets_its_share() -> None:
    _, found, oracle = told(race, graph_of_two_chains(), calls=24)
    kinds = {near.neighbour.kind for near in found}
    assert kinds == {"order", "output", "attribute", "dimension", "input", "node", "value"}
    assert oracle.fresh + len(found) in (24, 25)


def test_a_model_is_not_right_because_its_wrong_output_is_gone() -> None:
    model, arrays = graph_of_two_chains()
    oracle = Planted(lambda model, _: "Div" in operators(model))
    candidate = whole(load(model), {name: StoredTensor.from_array(array) for name, array in arrays.items()})
    problem = Shrinking(candidate, oracle, INTERESTING, Journal())
    assert problem.start()
    found = list(find_neighbours(problem, ["D"], Budget(1000, 60)))
    problem.close()
    subjects = {near.neighbour.subject for near in found if near.neighbour.kind == "output"}
    assert "D" not in subjects and "ad" in subjects
    assert [near.neighbour.subject for near in nearest(found)] == ["Div (D)"], "and it comes last"


def test_attributes_are_dropped_changed_and_switched() -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["s"], axis=1),
        helper.make_node("MaxPool", ["s"], ["y"], kernel_shape=[2], auto_pad="SAME_UPPER", strides=[2]),
    ]
    graph = helper.make_graph(nodes, "g", [VALUE("x", FLOAT, [1, 2, 4])], [VALUE("y", FLOAT, [1, 2, 2])])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    words, _, _ = told(lambda model, _: True, (model, {"x": x}))
    assert {text for text in words if " of MaxPool (y) " in text or " of Softmax (s) " in text} == {
        "axis of Softmax (s) 1 dropped, which means -1",
        "axis of Softmax (s) 1 → 0",
        "auto_pad of MaxPool (y) SAME_UPPER dropped, which means NOTSET",
        "auto_pad of MaxPool (y) SAME_UPPER → VALID",
        "strides of MaxPool (y) [2] dropped",
        "strides of MaxPool (y) [2] → [1]",
        "ceil_mode of MaxPool (y) 0 → 1",
        "storage_order of MaxPool (y) 0 → 1",
    }


@pytest.mark.parametrize(
    ("old", "sizes"),
    [(1, [2, 4]), (2, [3, 1, 4, 8]), (8, [9, 7, 4, 16, 2, 32, 1]), (194, [195, 193, 256, 97, 388, 512, 2, 1])],
)
def test_sizes_are_tried_by_their_ratio(old: int, sizes: list[int]) -> None:
    assert nearest_sizes(old) == sizes


def test_the_documentation_has_the_table_of_changes() -> None:
    text = (Path(__file__).parents[2] / "docs" / "explain.md").read_text("utf-8")
    places = [text.index(change.help.partition(":")[0]) for change in CHANGES]
    assert places == sorted(places)
