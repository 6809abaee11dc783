from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.graph.order import operator_rank, size, spread
from onnxreduce.graph.tensors import StoredTensor


def candidate(text: str, opset: int = 18, ir_version: int = 10, **feeds: np.ndarray) -> Candidate:
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    proto = onnx.parser.parse_model(f"{head} g {text}")
    given: dict[str, StoredTensor] = {}
    for value in proto.graph.input:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        array = feeds.get(value.name, np.ones([dim.dim_value for dim in kind.shape.dim], dtype))
        given[value.name] = StoredTensor.from_array(array)
    return whole(load(proto), given)


ONE = "(float[2] x) => (float[2] y) { y = Neg(x) }"
RISING = np.array([0.3, 0.1], np.float32)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        pytest.param(candidate(ONE), candidate("(float[2] x) => (float[2] y) { a = Neg(x) y = Neg(a) }"), id="nodes"),
        pytest.param(
            candidate("(float[9] x) => (float[9] y) { y = Neg(x) }"),
            candidate("(bool c, float[1] x) => (float[1] y) { y = If (c) <then_branch = t () => (float[1] a) "
                      "{ a = Neg(x) }, else_branch = e () => (float[1] b) { b = Abs(x) }> }"),
            id="nodes in bodies",
        ),
        pytest.param(
            candidate("(float[9] x) => (float[9] y) { y = Add(x, x) }"),
            candidate("(float[1] x, float[1] z) => (float[1] y) { y = Add(x, z) }"),
            id="ends before elements",
        ),
        pytest.param(
            candidate("(float[2] x) => (float[2] y) { y = Neg(x) }", x=RISING),
            candidate("(float[3] x) => (float[3] y) { y = Neg(x) }"),
            id="elements before values",
        ),
        pytest.param(candidate(ONE), candidate(ONE, x=RISING), id="values"),
        pytest.param(candidate(ONE), candidate(ONE.replace("Neg", "Exp")), id="operators"),
        pytest.param(candidate(ONE), candidate(ONE.replace("float", "double")), id="types"),
        pytest.param(candidate(ONE), candidate(ONE.replace("[2]", "[1, 2]")), id="axes"),
        pytest.param(candidate(ONE, opset=7), candidate(ONE), id="opset"),
        pytest.param(candidate(ONE, ir_version=4), candidate(ONE), id="IR version"),
        pytest.param(candidate(ONE), candidate(ONE.replace("x", "activations")), id="names"),
        pytest.param(
            candidate("(float[2] x) => (float[2] y) { y = Softmax(x) }"),
            candidate("(float[2] x) => (float[2] y) { y = Softmax<axis=0>(x) }"),
            id="attributes",
        ),
        pytest.param(
            candidate("(float[2] x, float[2] z) => (float[2] y, float[2] w) "
                      "{ a = Neg(x) y = Neg(a) b = Neg(z) w = Neg(b) }"),
            candidate("(float[2] x, float[2] z) => (float[2] y, float[2] w) "
                      "{ a = Neg(x) b = Neg(z) y = Neg(a) w = Neg(b) }"),
            id="consumers next to producers",
        ),
    ],
)  # fmt: skip
def test_what_is_smaller(smaller: Candidate, larger: Candidate) -> None:
    assert size(smaller) < size(larger)
    assert not size(larger) < size(smaller)


def test_an_input_is_plainer_than_an_initializer() -> None:
    fed = candidate("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    held = candidate("(float[2] x) => (float[2] y) <float[2] w = {1.0, 1.0}> { y = Add(x, w) }")
    assert size(fed) < size(held)


def test_ranks() -> None:
    ranks: Callable[[str], int] = operator_rank
    assert ranks("Neg") < ranks("Add") < ranks("Identity") < ranks("Conv") == ranks("MatMul")
    assert operator_rank("Neg", "com.microsoft") == ranks("Conv")


def test_spread_counts_distances() -> None:
    graph = candidate("(float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Add(a, b) }").model.proto.graph
    assert spread(graph) == 1 + 2 + 1


def test_types_of_tensors_count() -> None:
    kinds = [candidate(ONE.replace("float", kind)) for kind in ("float", "int32", "int64", "double")]
    assert [size(each) for each in kinds] == sorted(size(each) for each in kinds)
    assert kinds[0].feeds["x"].elem_type == TensorProto.FLOAT
