"""Small models for the browser tests, with their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto, StringStringEntryProto, TensorProto, helper, numpy_helper

from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.base import RunRequest


def request(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, int],
    *,
    weights: Mapping[str, np.ndarray] | None = None,
    external: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
) -> RunRequest:
    """A request for a graph of `nodes`; `outputs` gives element types, `external` weights outside the model."""
    stored = {name: StoredTensor.from_array(array) for name, array in feeds.items()}
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    for name, array in (external or {}).items():
        proto = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
        proto.data_location = TensorProto.EXTERNAL
        entries = {"location": f"{name}.bin", "offset": "0", "length": str(array.nbytes)}
        proto.external_data.extend(StringStringEntryProto(key=k, value=v) for k, v in entries.items())
        initializers.append(proto)
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, t.elem_type, t.shape) for name, t in stored.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    blobs = {f"{name}.bin": Blob.from_bytes(array.tobytes()) for name, array in (external or {}).items()}
    return RunRequest(model.SerializeToString(), stored, list(outputs), blobs)


def add(value: float = 1.0) -> RunRequest:
    """y = x + 1 over eight numbers: right everywhere."""
    x = np.arange(8, dtype=np.float32) + np.float32(value)
    return request(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        {"x": x},
        {"y": TensorProto.FLOAT},
        weights={"one": np.array(1, np.float32)},
    )


def founding() -> RunRequest:
    """The founding fault at depth 3 (onnxruntime issue 32134): `D` is positions by timescale."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Sub", ["P", "one"], ["s"]),
        helper.make_node("Unsqueeze", ["s", "axm1"], ["u"]),
        helper.make_node("Cast", ["u"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["f", "ts"], ["D"]),
        helper.make_node("Pow", ["X", "two"], ["pw"]),
        helper.make_node("ReduceMean", ["pw", "axm1"], ["mn"], keepdims=1),
        helper.make_node("Add", ["mn", "eps"], ["ad"]),
    ]
    weights = {
        "one": np.array(1, np.int64),
        "axm1": np.array([-1], np.int64),
        "ts": (10000.0 ** ((2.0 / 64) * np.arange(32, dtype=np.float32))).reshape(1, 1, 32),
        "two": np.array(2.0, np.float32),
        "eps": np.array(1e-6, np.float32),
    }
    feeds = {
        "X": rng.uniform(-100, 100, (1, 194, 960)).astype(np.float32),
        "P": np.arange(1, 195, dtype=np.int64).reshape(1, 194),
    }
    return request(nodes, feeds, {"D": TensorProto.FLOAT, "ad": TensorProto.FLOAT}, weights=weights)


def concat_nine() -> RunRequest:
    """A Concat of nine inputs: JSEP binds more storage buffers than the device allows, and `run()` resolves."""
    names = [f"x{i}" for i in range(9)]
    feeds = {name: np.full((1, 4), i + 1, np.float32) for i, name in enumerate(names)}
    return request([helper.make_node("Concat", names, ["y"], axis=1)], feeds, {"y": TensorProto.FLOAT})


def maxpool_ceil() -> RunRequest:
    """JSEP refuses `ceil_mode`, and refuses everything else in that page afterwards."""
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(np.float32)
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    return request([node], {"x": x}, {"y": TensorProto.FLOAT})


def endless() -> RunRequest:
    """A Loop that is not done within a test's patience: the page is busy all the time."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["a", "step"], ["b"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
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
    return request(
        [helper.make_node("Loop", ["times", "true", "x"], ["y"], body=body)],
        {"x": np.zeros(1, np.float32)},
        {"y": TensorProto.FLOAT},
        weights={
            "times": np.array(10**12, np.int64),
            "true": np.array(True),
            "step": np.ones(1, np.float32),
        },
    )


def slow() -> RunRequest:
    """Matrix products that keep a software adapter busy for many seconds."""
    size = 1024
    x = np.full((size, size), 1 / size, np.float32)
    nodes = [helper.make_node("MatMul", [f"x{i}", "x0"], [f"x{i + 1}"]) for i in range(40)]
    return request(nodes, {"x0": x}, {"x40": TensorProto.FLOAT})
