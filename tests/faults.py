"""Small models with real faults of the installed onnxruntime, and models that no oracle should accept.

`normalisation` is onnxruntime issue 30513: a layer normalisation written with `keepdims=0` is fused as if the mean had
kept its axis, at level extended and above. The result is wrong, without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.runtimes.target import Target

Arrays = dict[str, np.ndarray]
Case = tuple[ModelProto, Arrays]

REFERENCE, SUSPECT = "ort/cpu?level=disabled", "ort/cpu?level=all"
LEVELS = f'description = "optimized against as it is"\nreference = "{REFERENCE}"\nsuspect = "{SUSPECT}"\n'
MINIMUM = 8
"""Nodes of the faulty normalisation; fewer may do."""

node = helper.make_node
tensor_info = helper.make_tensor_value_info


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Arrays | None = None,
    *,
    opset: int = 11,
    name: str = "g",
) -> ModelProto:
    """A model from its parts."""
    initializers = [numpy_helper.from_array(array, key) for key, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def floats(name: str, shape: Sequence[int | str]) -> ValueInfoProto:
    """A float32 graph input or output."""
    return tensor_info(name, TensorProto.FLOAT, shape)


def healthy(shape: Sequence[int] = (2, 3)) -> Case:
    """One node that is right everywhere."""
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return model([node("Neg", ["x"], ["y"])], [floats("x", shape)], [floats("y", shape)]), {"x": x}


def normalisation() -> Case:
    """The faulty normalisation alone: 8 nodes, square, so that the wrong broadcast goes unnoticed."""
    x = np.array([[0, 1, 2], [14, 16, 7], [5, 64, 62]], np.float32)
    nodes, weights = _normalisation("x", "out", "")
    return model(nodes, [floats("x", (3, 3))], [floats("out", (3, 3))], weights), {"x": x}


def hosted(before: int = 20, after: int = 18) -> Case:
    """The faulty normalisation in a healthy graph of residual blocks, 5 nodes each, which runs through it."""
    rng = np.random.default_rng(5)
    nodes: list[NodeProto] = []
    weights: Arrays = {}
    stream = "stream"
    for at in range(before):
        stream = _block(nodes, weights, rng, at, stream)
    tie: Arrays = {"tie": np.zeros(1, np.float32)}
    nodes += [
        node("ReduceMean", [stream], ["pool"], keepdims=0),
        node("Mul", ["pool", "tie"], ["nothing"]),
        node("Add", ["x", "nothing"], ["x/tied"]),
    ]
    inner, inside = _normalisation("x/tied", "normal", "planted/")
    nodes += inner
    nodes += [node("ReduceMean", ["normal"], ["mean"], keepdims=0), node("Add", [stream, "mean"], ["on"])]
    stream = "on"
    for at in range(before, before + after):
        stream = _block(nodes, weights, rng, at, stream)
    feeds = {"stream": rng.normal(size=(1, 12, 16)).astype(np.float32), "x": normalisation()[1]["x"]}
    inputs = [floats(name, array.shape) for name, array in feeds.items()]
    return model(nodes, inputs, [floats(stream, (1, 12, 16))], {**weights, **tie, **inside}), feeds


def hungry(mebibytes: int, count: int = 1) -> Case:
    """A right model that holds so many values of so many MiB at once, from one number to one number."""
    values = [f"large{at}" for at in range(count)]
    nodes = [node("Expand", ["x", "size"], [value]) for value in values]
    nodes += [node("Concat", values, ["all"], axis=0), node("ReduceMax", ["all"], ["y"], keepdims=0)]
    size = {"size": np.array([mebibytes << 8, 1 << 10], np.int64)}
    return model(nodes, [floats("x", ())], [floats("y", ())], size), {"x": np.ones((), np.float32)}


def random() -> Case:
    """A model that is another each time: no reference."""
    nodes = [node("RandomNormal", [], ["r"], shape=[4]), node("Add", ["x", "r"], ["y"])]
    return model(nodes, [floats("x", (4,))], [floats("y", (4,))]), {"x": np.zeros(4, np.float32)}


def not_a_number() -> Case:
    """A reference that is itself NaN in 2 of 3 elements."""
    case = model([node("Sqrt", ["x"], ["y"])], [floats("x", (3,))], [floats("y", (3,))])
    return case, {"x": np.array([-1, 4, -9], np.float32)}


def unknown_operator() -> Case:
    """A model that no runtime can load."""
    case = model([node("NoSuchOperator", ["x"], ["y"], name="odd")], [floats("x", (3,))], [floats("y", (3,))])
    return case, {"x": np.zeros(3, np.float32)}


def cannot_run() -> Case:
    """A model that loads, but whose second node cannot run on its input."""
    nodes = [node("Neg", ["x"], ["n"]), node("Reshape", ["n", "to"], ["y"], name="impossible")]
    case = model(nodes, [floats("x", (3,))], [floats("y", ("a", "b"))], {"to": np.array([2, 2], np.int64)})
    return case, {"x": np.zeros(3, np.float32)}


def save(case: Case, folder: Path, name: str = "model.onnx") -> tuple[Path, Path]:
    """Write model and inputs into a folder; their paths."""
    proto, feeds = case
    path, data = folder / name, folder / f"{Path(name).stem}.npz"
    onnx.save(proto, path)
    np.savez(data, **feeds)
    return path, data


def candidate(case: Case) -> Candidate:
    """The whole model as a candidate."""
    proto, feeds = case
    return whole(load(proto), {name: StoredTensor.from_array(array) for name, array in feeds.items()})


def levels(reference: str = REFERENCE, suspect: str = SUSPECT) -> BuiltOracle:
    """An oracle of two ways to run Python onnxruntime; to be closed."""
    return BuiltOracle(OracleSpec("levels", Target.parse(reference), Target.parse(suspect)), Setup())


def _normalisation(source: str, output: str, prefix: str) -> tuple[list[NodeProto], Arrays]:
    def named(name: str) -> str:
        return f"{prefix}{name}"

    chain = [
        ("ReduceMean", (source,), "mean", {"axes": [-1], "keepdims": 0}),
        ("Sub", (source, named("mean")), "centred", {}),
        ("Pow", (named("centred"), named("two")), "squared", {}),
        ("ReduceMean", (named("squared"),), "variance", {"axes": [-1], "keepdims": 0}),
        ("Add", (named("variance"), named("epsilon")), "positive", {}),
        ("Sqrt", (named("positive"),), "deviation", {}),
        ("Div", (named("centred"), named("deviation")), "normal", {}),
    ]
    nodes = [
        node(op, list(inputs), [named(out)], name=named(f"node_{at}"), **attributes)
        for at, (op, inputs, out, attributes) in enumerate(chain)
    ]
    nodes.append(node("Mul", [named("normal"), named("scale")], [output], name=named("node_7")))
    weights = {"two": np.float32(2), "epsilon": np.float32(1e-5), "scale": np.array([1, 2, 3], np.float32)}
    return nodes, {named(name): np.asarray(array) for name, array in weights.items()}


def _block(nodes: list[NodeProto], weights: Arrays, rng: np.random.Generator, at: int, stream: str) -> str:
    weights[f"w{at}"] = (rng.normal(size=(16, 16)) * 0.1).astype(np.float32)
    weights[f"b{at}"] = (rng.normal(size=(16,)) * 0.1).astype(np.float32)
    weights[f"s{at}"] = np.array([0.1], np.float32)
    nodes += [
        node("MatMul", [stream, f"w{at}"], [f"m{at}"], name=f"/blocks.{at}/MatMul"),
        node("Add", [f"m{at}", f"b{at}"], [f"a{at}"], name=f"/blocks.{at}/Add"),
        node("Tanh", [f"a{at}"], [f"t{at}"], name=f"/blocks.{at}/Tanh"),
        node("Mul", [f"t{at}", f"s{at}"], [f"u{at}"], name=f"/blocks.{at}/Mul"),
        node("Add", [f"u{at}", stream], [f"stream{at}"], name=f"/blocks.{at}/Add_1"),
    ]
    return f"stream{at}"
