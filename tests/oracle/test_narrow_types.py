"""Outputs of the types that numpy lacks, really run and really compared: what is equal agrees, what differs is seen."""

from __future__ import annotations

from collections.abc import Iterator

import faults
import numpy as np
import pytest
from onnx import TensorProto

from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.target import Target

VALUES = [[0, 1, 1], [3, 1, 2]]
TYPES = {
    "BFLOAT16": ("bfloat16", VALUES),
    "FLOAT16": ("float16", VALUES),
    "FLOAT8E4M3FN": ("float8_e4m3fn", VALUES),
    "FLOAT8E4M3FNUZ": ("float8_e4m3fnuz", VALUES),
    "FLOAT8E5M2": ("float8_e5m2", VALUES),
    "FLOAT8E5M2FNUZ": ("float8_e5m2fnuz", VALUES),
    "FLOAT8E8M0": ("float8_e8m0fnu", [[1, 2, 1], [4, 1, 0.5]]),  # powers of two alone
    "FLOAT4E2M1": ("float4_e2m1fn", VALUES),
    "INT4": ("int4", [[0, 1, -3], [-8, 1, 7]]),
    "UINT4": ("uint4", VALUES),
    "INT2": ("int2", [[0, 1, -1], [-2, 1, 0]]),
    "UINT2": ("uint2", VALUES),
}
LACKING = {("ort/cpu", "FLOAT4E2M1")}
"""onnxruntime 1.32 casts to all of these but one."""


@pytest.fixture(scope="module")
def sides() -> Iterator[BuiltOracle]:
    """Reference and arbiter, and all that is asked of an oracle."""
    oracle = BuiltOracle(OracleSpec("narrow", Target.parse("onnx-reference"), Target.parse("ort/cpu")), Setup())
    yield oracle
    oracle.close()


def cast(kind: int, values: object) -> Candidate:
    x = np.array(values, np.float32)
    node = faults.node("Cast", ["x"], ["y"], to=kind)
    proto = faults.model([node], [faults.floats("x", x.shape)], [faults.tensor_info("y", kind, x.shape)], opset=25)
    proto.ir_version = 12
    return faults.candidate((proto, {"x": x}))


def kind_of(name: str) -> int:
    kind = getattr(TensorProto, name, None)
    if kind is None:
        pytest.skip(f"this onnx has no {name}")
    return int(kind)


@pytest.mark.parametrize("name", TYPES)
def test_what_ran_is_compared(sides: BuiltOracle, name: str) -> None:
    dtype, values = TYPES[name]
    other = np.array(values, np.float32)
    other[1, 0] = 1
    outputs = []
    for runtime in (sides.reference, sides.suspect):
        right, wrong = (runtime.run(request(cast(kind_of(name), each)), timeout=60) for each in (values, other))
        if (str(getattr(runtime, "target", "")), name) in LACKING and right.status is Status.CREATE_ERROR:
            continue
        assert (right.status, wrong.status) == (Status.OK, Status.OK), right.message
        array = right.outputs["y"]
        assert array.dtype.name == dtype
        assert array.astype(np.float32).tolist() == np.array(values, np.float32).tolist()
        difference = compare("y", array, wrong.outputs["y"], Tolerance())
        assert (difference.kind, difference.wrong, difference.first) == (Kind.NUMERIC, 1, (1, 0))
        assert difference.absolute == abs(values[1][0] - 1)
        assert difference.cosine is not None and difference.cosine < 0.999
        outputs.append(array)
    for array in outputs:
        assert compare("y", outputs[0], array, Tolerance()).kind is None


@pytest.mark.parametrize("name", ["INT4", "UINT4"])
def test_a_half_that_is_rounded_to_the_other_side_is_a_fault(sides: BuiltOracle, name: str) -> None:
    """onnx.reference cuts 2.5 to 2, onnxruntime rounds it to 3: two answers of real runtimes, on packed types."""
    assert sides.judge(cast(kind_of(name), [1, 2, 3])).outcome is Outcome.PASSES
    verdict = sides.judge(cast(kind_of(name), [1, 2.5, 3]))
    assert (verdict.outcome, verdict.signature) == (Outcome.FAILS, Signature(Kind.NUMERIC))
    (difference,) = verdict.differences
    assert (difference.wrong, difference.first, difference.absolute) == (1, (1,), 1)
