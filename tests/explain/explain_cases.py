"""Models of small real faults, and the type of the fixture that builds oracles."""

from __future__ import annotations

from collections.abc import Callable

import faults
import numpy as np
from onnx import helper

from onnxreduce.graph.prepare import InputOptions, Subject, prepare
from onnxreduce.oracle.build import BuiltOracle

Make = Callable[..., BuiltOracle]


def subject(case: faults.Case) -> Subject:
    proto, feeds = case
    return prepare(proto, feeds, InputOptions())


def conv() -> faults.Case:
    """A Conv with 6 input channels between two healthy nodes: wrong under native WebGPU (onnxruntime issue 29651)."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="before"),
        helper.make_node("Conv", ["r", "w"], ["c"], name="six", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Tanh", ["c"], ["y"], name="after"),
    ]
    weights = {"w": (rng.normal(size=(4, 6, 3, 3)) * 0.3).astype(np.float32)}
    ends = [faults.floats("x", (1, 6, 8, 8))], [faults.floats("y", (1, 4, 8, 8))]
    x = rng.normal(size=(1, 6, 8, 8)).astype(np.float32)
    return faults.model(nodes, *ends, weights, opset=18), {"x": x}


def gemm() -> faults.Case:
    """An identity Transpose before MatMul and Add is fused as a real one: wrong before 1.30.0 (issue 32228)."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1]),
        helper.make_node("MatMul", ["t", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    ends = [faults.floats("x", (4, 4))], [faults.floats("y", (4, 4))]
    x, w, b = (rng.normal(size=size).astype(np.float32) for size in ((4, 4), (4, 4), (4,)))
    return faults.model(nodes, *ends, {"w": w, "b": b}, opset=13), {"x": x}
