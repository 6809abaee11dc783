"""An explanation as `explain` writes it, with all its parts; and small models with their data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnxreduce.explain.explanation import Explanation, Finding, Measured, Neighbour, Variant

Make = Callable[..., Path]
"""Makes a result folder from a model, its inputs, expected outputs and more keys of the summary."""
Case = tuple[onnx.ModelProto, dict[str, Any], dict[str, Any]]

FAILS = Measured("fails", "numeric mismatch", "", 2.0, 1.9531, ("D",))
PASSES = Measured("passes", "", "", 0.0, 0.0, ())


def explanation() -> Explanation:
    """Everything that there can be, a run that could not be made included."""
    closest = Neighbour("node", "Neg (ad)", "left out", PASSES)
    return Explanation(
        neighbours=(
            Neighbour("dimension", "axis 0 of u", "1 → 17", FAILS),
            closest,
            Neighbour("order", "Cast (f)", "moved behind Neg (mn)", PASSES),
        ),
        closest=closest,
        variants=(
            Variant("optimization level", "disabled", "ort-web@1.27.0/webgpu?level=disabled", FAILS),
            Variant("bundle", "webgpu", "ort-web@1.27.0/webgpu?bundle=webgpu", PASSES, {"wasm": "asyncify"}),
            Variant("version", "1.30.0", "ort-web@1.30.0/webgpu", FAILS, {"version": "1.30.0"}),
            Variant("runtime", "Node.js", "ort-node/cpu", Measured.not_run("onnxruntime-node is not installed")),
        ),
        findings=(
            Finding(
                "D",
                "overwritten input",
                "D is what Neg gives for the content of mn in place of f.",
                1,
                1,
                0.0,
                "certain",
            ),
        ),
        optimizers=("ConstantFolding", "MatMulAddFusion"),
        bisection=(("1.21.0", "passes"), ("1.22.0", "fails")),
        changed=("1.21.0", "1.22.0"),
        seconds={"variants": 3.25},
        oracle_calls=19,
    )


def explained() -> dict[str, Any]:
    """The same as JSON."""
    return explanation().to_json()


def two_nodes() -> Case:
    """A model of two nodes with its inputs and what it should give."""
    floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Exp", ["n"], ["y"])]
    graph = helper.make_graph(nodes, "g", floats[:1], floats[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    x = np.array([0, 1], np.float32)
    return model, {"x": x}, {"y": np.exp(-x)}
