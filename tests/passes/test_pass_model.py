"""Attributes, opset, element types and names."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from planted_faults import calls, graph, holds, named, operators, shown, shrink_with, shrinking

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.reduction.rounds import shrink

CONV = "(float[1, 1, 5, 5] x) => (float[1, 1, 3, 3] y) { y = Conv<dilations=[1, 1], group=1, pads=[0, 0, 0, 0]>(x, w) }"
W = np.ones((1, 1, 3, 3), np.float32)
SOFTMAX = "(float[3, 4] x) => (float[3, 4] y) { y = Softmax<axis=-1>(x) }"


def attributes(candidate: Candidate) -> list[str]:
    return sorted(each.name for node in candidate.model.proto.graph.node for each in node.attribute)


def opset(candidate: Candidate) -> int:
    return int(candidate.model.proto.opset_import[0].version)


def test_attributes_that_equal_their_default_go() -> None:
    found = shrink_with("attributes", graph(SOFTMAX), lambda candidate: True)
    assert attributes(found.best) == []
    assert calls(found) <= 2


def test_attributes_stay_where_the_fault_needs_them() -> None:
    found = shrink_with("attributes", graph(CONV, w=W), lambda candidate: "group" in attributes(candidate))
    assert "group" in attributes(found.best)
    assert calls(found) <= 3


def test_attributes_with_another_value_stay() -> None:
    text = "(float[3, 4] x) => (float[3, 4] y) { y = Softmax<axis=0>(x) }"
    found = shrink_with("attributes", graph(text), lambda candidate: True)
    assert attributes(found.best) == ["axis"]
    assert calls(found) == 0


def test_oldest_opset_and_ir_version() -> None:
    text = "(float[3] x) => (float[3] y) { y = Neg(x) }"
    found = shrink_with("opset", graph(text), lambda candidate: True)
    assert opset(found.best) == 7
    assert found.best.model.proto.ir_version == 3
    assert calls(found) <= 4


def test_opset_that_the_fault_needs() -> None:
    found = shrink_with("opset", graph(SOFTMAX), lambda candidate: opset(candidate) >= 13)
    assert opset(found.best) == 13


def test_an_opset_at_which_an_operator_means_something_else_is_not_tried() -> None:
    text = "(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis=1>(x) }"
    found = shrink_with("opset", graph(text), lambda candidate: True)
    assert opset(found.best) == 13, "before 13 Softmax went over all axes from the given one on"
    text = text.replace("axis=1", "axis=2")
    found = shrink_with("opset", graph(text), lambda candidate: True)
    assert opset(found.best) == 7, "over the last axis it is the same"


def test_keep_opset_forbids_it() -> None:
    found = shrink_with("opset constants", graph(SOFTMAX), lambda candidate: True, keep=["opset"])
    assert opset(found.best) == 18
    assert calls(found) == 0


def test_constants_become_attributes() -> None:
    text = "(float[3, 4] x) => (float[3, 1] y) { y = ReduceMean(x, axes) }"
    found = shrink_with("constants", graph(text, axes=np.array([1])), lambda candidate: True)
    assert shown(found) == ["y = ReduceMean(x)"]
    assert weights(found.best) == {}
    assert attributes(found.best) == ["axes"]
    assert calls(found) <= 2


def test_constants_of_two_nodes() -> None:
    text = "(float[3, 4] x) => (float[3, 1, 1] y) { a = Unsqueeze(x, at) y = ReduceSum(a, axes) }"
    model = graph(text, at=np.array([1]), axes=np.array([2]))
    found = shrink_with("constants", model, lambda candidate: True)
    assert weights(found.best) == {}
    assert opset(found.best) <= 12


def test_constants_stay_where_the_fault_needs_an_input() -> None:
    text = "(float[3, 4] x) => (float[3, 1] y) { y = ReduceMean(x, axes) }"
    found = shrink_with("constants", graph(text, axes=np.array([1])), lambda candidate: bool(weights(candidate)))
    assert shown(found) == ["y = ReduceMean(x, axes)"]


def test_dtypes_of_floats_with_their_casts() -> None:
    text = """(float16[4] x) => (float16[4] y) {
        a = Cast<to=1>(x) b = Exp(a) c = Cast<to=10>(b) y = Mul(c, w) }"""
    found = shrink_with("dtypes", graph(text, w=np.ones(4, np.float16)), holds("Exp", "Mul"))
    kinds = {tensor.elem_type for tensor in [*found.best.feeds.values(), *weights(found.best).values()]}
    assert kinds == {TensorProto.FLOAT}
    assert calls(found) <= 2


def test_dtypes_of_indices_that_may_be_narrow() -> None:
    text = "(float[4] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }"
    found = shrink_with("dtypes", graph(text), lambda candidate: True, {"i": [3, 1]})
    assert found.best.feeds["i"].elem_type == TensorProto.INT32
    assert calls(found) <= 2


def test_dtypes_stay_where_an_operator_wants_them() -> None:
    text = "(float[4] x, int64[2] s) => (float[2, 2] y) { y = Reshape(x, s) }"
    found = shrink_with("dtypes", graph(text), lambda candidate: True, {"s": [2, 2]})
    assert found.best.feeds["s"].elem_type == TensorProto.INT64
    assert calls(found) == 0


def test_dtypes_inside_a_body() -> None:
    text = """(bool c, double[4] x) => (double[4] y) {
        y = If (c) <
            then_branch = t () => (double[4] a) { k = Constant<value = double[1] {2.0}>() a = Mul(x, k) },
            else_branch = e () => (double[4] b) { b = Neg(x) }
        >
    }"""
    found = shrink_with("dtypes", graph(text), holds("If", "Mul"), {"c": True})
    assert found.best.feeds["x"].elem_type == TensorProto.FLOAT
    assert found.values["y"].elem_type == TensorProto.FLOAT
    assert calls(found) <= 2


def test_dtypes_of_one_input_where_another_must_stay() -> None:
    text = "(int64[2] s, float[6] x, int64[3] i) => (float[3] y) { a = Reshape(x, s) b = Gather(x, i) y = Neg(b) }"
    found = shrink_with("dtypes", graph(text), lambda candidate: True, {"s": [2, 3], "i": [0, 1, 5]})
    assert found.best.feeds["i"].elem_type == TensorProto.INT32


def test_keep_dtype_forbids_it() -> None:
    text = "(double[4] x) => (double[4] y) { y = Exp(x) }"
    found = shrink_with("dtypes", graph(text), lambda candidate: True, keep=["dtype"])
    assert found.best.feeds["x"].elem_type == TensorProto.DOUBLE


def test_names_become_short_and_short_ones_stay() -> None:
    text = """(float[4] hidden_states, float[4] mask) => (float[4] output_of_the_model) {
        intermediate = Exp(hidden_states) output_of_the_model = Mul(intermediate, mask) }"""
    found = shrink_with("names", graph(text), lambda candidate: len(operators(candidate)) == 2)
    assert shown(found) == ["v = Exp(x)", "y = Mul(v, mask)"]
    assert calls(found) <= 4


def test_names_of_values_that_the_fault_needs_stay() -> None:
    text = "(float[4] hidden_states) => (float[4] y) { y = Exp(hidden_states) }"
    found = shrink_with("names", graph(text), lambda candidate: "hidden_states" in candidate.feeds)
    assert shown(found) == ["y = Exp(hidden_states)"]


def test_names_of_nodes_stay_where_the_message_speaks_of_them() -> None:
    model = graph("(float[4] x) => (float[4] y) { a = Exp(x) y = Neg(a) }")
    model.graph.node[0].name, model.graph.node[1].name = "/layers.0/Exp", "/layers.0/Neg"
    problem = shrinking(model, lambda candidate: Kind.RUN_ERROR, message="while running /layers.0/Exp")
    problem.signature = Signature(Kind.RUN_ERROR)
    shrink(problem, named("names"))
    assert [node.name for node in problem.best.model.proto.graph.node] == ["/layers.0/Exp", ""]
    assert calls(problem) <= 3


def test_names_do_not_hide_those_of_bodies() -> None:
    text = """(bool condition, float[4] hidden_states) => (float[4] result_of_it) {
        result_of_it = If (condition) <
            then_branch = t () => (float[4] a) { x = Neg(hidden_states) a = Exp(x) },
            else_branch = e () => (float[4] b) { b = Neg(hidden_states) }
        >
    }"""
    found = shrink_with("names", graph(text), holds("If"), {"condition": True})
    assert list(found.best.feeds) == ["x1", "x2"]


def test_names_of_nodes_go() -> None:
    model = graph("(float[4] x) => (float[4] y) { y = Exp(x) }")
    model.graph.node[0].name = "/model/layers.0/Exp"
    found = shrink_with("names", model, lambda candidate: True)
    assert found.best.model.proto.graph.node[0].name == ""
    assert calls(found) <= 2
