"""Who produces and reads what, and what must stay together."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise

node, info = helper.make_node, helper.make_tensor_value_info


def diamond() -> ModelProto:
    nodes = [
        node("Neg", ["x"], ["a"], name="top"),
        node("Exp", ["a"], ["b"], name="left"),
        node("Abs", ["a"], ["c"], name="right"),
        node("Add", ["b", "c"], ["y"], name="bottom"),
        node("Mul", ["x", "w"], ["z"], name="apart"),
    ]
    floats = [info(name, TensorProto.FLOAT, [2]) for name in "xyz"]
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = helper.make_graph(nodes, "g", floats[:1], floats[1:], [weight])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def index_of(proto: ModelProto, fed: tuple[str, ...] = ("x",)) -> GraphIndex:
    return GraphIndex(normalise(load(proto)), fed)


def test_producers_and_consumers() -> None:
    index = index_of(diamond())
    assert len(index) == 5
    assert index.every_node == (0, 1, 2, 3, 4)
    assert index.producer == {"a": 0, "b": 1, "c": 2, "y": 3, "z": 4}
    assert index.consumers == {"x": [0, 4], "a": [1, 2], "b": [3], "c": [3], "w": [4]}
    assert set(index.initializers) == {"w"}
    assert set(index.graph_inputs) == {"x"}
    assert set(index.graph_outputs) == {"y", "z"}


def test_ancestors_and_neighbours() -> None:
    index = index_of(diamond())
    assert index.ancestors(["y"]) == {0, 1, 2, 3}
    assert index.ancestors(["b", "z"]) == {0, 1, 4}
    assert index.ancestors(["x", "w", "unknown"]) == set()
    assert index.neighbours(0) == {1, 2}
    assert index.neighbours(1) == {0, 3}
    assert index.neighbours(4) == set()


def test_a_fed_initializer_counts_as_a_graph_input() -> None:
    proto = diamond()
    proto.graph.input.append(info("w", TensorProto.FLOAT, [2]))
    assert "w" in index_of(proto).initializers
    assert "w" not in index_of(proto, ("x", "w")).initializers


def test_tensors_are_free_of_one_another() -> None:
    index = index_of(diamond())
    assert index.closed([3, 0]) == (0, 3)
    assert index.together(1) == (1,)
    assert all(index.promotable(value) for value in index.producer)


def test_what_is_learned_to_be_no_tensor_holds_its_nodes() -> None:
    """The type of an unknown operator's output shows only when it runs."""
    index = index_of(diamond())
    index.hold(["b"])
    assert not index.promotable("b")
    assert index.closed([1]) == (1, 3)
    index.hold(["c"])
    assert index.together(3) == (1, 2, 3)
    assert index.closed([0, 4]) == (0, 4)
    index.hold(["not of this graph"])
    assert index.closed([4]) == (4,)


def test_two_groups_stay_two() -> None:
    sequences = [
        node("SequenceConstruct", ["x"], ["s"]),
        node("SequenceConstruct", ["x"], ["t"]),
        node("SequenceAt", ["t", "zero"], ["b"]),
        node("SequenceAt", ["s", "zero"], ["a"]),
    ]
    zero = numpy_helper.from_array(np.array(0, np.int64), "zero")
    values = [info(name, TensorProto.FLOAT, [2]) for name in "xab"]
    graph = helper.make_graph(sequences, "g", values[:1], values[1:], [zero])
    index = index_of(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]))
    assert (index.together(0), index.together(1)) == ((0, 3), (1, 2))
    assert index.closed([3]) == (0, 3)


def test_nodes_with_bodies_are_known() -> None:
    body = helper.make_graph([node("Neg", ["x"], ["t"])], "b", [], [info("t", TensorProto.FLOAT, [2])])
    other = helper.make_graph([node("Exp", ["x"], ["e"])], "b", [], [info("e", TensorProto.FLOAT, [2])])
    proto = diamond()
    proto.graph.input.append(info("on", TensorProto.BOOL, []))
    proto.graph.node.append(node("If", ["on"], ["i"], then_branch=body, else_branch=other))
    index = index_of(proto)
    assert index.with_bodies == {5}
    assert index.reads[5] == ["on", "x"]
