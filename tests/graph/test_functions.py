"""Functions are inlined as ONNX Runtime understands them, and what cannot be inlined has an end all the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.functions import MOST_NODES, nodes_inlined
from onnxreduce.graph.model import load, normalise

node = helper.make_node
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]


def call(number: int, *ends: str) -> NodeProto:
    return node(f"F{number}", [ends[0]], [ends[1]], domain="my")


def model(main: Sequence[NodeProto], *bodies: Sequence[NodeProto]) -> ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    proto = helper.make_model(helper.make_graph(main, "g", ends[:1], ends[1:]), opset_imports=IMPORTS, ir_version=8)
    for number, body in enumerate(bodies):
        proto.functions.append(helper.make_function("my", f"F{number}", ["a"], ["b"], body, IMPORTS))
    return proto


def assert_same(proto: ModelProto) -> list[str]:
    """ONNX Runtime, which inlines by itself, gives the same; returns the operators."""
    done = normalise(load(proto)).with_weights_inside()
    assert not done.functions
    x = np.array([1.5, -2], np.float32)
    runs = [onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x})[0] for each in (proto, done)]
    np.testing.assert_array_equal(*runs)
    return [each.op_type for each in done.graph.node]


def test_a_function_that_gives_back_what_it_is_given() -> None:
    proto = model([call(0, "x", "t"), node("Neg", ["t"], ["y"])], [node("Identity", ["a"], ["b"])])
    assert assert_same(proto) == ["Identity", "Neg"]


def test_names_inside_bodies_of_functions_stay_apart() -> None:
    """A body captures from the function, and defines names that the graph and the function have too."""
    ends = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    then = helper.make_graph([node("Neg", ["h"], ["x"]), node("Abs", ["x"], ["o"])], "then", [], ends)
    other = helper.make_graph([node("Exp", ["a"], ["o"])], "else", [], ends)
    body = [
        node("Abs", ["a"], ["h"]),
        node("ReduceSum", ["h"], ["s"], keepdims=0),
        node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        node("If", ["c"], ["b"], then_branch=then, else_branch=other),
    ]
    main = [call(0, "x", "h"), node("Sub", ["h", "x"], ["a"]), call(0, "a", "o"), node("Add", ["o", "h"], ["y"])]
    assert assert_same(model(main, body)).count("If") == 2


def test_calls_in_bodies() -> None:
    ends = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    bodies = {f"{name}_branch": helper.make_graph([call(0, "x", "o")], name, [], ends) for name in ("then", "else")}
    main = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        node("If", ["c"], ["y"], **bodies),
    ]
    assert assert_same(model(main, [node("Neg", ["a"], ["h"]), node("Exp", ["h"], ["b"])])) == [
        "ReduceSum",
        "Cast",
        "If",
    ]


def test_defaults_of_attributes() -> None:
    leaky = node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    proto = model([call(0, "x", "t"), call(0, "t", "y")], [leaky])
    proto.graph.node[0].attribute.append(helper.make_attribute("slope", 0.5))
    proto.functions[0].attribute_proto.append(helper.make_attribute("slope", 0.25))
    proto.ir_version = 9
    assert_same(proto)


def test_what_is_of_another_opset_stays_and_the_rest_is_inlined() -> None:
    proto = model([call(0, "x", "t"), call(1, "t", "y")], [node("Neg", ["a"], ["b"])], [node("Exp", ["a"], ["b"])])
    proto.functions[0].opset_import[0].version = 16
    done = normalise(load(proto)).proto
    assert [each.op_type for each in done.graph.node] == ["F0", "Exp"]
    assert [each.name for each in done.functions] == ["F0"]


def test_nodes_are_counted_before_they_are_made() -> None:
    def twice(number: int) -> list[NodeProto]:
        return [call(number, "a", "c"), call(number, "c", "b")]

    main = [call(0, "x", "y")]
    assert nodes_inlined(model(main, twice(1), twice(2), [node("Neg", ["a"], ["b"]), node("Abs", ["x"], ["d"])])) == 8
    for deep in (40, 2000):  # a thousand million nodes, and more than a float can count
        with pytest.raises(BadInputError, match=f"at most {MOST_NODES}"):
            normalise(load(model(main, *map(twice, range(1, deep)), [node("Neg", ["a"], ["b"])])))


def test_functions_that_call_each_other_two_thousand_deep_end_in_one_line_or_inlined() -> None:
    bodies = [[call(number, "a", "b")] for number in range(1, 2000)]
    done = normalise(load(model([call(0, "x", "y")], *bodies, [node("Neg", ["a"], ["b"])]))).proto
    assert [each.op_type for each in done.graph.node] in (["Neg"], ["F0"])
