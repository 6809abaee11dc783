"""Small models, one for each class of failure, with their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxreduce.graph.tensors import StoredTensor

Case = tuple[ModelProto, dict[str, np.ndarray]]

node = helper.make_node
F = np.float32


def case(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, int],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> Case:
    """A model of `nodes`; `outputs` gives element types."""
    stored = {name: StoredTensor.from_array(array) for name, array in feeds.items()}
    graph = helper.make_graph(
        list(nodes),
        "case",
        [helper.make_tensor_value_info(name, each.elem_type, each.shape) for name, each in stored.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    return model, dict(feeds)


def founding() -> Case:
    """What node deletion leaves of the founding model of depth 3: `Cast → Div` beside `ReduceMean → Add`."""
    import founding_models

    whole = founding_models.build(3)
    kept = [each for each in whole.graph.node if each.op_type in ("Cast", "Div", "ReduceMean", "Add")]
    x, tokens = founding_models.inputs(whole)["X"], founding_models.TOKENS
    feeds = {"u": np.arange(tokens, dtype=np.int64).reshape(1, tokens, 1), "pw": x**2}
    weights = {name: founding_models.CONSTANTS[name] for name in ("ts", "axes", "eps")}
    return case(kept, feeds, {"D": TensorProto.FLOAT, "ad": TensorProto.FLOAT}, weights, opset=18)


def wrong_shape() -> Case:
    """JSEP rounds the sizes of a Resize in another way."""
    x = np.random.default_rng(0).normal(size=(1, 3, 9, 11)).astype(F)
    resize = node("Resize", ["x", "", "sc"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel")
    return case([resize], {"x": x}, {"y": TensorProto.FLOAT}, {"sc": np.array([1, 1, 0.6, 0.45], F)})


def shader_error() -> Case:
    """A Concat of nine inputs: JSEP binds more storage buffers than the device allows, and `run()` resolves."""
    feeds = {f"x{at}": np.full((1, 4), at + 1, F) for at in range(9)}
    return case([node("Concat", list(feeds), ["y"], axis=1)], feeds, {"y": TensorProto.FLOAT})


def run_error() -> Case:
    """JSEP refuses `ceil_mode`."""
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(F)
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    return case([pool], {"x": x}, {"y": TensorProto.FLOAT})


def agrees() -> Case:
    """Every type that a page has to tell apart, handed through."""
    feeds = {
        "f": np.linspace(-2, 2, 8, dtype=F),
        "h": np.array([[1.5, -65504.0, 6e-8]], np.float16),
        "l": np.array([2**62 + 1, -(2**63), 2**63 - 1], np.int64),
        "b": np.array([[True, False]]),
        "u": np.array([0, 255], np.uint8),
    }
    kinds = {name: StoredTensor.from_array(array).elem_type for name, array in feeds.items()}
    nodes = [node("Identity", [name], [f"{name}_out"]) for name in feeds]
    return case(nodes, feeds, {f"{name}_out": kind for name, kind in kinds.items()})


HOSTILE = (
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=2</script>",
    "--><!--<b>&amp; ' \" \u2028 @@SCRIPT@@",
)


def hostile() -> Case:
    """Names that a careless page would run or lose."""
    source, weight, output = HOSTILE
    add = node("Add", [source, weight], [output], name="</style><script>window.hacked=3</script>")
    return case([add], {source: np.arange(4, dtype=F)}, {output: TensorProto.FLOAT}, {weight: np.ones(4, F)})


def product() -> Case:
    """A matrix product that takes a core of any machine more than some milliseconds."""
    x = np.random.default_rng(0).normal(size=(768, 768)).astype(F)
    return case([node("MatMul", ["x", "x"], ["y"])], {"x": x}, {"y": TensorProto.FLOAT})


def endless() -> Case:
    """A Loop that is not done within anyone's patience."""
    body = helper.make_graph(
        [node("Add", ["a", "step"], ["b"]), node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [1]),
        ],
    )
    weights = {"times": np.array(10**12, np.int64), "true": np.array(True), "step": np.ones(1, F)}
    loop = node("Loop", ["times", "true", "x"], ["y"], body=body)
    return case([loop], {"x": np.zeros(1, F)}, {"y": TensorProto.FLOAT}, weights)
