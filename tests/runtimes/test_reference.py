"""onnx.reference in a real child process: right on what it knows, and clear on what it lacks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.reference import Reference
from onnxreduce.runtimes.target import Target

ENOUGH = 60.0
FLOAT = TensorProto.FLOAT


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    runtime = Reference(Target.parse("onnx-reference"))
    yield runtime
    runtime.close()


def model(*nodes: NodeProto, elem_type: int = FLOAT, weights: tuple[TensorProto, ...] = ()) -> ModelProto:
    values = [helper.make_tensor_value_info(name, elem_type, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=10, opset_imports=opsets)


def candidate(proto: ModelProto, x: np.ndarray | StoredTensor) -> Candidate:
    return whole(load(proto), {"x": x if isinstance(x, StoredTensor) else StoredTensor.from_array(x)})


def node(operator: str, *inputs: str, domain: str = "") -> NodeProto:
    return helper.make_node(operator, inputs or ["x"], ["y"], domain=domain)


def test_it_evaluates_and_tells_what_it_is(reference: Reference) -> None:
    result = reference.run(request(candidate(model(node("Neg")), np.array([1, 2], np.float32))), timeout=ENOUGH)
    assert (result.status, result.outputs["y"].tolist()) == (Status.OK, [-1, -2])
    assert result.seconds > 0
    assert reference.describe()["version"] == onnx.__version__


def test_weights_outside_the_model(reference: Reference) -> None:
    weight = numpy_helper.from_array(np.full(3000, 2, np.float32), "w")
    given = candidate(model(node("Mul", "x", "w"), weights=(weight,)), np.arange(3000, dtype=np.float32))
    assert given.external
    result = reference.run(request(given), timeout=ENOUGH)
    assert np.array_equal(result.outputs["y"], np.arange(3000, dtype=np.float32) * 2)


@pytest.mark.parametrize("name", ["FLOAT16", "DOUBLE", "INT64", "UINT8", "BOOL", "BFLOAT16", "FLOAT8E4M3FN", "INT4"])
def test_element_types_go_in_and_out(name: str, reference: Reference) -> None:
    elem_type = TensorProto.DataType.Value(name)
    x = StoredTensor.from_proto(helper.make_tensor("x", elem_type, [3], [0, 1, 1]))
    result = reference.run(request(candidate(model(node("Identity"), elem_type=elem_type), x)), timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    assert np.array_equal(result.outputs["y"].astype(np.float64), [0, 1, 1])
    assert result.outputs["y"].dtype == x.array.dtype


def test_strings_go_in_and_out(reference: Reference) -> None:
    x = np.array(["a", "", "\u00e4"], dtype=object)
    given = candidate(model(node("Identity"), elem_type=TensorProto.STRING), x)
    assert reference.run(request(given), timeout=ENOUGH).outputs["y"].tolist() == x.tolist()


def test_an_operator_that_is_missing_is_named_and_leaves_the_verdict_open(reference: Reference) -> None:
    given = candidate(model(node("QuickGelu", domain="com.microsoft")), np.ones(2, np.float32))
    result = reference.run(request(given), timeout=ENOUGH)
    assert result.status is Status.RUN_ERROR
    assert "QuickGelu" in result.message
    runtime = PythonOrt(Target.parse("ort/cpu"))
    verdict = DifferentialOracle("arbiter", reference, runtime).judge(given)
    runtime.close()
    assert verdict.outcome is Outcome.UNRESOLVED
    assert "QuickGelu" in verdict.message


def test_errors_and_hangs_leave_it_usable(reference: Reference) -> None:
    right = request(candidate(model(node("Neg")), np.ones(1, np.float32)))
    wrong = candidate(
        model(node("Reshape", "x", "s"), weights=(numpy_helper.from_array(np.array([5]), "s"),)), np.ones(2)
    )
    assert reference.run(request(wrong), timeout=ENOUGH).status is Status.RUN_ERROR
    assert reference.run(right, timeout=ENOUGH).status is Status.OK
    assert reference.run(right, timeout=0.001, fresh=True).status is Status.HANG
    assert reference.run(right, timeout=ENOUGH).status is Status.OK


@pytest.mark.parametrize("text", ["onnx-reference@1.16.0", "onnx-reference/cpu", "onnx-reference?level=all"])
def test_what_it_does_not_take(text: str) -> None:
    with pytest.raises(BadInputError):
        Reference(Target.parse(text))
