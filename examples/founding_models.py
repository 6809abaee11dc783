"""Write the models of onnxruntime issue 32134, the fault that this project began with, and inputs for each.

Two branches that share nothing: the positions of a rotary embedding, and the head of an RMSNorm, 1 to 5 nodes deep::

    P (int64) ─► Sub ─► Unsqueeze ─► Cast ─► Div ─► D
    X ─► Pow ─► ReduceMean ─► Add ─► Sqrt ─► Reciprocal

From depth 3 (with the Add) on, onnxruntime-web's JavaScript WebGPU provider computes D wrongly. It is right at depths 1
and 2, and in the workaround, whose positions come in as floats.

    python examples/founding_models.py -o founding        # writes synth_depth1.onnx, synth_depth1.npz, ...
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, SCALES = 194, 960, 32

Array = np.ndarray[Any, np.dtype[Any]]

POSITIONS = [
    helper.make_node("Sub", ["P", "one"], ["s"]),
    helper.make_node("Unsqueeze", ["s", "axm1"], ["u"]),
    helper.make_node("Cast", ["u"], ["f"], to=TensorProto.FLOAT),
    helper.make_node("Div", ["f", "ts"], ["D"]),
]
WORKAROUND = [helper.make_node("Div", ["F", "ts"], ["D"])]
NORM = [
    helper.make_node("Pow", ["X", "two"], ["pw"]),
    helper.make_node("ReduceMean", ["pw", "axes"], ["mn"], keepdims=1),
    helper.make_node("Add", ["mn", "eps"], ["ad"]),
    helper.make_node("Sqrt", ["ad"], ["sq"]),
    helper.make_node("Reciprocal", ["sq"], ["rc"]),
]
CONSTANTS: dict[str, Array] = {
    "one": np.array(1, dtype=np.int64),
    "axm1": np.array([-1], dtype=np.int64),
    "ts": (10000.0 ** (np.arange(SCALES) / SCALES)).astype(np.float32).reshape(1, 1, SCALES),
    "two": np.array(2.0, dtype=np.float32),
    "axes": np.array([-1], dtype=np.int64),
    "eps": np.array(1e-6, dtype=np.float32),
}


def build(depth: int) -> onnx.ModelProto:
    """Build the model of the issue with this many nodes (1 to 5) in the branch of the norm."""
    positions = helper.make_tensor_value_info("P", TensorProto.INT64, [1, TOKENS])
    return _assemble(f"synth_depth{depth}", POSITIONS, positions, depth)


def build_workaround() -> onnx.ModelProto:
    """Build the model of depth 3 with its positions as a float input, which is right."""
    positions = helper.make_tensor_value_info("F", TensorProto.FLOAT, [1, TOKENS, 1])
    return _assemble("synth_workaround", WORKAROUND, positions, 3)


def inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Make the inputs of one of these models: X at random, the positions counted up."""
    known: dict[str, Array] = {
        "X": np.random.default_rng(seed).uniform(-100, 100, (1, TOKENS, WIDTH)).astype(np.float32),
        "P": np.arange(1, TOKENS + 1, dtype=np.int64).reshape(1, TOKENS),
        "F": np.arange(TOKENS, dtype=np.float32).reshape(1, TOKENS, 1),
    }
    return {graph_input.name: known[graph_input.name] for graph_input in model.graph.input}


def _assemble(name: str, branch: list[onnx.NodeProto], positions: onnx.ValueInfoProto, depth: int) -> onnx.ModelProto:
    last = NORM[depth - 1].output[0]
    graph = helper.make_graph(
        branch + NORM[:depth],
        name,
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, TOKENS, WIDTH]), positions],
        [
            helper.make_tensor_value_info("D", TensorProto.FLOAT, [1, TOKENS, SCALES]),
            helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, TOKENS, WIDTH if depth == 1 else 1]),
        ],
        [numpy_helper.from_array(values, constant) for constant, values in CONSTANTS.items()],
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Write the six models and, beside each, its inputs."""
    parser = argparse.ArgumentParser(description="Write the models of onnxruntime issue 32134 and their inputs (.npz).")
    parser.add_argument("-o", "--output", type=Path, default=Path("founding"), help="folder (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the input X (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for model in [*map(build, range(1, len(NORM) + 1)), build_workaround()]:
        path = arguments.output / f"{model.graph.name}.onnx"
        onnx.save(model, path)
        np.savez(path.with_suffix(".npz"), **inputs(model, arguments.seed))  # type: ignore[arg-type]
        print(f"{path}: {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()
