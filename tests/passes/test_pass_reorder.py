"""Execution order."""

from __future__ import annotations

from planted_faults import calls, graph, operators, shown, shrink_with

from onnxreduce.graph.candidate import Candidate

MIXED = """(float[4] x, int64[4] p) => (float[4] c, float[4] d) {
    a = Exp(x) b = Cast<to=1>(p) c = Tanh(a) d = Abs(b) }"""


def both_chains(candidate: Candidate) -> bool:
    return {"Exp", "Cast"} <= set(operators(candidate))


def test_brings_consumers_next_to_producers() -> None:
    found = shrink_with("reorder", graph(MIXED), lambda candidate: len(operators(candidate)) == 4)
    assert shown(found) == ["a = Exp(x)", "c = Tanh(a)", "b = Cast(p)", "d = Abs(b)"]
    assert calls(found) <= 14


def test_another_order_frees_nodes() -> None:
    """The Cast before the Exp in file order: then two nodes are enough; otherwise all four are needed."""

    def fault(candidate: Candidate) -> bool:
        order = [node.op_type for node in candidate.model.proto.graph.node]
        if not both_chains(candidate):
            return False
        return len(order) == 4 or order.index("Cast") < order.index("Exp")

    found = shrink_with("reorder nodes", graph(MIXED), fault)
    assert shown(found) == ["b = Cast(p)", "a = Exp(x)"]
    assert calls(found) <= 24


def test_keeps_an_order_that_matters() -> None:
    def as_in_the_file(candidate: Candidate) -> bool:
        return [node.op_type for node in candidate.model.proto.graph.node] == ["Exp", "Cast", "Tanh", "Abs"]

    found = shrink_with("reorder", graph(MIXED), as_in_the_file)
    assert shown(found)[0] == "a = Exp(x)"
    assert calls(found) <= 6


def test_keep_order_forbids_it() -> None:
    found = shrink_with("reorder", graph(MIXED), lambda candidate: True, keep=["order"])
    assert calls(found) == 0
