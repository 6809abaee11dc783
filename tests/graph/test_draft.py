from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from onnxreduce.graph.candidate import whole
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.model import EXTERNAL_FROM_BYTES, load
from onnxreduce.graph.retype import retype, types_inside
from onnxreduce.graph.tensors import StoredTensor

BRANCH = """(bool c, float[2] x, float[2] z) => (float[2] y) {
    v = Exp(x)
    y = If (c) <
        then_branch = t () => (float[2] a) { dead = Neg(z) k = Constant<value = float[2] {1.0, 2.0}>() a = Mul(v, k) },
        else_branch = e () => (float[2] b) { b = Neg(v) }
    >
}"""


def draft(text: str, ir_version: int = 10, **weights: np.ndarray) -> Draft:
    proto = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["" : 18]> g {text}')
    feeds = {}
    for value in proto.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        feeds[value.name] = StoredTensor.from_array(
            np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        )
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return Draft(whole(load(proto), feeds))


def check(made: Draft) -> None:
    onnx.checker.check_model(made.candidate().model.with_weights_inside())


def test_tidy_drops_what_no_output_needs() -> None:
    made = draft("(float[2] x, float[2] z) => (float[2] y) { a = Neg(z) y = Add(x, w) }", w=np.ones(2, np.float32),
                 u=np.ones(2, np.float32))  # fmt: skip
    made.tidy()
    assert [node.op_type for node in made.nodes] == ["Add"]
    assert list(made.feeds) == ["x"]
    assert list(made.weights) == ["w"]
    check(made)


def test_tidy_drops_dead_nodes_of_bodies_and_what_only_they_captured() -> None:
    made = draft(BRANCH)
    made.tidy()
    assert list(made.feeds) == ["c", "x"]
    body = made.nodes[1].attribute[0].g
    assert [node.op_type for node in body.node] == ["Constant", "Mul"]
    check(made)


def test_tidy_drops_outputs_that_nothing_produces() -> None:
    made = draft("(float[2] x) => (float[2] a, float[2] y) { a = Neg(x) y = Exp(x) }")
    made.drop(made.nodes[0])
    made.tidy()
    assert made.candidate().outputs == ["y"]


def test_rename_follows_captured_names() -> None:
    made = draft(BRANCH)
    made.rename({"v": "w", "x": "input", "y": "output"})
    assert [value.name for value in made.proto.graph.output] == ["output"]
    assert "input" in made.feeds and "x" not in made.feeds
    inner = [node for attribute in made.nodes[1].attribute for node in attribute.g.node]
    assert sum("w" in node.input for node in inner) == 2
    check(made)


def test_rename_leaves_names_of_bodies_alone() -> None:
    made = draft(BRANCH)
    made.rename({"a": "nothing"})
    assert made.nodes[1].attribute[0].g.output[0].name == "a"


def test_promote_and_read_instead() -> None:
    made = draft("(float[2] x) => (float[2] y) { a = Neg(x) b = Exp(a) y = Add(a, b) }")
    made.drop(made.nodes[0])
    made.promote("a", StoredTensor.from_array(np.ones(2, np.float32)))
    made.read_instead("b", "a")
    made.tidy()
    assert [list(node.input) for node in made.nodes] == [["a", "a"]]
    assert list(made.feeds) == ["a"]
    check(made)


def test_a_draft_is_a_copy() -> None:
    made = draft("(float[2] x) => (float[2] y) { y = Neg(x) }")
    candidate = made.candidate()
    other = Draft(candidate)
    other.nodes[0].op_type = "Exp"
    other.feeds.clear()
    assert candidate.model.proto.graph.node[0].op_type == "Neg"
    assert list(candidate.feeds) == ["x"]


def test_large_weights_stay_outside() -> None:
    large = np.zeros(EXTERNAL_FROM_BYTES, np.uint8).view(np.float32)
    made = draft(f"(float[{large.size}] x) => (float[{large.size}] y) {{ y = Add(x, w) }}", w=large)
    candidate = made.candidate()
    assert len(candidate.external) == 1
    assert not candidate.model.proto.graph.initializer[0].raw_data


def test_before_ir_version_4_weights_are_inputs_too() -> None:
    made = draft("(float[2] x) => (float[2] y) { y = Add(x, w) }", w=np.ones(2, np.float32))
    made.proto.ir_version = 3
    candidate = made.candidate()
    assert [value.name for value in candidate.model.proto.graph.input] == ["x", "w"]
    assert list(candidate.feeds) == ["x"]
    check(made)


@pytest.mark.parametrize("new", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_retype_reaches_bodies_casts_and_constants(new: int) -> None:
    made = draft(BRANCH.replace("v = Exp(x)", "u = Cast<to=1>(x) v = Exp(u)"))
    retype(made, {TensorProto.FLOAT}, new)
    assert types_inside(made) == {TensorProto.BOOL, new}
    assert made.nodes[0].attribute[0].i == new
    body = made.nodes[2].attribute[0].g
    assert body.output[0].type.tensor_type.elem_type == new


def test_retype_clips_whole_numbers() -> None:
    made = draft("(int64[2] x) => (int64[2] y) { y = Neg(x) }")
    made.feeds["x"] = StoredTensor.from_array(np.array([1 << 40, -3]))
    retype(made, {TensorProto.INT64}, TensorProto.INT32)
    assert made.feeds["x"].array.tolist() == [(1 << 31) - 1, -3]


def test_retype_of_constant_of_shape() -> None:
    made = draft("(int64[1] s) => (float[1] y) { y = ConstantOfShape(s) }")
    retype(made, {TensorProto.FLOAT}, TensorProto.DOUBLE)
    assert numpy_helper.to_array(made.nodes[0].attribute[0].t).dtype == np.float64
