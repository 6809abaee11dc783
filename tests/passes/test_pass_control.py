"""If, Loop and Scan."""

from __future__ import annotations

import numpy as np
from planted_faults import calls, feeds_of, graph, holds, operators, shown, shrink_with

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights

BRANCHES = """(bool c, float[4] x) => (float[4] y) {
    y = If (c) <
        then_branch = t () => (float[4] a) {
            k = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>() m = Mul(x, k) a = Exp(m) },
        else_branch = e () => (float[4] b) { n = Neg(x) b = Abs(n) }
    >
}"""
LOOP = """(int64 n, float[3] x) => (float[3] y, float[k, 3] all) {
    s = Neg(x)
    y, all = Loop (n, go, s) <
        body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] out) {
            d = Identity(c) w = Add(v, x) out = Exp(w) }
    >
}"""
SCAN = """(float[3] s, float[5, 3] x) => (float[3] y, float[5, 3] all) {
    y, all = Scan (s, x) <num_scan_inputs = 1, body = b (float[3] v, float[3] e) => (float[3] w, float[3] out) {
            w = Add(v, e) out = Tanh(w) }
    >
}"""
GO = np.array(True)


def test_the_taken_branch_replaces_an_if() -> None:
    found = shrink_with("control", graph(BRANCHES), holds("Mul"), {"c": True})
    assert operators(found.best) == ["Constant", "Exp", "Mul"]
    assert found.best.outputs == ["y"]
    assert list(found.best.feeds) == ["x"]
    assert calls(found) <= 2


def test_the_other_branch_where_the_fault_is_there() -> None:
    found = shrink_with("control", graph(BRANCHES), holds("Neg"), {"c": True})
    assert shown(found) == ["n = Neg(x)", "y = Abs(n)"]
    assert calls(found) <= 3


def test_a_branch_that_gives_an_outer_value() -> None:
    text = """(bool c, float[4] x) => (float[4] y) {
        z = Exp(x)
        y = If (c) <
            then_branch = t () => (float[4] a) { a = Identity(z) }, else_branch = e () => (float[4] b) { b = Neg(z) }
        >
    }"""
    found = shrink_with("control", graph(text), holds("Exp"), {"c": False})
    assert shown(found) == ["z = Exp(x)", "y = Neg(z)"]
    assert calls(found) <= 2


def test_an_if_in_an_if() -> None:
    text = """(bool c, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = t () => (float[4] a) {
                a = If (c) <
                    then_branch = tt () => (float[4] aa) { aa = Exp(x) },
                    else_branch = te () => (float[4] ab) { ab = Abs(x) }
                >
            },
            else_branch = e () => (float[4] b) { b = Neg(x) }
        >
    }"""
    found = shrink_with("control", graph(text), holds("Exp"), {"c": True})
    assert shown(found) == ["y = Exp(x)"]
    assert calls(found) <= 4


def test_the_if_stays_where_the_fault_needs_it() -> None:
    found = shrink_with("control bodies", graph(BRANCHES), holds("If", "Mul"), {"c": True})
    assert operators(found.best) == ["Constant", "Constant", "If", "Mul"]
    assert calls(found) <= 14


def test_one_iteration_replaces_a_loop() -> None:
    found = shrink_with("control", graph(LOOP, go=GO), holds("Exp"), {"n": 4, "x": [1, 2, 3]})
    assert shown(found) == ["s = Neg(x)", "y = Add(s, x)", "out = Exp(y)", "all = Unsqueeze(out, axes)"]
    assert found.values["all"].shape == (1, 3)
    assert calls(found) <= 2


def test_the_first_failing_iteration_with_its_state() -> None:
    """The fault shows from the third iteration on, where the state is 2x beyond -x: x itself."""

    def fault(candidate: Candidate) -> bool:
        if "Loop" in operators(candidate):
            return True
        fed = [tensor.array.tolist() for name, tensor in candidate.feeds.items() if name != "x"]
        return [1.0, 2.0, 3.0] in fed and "Add" in operators(candidate)

    found = shrink_with("control", graph(LOOP, go=GO), fault, {"n": 4, "x": [1, 2, 3]})
    assert "Loop" not in operators(found.best)
    assert feeds_of(found)["y_at_2"] == [1.0, 2.0, 3.0]
    assert found.values["y"].array.tolist() == [2.0, 4.0, 6.0]
    assert calls(found) <= 4


def test_fewer_iterations_where_the_loop_must_stay() -> None:
    def three_times(candidate: Candidate) -> bool:
        return "Loop" in operators(candidate) and int(candidate.feeds["n"].array) >= 3

    found = shrink_with("control", graph(LOOP, go=GO), three_times, {"n": 9, "x": [1, 2, 3]})
    assert feeds_of(found)["n"] == 3
    assert found.values["all"].shape == (3, 3)
    assert calls(found) <= 20


def test_outputs_of_a_loop_go() -> None:
    found = shrink_with("outputs bodies", graph(LOOP, go=GO), holds("Loop", "Add"), {"n": 2, "x": [1, 2, 3]})
    assert operators(found.best) == ["Add", "Loop", "Neg"]
    assert found.best.outputs == ["y"]
    assert calls(found) <= 14


def test_one_iteration_replaces_a_scan() -> None:
    found = shrink_with("control", graph(SCAN), holds("Tanh"))
    assert [each.split(" = ")[1].split("(")[0] for each in shown(found)] == ["Add", "Tanh", "Unsqueeze"]
    assert found.values["all"].shape == (1, 3)
    assert calls(found) <= 2


def test_an_iteration_of_a_scan_with_its_state() -> None:
    x = np.arange(15, dtype=np.float32).reshape(5, 3)

    def fault(candidate: Candidate) -> bool:
        return "Scan" in operators(candidate) or any(
            t.array.tolist() == [6.0, 7.0, 8.0] for t in candidate.feeds.values()
        )

    found = shrink_with("control", graph(SCAN), fault, {"s": [1, 1, 1], "x": x})
    assert feeds_of(found) == {"y_at_2": [4.0, 6.0, 8.0], "x_2": [6.0, 7.0, 8.0]}
    assert calls(found) <= 4


def test_a_scan_from_the_end_along_another_axis() -> None:
    text = SCAN.replace("float[5, 3] x", "float[3, 5] x").replace(
        "num_scan_inputs = 1,", "num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],"
    )
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    found = shrink_with("control", graph(text), holds("Tanh"), {"x": x})
    assert feeds_of(found)["x_0"] == [4.0, 9.0, 14.0]
    assert calls(found) <= 2


def test_all_passes_leave_one_node_of_a_loop() -> None:
    found = shrink_with("all", graph(LOOP, go=GO), holds("Exp"), {"n": 4, "x": [1, 2, 3]})
    assert operators(found.best) == ["Exp"]
    assert weights(found.best) == {}
    assert found.best_size[:3] == (1, 2, 1)
    assert calls(found) <= 40
