"""Faults planted in small models, for tests of the passes: no browser, only a question about the model.

`shrink_with(passes, model, fault)` runs the passes on a model whose fault shows wherever `fault(candidate)` holds, with
real Python ONNX Runtime as the reference. Each step that is accepted is checked on the way: it is smaller in the order,
valid for onnx's checker, and its recorded values are what ONNX Runtime computes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, numpy_helper

from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.order import size
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import every_node
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.passes.table import PASSES
from onnxreduce.reduction.reference import Reference
from onnxreduce.reduction.rounds import Pass, shrink
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.runtimes.base import Status, request

Fault = Callable[[Candidate], "bool | Kind"]

NUMERIC = Signature(Kind.NUMERIC)
ENOUGH = 60.0


class PlantedOracle:
    """Fails where the fault says so: with a wrong value, or with the class of failure that it names."""

    name = "planted"

    def __init__(self, fault: Fault, message: str = "") -> None:
        self.fault = fault
        self.message = message
        self.calls = 0

    def golden(self, candidate: Candidate, recorded: object = None) -> Golden:
        return Golden(self.judge(candidate))

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        self.calls += 1
        found = self.fault(candidate)
        if not found:
            return Verdict(Outcome.PASSES)
        kind = found if isinstance(found, Kind) else Kind.NUMERIC
        return Verdict(Outcome.FAILS, Signature(kind), message=self.message)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        return {"reference": {}, "suspect": {}}

    def close(self) -> None:
        pass


@functools.cache
def reference() -> Reference:
    """One for all tests: a process that runs ONNX Runtime takes 0.4 s to start."""
    return Reference()


def close_reference() -> None:
    if reference.cache_info().currsize:
        reference().close()
        reference.cache_clear()


def graph(text: str, *, opset: int = 18, ir_version: int = 10, **weights: np.ndarray) -> ModelProto:
    """A model from onnx's text form without its head, such as `(float[4] x) => (float[4] y) { y = Neg(x) }`."""
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    model: ModelProto = onnx.parser.parse_model(f"{head} g {text}")
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items())
    return model


def shrinking(
    model: ModelProto,
    fault: Fault,
    feeds: Mapping[str, Any] | None = None,
    *,
    keep: Collection[str] = (),
    message: str = "",
) -> Shrinking:
    """A problem that is ready for passes. Inputs that are not given are random (small whole numbers for integers)."""
    normal = normalise(load(model))
    inputs = _inputs(normal.proto, feeds or {})
    start = whole(normal, inputs)
    oracle = PlantedOracle(fault, message)
    assert fault(start), "the fault does not show in the original"
    sizes = [size(start)]

    def check(problem: Shrinking) -> None:
        assert problem.best_size < sizes[-1]
        sizes.append(problem.best_size)
        check_best(problem)

    problem = Shrinking(start, oracle, NUMERIC, Journal(), keep=keep, progress=check, reference=reference())
    assert problem.start()
    return problem


def shrink_with(
    passes: str | Sequence[Pass],
    model: ModelProto,
    fault: Fault,
    feeds: Mapping[str, Any] | None = None,
    *,
    keep: Collection[str] = (),
    message: str = "",
) -> Shrinking:
    """The problem once the passes (by name, or all with "all") are through."""
    problem = shrinking(model, fault, feeds, keep=keep, message=message)
    shrink(problem, named(passes) if isinstance(passes, str) else passes)
    return problem


def named(names: str) -> list[Pass]:
    """Rows of the table."""
    table = {one.name: one for one in PASSES}
    return list(PASSES) if names == "all" else [table[name] for name in names.split()]


def check_best(problem: Shrinking) -> None:
    """The best is a valid model, and its recorded values are what ONNX Runtime computes."""
    best = problem.best
    onnx.checker.check_model(best.model.with_weights_inside(), full_check=True)
    result = reference().recorder.run(request(best), timeout=ENOUGH)
    assert result.status is Status.OK, result.message
    assert best.expected is not None
    for name in best.outputs:
        assert np.array_equal(result.outputs[name], best.expected[name].array, equal_nan=True), name
        assert np.array_equal(result.outputs[name], problem.values[name].array, equal_nan=True), name


def shown(found: Shrinking | Candidate) -> list[str]:
    """The nodes as text, such as `y = Add(a, b)`."""
    best = found.best if isinstance(found, Shrinking) else found
    return list(map(_text, best.model.proto.graph.node))


def calls(problem: Shrinking) -> int:
    """Oracle calls, confirmations counted, checks of the instance not."""
    assert isinstance(problem.oracle, PlantedOracle)
    return problem.oracle.calls - problem.contamination_checks


def feeds_of(problem: Shrinking) -> dict[str, Any]:
    """Inputs as nested lists."""
    return {name: tensor.array.tolist() for name, tensor in problem.best.feeds.items()}


def operators(candidate: Candidate) -> list[str]:
    """Of every node, those in bodies too."""
    return sorted(node.op_type for node in every_node(candidate.model.proto))


def holds(*op_types: str) -> Fault:
    """A fault that shows wherever all these operators are."""

    def fault(candidate: Candidate) -> bool:
        there = operators(candidate)
        return all(there.count(each) >= op_types.count(each) for each in op_types)

    return fault


def shapes(candidate: Candidate) -> dict[str, tuple[int, ...]]:
    return {name: tensor.shape for name, tensor in candidate.feeds.items()}


def _text(node: NodeProto) -> str:
    return f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"


def _inputs(proto: ModelProto, given: Mapping[str, Any]) -> dict[str, StoredTensor]:
    rng = np.random.default_rng(0)
    found: dict[str, StoredTensor] = {}
    weights = {tensor.name for tensor in proto.graph.initializer}
    for value in proto.graph.input:
        if value.name in weights:
            continue
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name in given:
            array = np.asarray(given[value.name], dtype)
        else:
            shape = [dim.dim_value for dim in kind.shape.dim]
            array = np.asarray(rng.normal(size=shape) * 3 if dtype.kind == "f" else rng.integers(2, 9, shape))
        found[value.name] = StoredTensor.from_array(array.astype(dtype))
    return found
