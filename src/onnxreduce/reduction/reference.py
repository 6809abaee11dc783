"""The reference of shrinking, and whether it can be believed on a candidate.

Python ONNX Runtime records every value, as it does for the original model. A candidate is refused where the reference
is not sure of itself: where it gives NaN or Inf, or where another way to run it (optimized, in double precision) gives
another answer. So no reduction drifts to rounding that a Floor, Cast, ArgMax, comparison or division by almost zero has
made large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.retype import retype
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.runtimes.base import RunResult, Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER
from onnxreduce.runtimes.target import Target

SECOND_WAY = Target("ort", provider="cpu", options={"level": "all"})
CONDITION_MARGIN = 10.0
"""Two ways to run the reference must agree this many times better than the tolerance."""
SECONDS = 60.0
"""For one run of a candidate; what takes longer is refused."""


class Reference:
    """Python ONNX Runtime without optimization, with optimization, and in double precision.

    `seconds`: time spent in the runtimes. Problems may share one.
    """

    def __init__(self) -> None:
        self.recorder = PythonOrt(RECORDER)
        self.seconds = 0.0
        self._second = PythonOrt(SECOND_WAY)

    def record(self, candidate: Candidate) -> dict[str, StoredTensor] | None:
        """Every tensor of a candidate, or None where it cannot run."""
        exposed = onnx.ModelProto()
        exposed.CopyFrom(candidate.model.proto)
        names = [name for node in exposed.graph.node for name in node.output if name]
        del exposed.graph.output[:]
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        result = self._run(self.recorder, replace(candidate, model=replace(candidate.model, proto=exposed)), names)
        if result.status is not Status.OK:
            return None
        values = {name: StoredTensor.from_array(array) for name, array in result.outputs.items()}
        return {**candidate.feeds, **values}

    def finite(self, candidate: Candidate, values: Mapping[str, StoredTensor]) -> bool:
        """Whether all values are numbers, and the outputs finite."""
        if any(_has_nan(tensor.array) for tensor in values.values()):
            return False
        return all(_is_finite(values[name].array) for name in candidate.outputs)

    def stable(self, candidate: Candidate, values: Mapping[str, StoredTensor], tolerance: Tolerance) -> bool:
        """Whether optimization changes nothing."""
        second = self._run(self._second, candidate)
        return second.status is Status.OK and _agree(candidate, values, second, tolerance)

    def precise(self, candidate: Candidate, values: Mapping[str, StoredTensor], tolerance: Tolerance) -> bool:
        """Whether double precision gives the same; also where it cannot be asked: not all operators have it."""
        draft = Draft(candidate)
        retype(draft, {TensorProto.FLOAT}, TensorProto.DOUBLE)
        for output in draft.proto.graph.output:
            output.ClearField("type")
        result = self._run(self.recorder, draft.candidate())
        if result.status is not Status.OK:
            return True
        single = {
            name: array.astype(np.float32) if array.dtype == np.float64 and _single(values[name]) else array
            for name, array in result.outputs.items()
        }
        return _agree(candidate, values, replace(result, outputs=single), tolerance)

    def close(self) -> None:
        """End the processes."""
        self.recorder.close()
        self._second.close()

    def _run(self, runtime: PythonOrt, candidate: Candidate, outputs: list[str] | None = None) -> RunResult:
        asked = request(candidate) if outputs is None else request(replace(candidate, outputs=outputs))
        result = runtime.run(asked, timeout=SECONDS)
        if result.status is Status.DEAD:  # by this model, or by something else on the machine?
            result = runtime.run(asked, timeout=SECONDS)
        self.seconds += result.seconds
        return result


def _agree(candidate: Candidate, values: Mapping[str, StoredTensor], result: RunResult, tolerance: Tolerance) -> bool:
    """Whether outputs are those recorded, far inside the tolerance; integers must be the same."""
    names = ("float32", "float64")
    strict = Tolerance(
        {name: tolerance.for_dtype(np.dtype(name)) / CONDITION_MARGIN for name in names}, tolerance.absolute
    )
    return all(
        compare(name, values[name].array, result.outputs.get(name), strict).kind is None for name in candidate.outputs
    )


def _single(tensor: StoredTensor) -> bool:
    return tensor.elem_type == TensorProto.FLOAT


def _is_number(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float"))


def _has_nan(array: np.ndarray) -> bool:
    return _is_number(array) and bool(np.isnan(array.astype(np.float64)).any())


def _is_finite(array: np.ndarray) -> bool:
    return not _is_number(array) or bool(np.isfinite(array.astype(np.float64)).all())
