"""Small models with their recorded values, and faults put into their right outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import faults
import numpy as np
from onnx import TensorProto, helper

from onnxreduce.explain.diagnosis import Diagnosis, Recomputer, diagnose
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.order import weights
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.reduction.reference import Reference

Arrays = dict[str, np.ndarray]
Values = Mapping[str, np.ndarray]
node = helper.make_node


@dataclass(frozen=True)
class Planted:
    """A candidate with every value of it under the reference."""

    candidate: Candidate
    values: Values
    recomputer: Recomputer

    def diagnose(self, output: str, wrong: np.ndarray, **more: object) -> list[Diagnosis]:
        """What is said when this output holds `wrong`, and the others are right."""
        actual = {name: self.values[name] for name in self.candidate.outputs}
        actual[output] = np.asarray(wrong).astype(self.values[output].dtype).reshape(self.values[output].shape)
        return diagnose(
            self.candidate,
            self.values,
            actual,
            [output],
            Tolerance(),
            recomputer=self.recomputer,
            **more,  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class Tools:
    """What records and what recomputes, each in a child process, for all tests."""

    reference: Reference
    recomputer: Recomputer


def recorded(candidate: Candidate, tools: Tools) -> Arrays:
    """Every value of a candidate, initializers included."""
    found = tools.reference.record(candidate)
    assert found is not None
    return {name: tensor.array for name, tensor in {**weights(candidate), **found}.items()}


def planted(case: faults.Case, tools: Tools) -> Planted:
    proto, feeds = case
    stored = {name: StoredTensor.from_array(array) for name, array in feeds.items()}
    candidate = whole(normalise(load(proto)), stored)
    return Planted(candidate, recorded(candidate, tools), tools.recomputer)


def branches() -> faults.Case:
    """Positions (int64) over scales beside a norm, and a product of both in a longer chain."""
    rng = np.random.default_rng(7)
    nodes = [
        node("Cast", ["positions"], ["angles"], to=TensorProto.FLOAT),
        node("Div", ["angles", "scales"], ["rotary"]),
        node("Mul", ["x", "x"], ["squares"]),
        node("ReduceMean", ["squares"], ["mean"], axes=[-1], keepdims=1),
        node("Sqrt", ["mean"], ["root"]),
        node("Div", ["x", "root"], ["normal"]),
        node("MatMul", ["normal", "w"], ["hidden"]),
        node("Tanh", ["hidden"], ["active"]),
        node("Sub", ["active", "y"], ["rest"]),
        node("Exp", ["rest"], ["out"]),
    ]
    weights = {
        "scales": (10 ** (np.arange(6) / 6)).astype(np.float32).reshape(1, 6),
        "w": (rng.normal(size=(10, 12)) * 0.4).astype(np.float32),
    }
    feeds: Arrays = {
        "positions": np.array([[3], [14], [15], [92], [65], [35], [89], [79]], np.int64),
        "x": rng.normal(size=(8, 10)).astype(np.float32),
        "y": rng.normal(size=(8, 12)).astype(np.float32),
    }
    inputs = [
        faults.tensor_info("positions", TensorProto.INT64, [8, 1]),
        faults.floats("x", [8, 10]),
        faults.floats("y", [8, 12]),
    ]
    outputs = [faults.floats("rotary", [8, 6]), faults.floats("out", [8, 12]), faults.floats("root", [8, 1])]
    return faults.model(nodes, inputs, outputs, weights, opset=13), feeds


def single(
    operator: str, feeds: Arrays, shape: tuple[int, ...], *, elem_type: int = TensorProto.FLOAT, **attributes: object
) -> faults.Case:
    """One node of which all inputs are graph inputs."""
    made = node(operator, list(feeds), ["out"], **attributes)  # type: ignore[arg-type]
    inputs = [
        faults.tensor_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    return faults.model([made], inputs, [faults.tensor_info("out", elem_type, shape)], opset=13), feeds
