"""What the graph layer promises of every subset of nodes, as one function, and the models that it is tried on."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from onnxreduce.graph.candidate import cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import every_node
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.python_ort import PythonOrt

CASES = Path(__file__).parents[2] / "shared" / "cases"

NOT_REPEATABLE = {"Bernoulli", "Dropout", "Multinomial"} | {
    f"Random{name}" for name in ("Normal", "NormalLike", "Uniform", "UniformLike")
}
"""Operators that draw random numbers: two runs of one model differ (Dropout only in training)."""

HALF_TOLERANCE = 2e-2
"""Python ONNX Runtime has next to no float16 kernels for the CPU: it casts to float32 and back around each node, and
leaves out the casts between two such nodes, so that a value inside a candidate is rounded to float16 or not as its
neighbours are there or not. That is half a unit in the last place for each node, or about 5e-4, of chains of 40."""

TOLERANCE = 1e-6
"""Matrix products may be summed in another order when the arrays lie elsewhere in memory."""

ENOUGH = 60.0


def case(name: str) -> Path:
    """A model of the shared cases; skips where they are not there."""
    path = CASES / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"the shared cases are not beside the repository: no {name}.onnx")
    return path


def feeds_of(path: Path) -> dict[str, StoredTensor]:
    """The inputs beside a case, or those that the founding fault's description gives."""
    beside = path.with_suffix(".npz")
    if beside.exists():
        arrays: dict[str, Any] = dict(np.load(beside))
    else:
        rng = np.random.default_rng(0)
        arrays = {
            "X": rng.uniform(-100, 100, (1, 194, 960)).astype(np.float32),
            "P": np.arange(1, 195, dtype=np.int64).reshape(1, 194),
            "F": np.arange(194, dtype=np.float32).reshape(1, 194, 1),
        }
    wanted = {value.name for value in load(path).proto.graph.input}
    return {name: StoredTensor.from_array(array) for name, array in arrays.items() if name in wanted}


@functools.cache
def operator_tests() -> list[tuple[str, ModelProto, dict[str, StoredTensor]]]:
    """onnx's operator tests whose inputs are tensors and that draw no random numbers: name, model, inputs."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    found = []
    for test in collected:
        inputs = test.data_sets[0][0]
        if any(not isinstance(each, (np.ndarray, np.generic, TensorProto)) for each in inputs):
            continue
        if any(node.op_type in NOT_REPEATABLE for node in every_node(test.model)):
            continue
        feeds = {
            value.name: StoredTensor.from_proto(each)
            if isinstance(each, TensorProto)
            else StoredTensor.from_array(np.asarray(each))
            for value, each in zip(test.model.graph.input, inputs, strict=False)
        }
        found.append((test.name, test.model, feeds))
    return found


def indexed(source: Path | ModelProto, feeds: Mapping[str, StoredTensor]) -> GraphIndex:
    """A model as a reduction sees it."""
    return GraphIndex(normalise(load(source)), feeds)


def draws(nodes: int, rng: random.Random, count: int) -> Iterator[list[int]]:
    """Subsets of many kinds: all, single nodes, windows, sparse, half and dense ones."""
    yield list(range(nodes))
    for at in range(count if nodes > 1 else 0):
        start = rng.randrange(nodes)
        kind = at % 5
        if kind == 0:
            yield [start]
        elif kind == 1:
            yield list(range(start, min(start + rng.randint(2, 32), nodes)))
        else:
            share = (0.1, 0.5, 0.9)[kind - 2]
            yield [each for each in range(nodes) if rng.random() < share] or [start]


def passes_full_check(model: Model) -> bool:
    """Whether onnx's strict shape inference accepts the model itself: it refuses some that are right."""
    try:
        onnx.checker.check_model(model.with_weights_inside(), full_check=True)
    except Exception:
        return False
    return True


def check_subset(
    index: GraphIndex, recorded: Mapping[str, StoredTensor], nodes: Sequence[int], runtime: PythonOrt, full_check: bool
) -> None:
    """The promise: a valid model of these nodes in file order, whose outputs are the recorded values."""
    candidate = cut(index, nodes, recorded)
    assert set(candidate.nodes) >= set(nodes)
    assert [node.name for node in candidate.model.proto.graph.node] == [
        index.nodes[at].name for at in sorted(candidate.nodes)
    ]
    onnx.checker.check_model(candidate.model.with_weights_inside(), full_check=full_check)
    assert set(candidate.feeds) <= {value.name for value in candidate.model.proto.graph.input}
    assert candidate.outputs
    result = runtime.run(request(candidate), timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    tensors = [name for name in candidate.outputs if index.promotable(name)]
    assert set(result.outputs) == set(tensors)
    assert tensors or candidate.expected is None
    half = any(recorded[name].elem_type == TensorProto.FLOAT16 for name in recorded)
    for name in tensors:
        assert_same(name, result.outputs[name], recorded[name].array, HALF_TOLERANCE if half else TOLERANCE)


def assert_same(name: str, found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal, floating point numbers up to `tolerance` of the tensor's scale."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    if found.dtype == object:
        assert found.tolist() == expected.tolist(), name
    elif found.tobytes() != expected.tobytes():
        assert found.dtype.kind in "fV", f"{name} differs"
        a, b = found.astype(np.float64), expected.astype(np.float64)
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=name)
