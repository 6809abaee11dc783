"""Of every pass: what it leaves is valid, smaller in the order, and computed anew (see `planted_faults.shrinking`)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from planted_faults import check_best, operators, shrink_with, shrinking

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import size
from onnxreduce.reduction.passes.table import PASSES

UNARY = ("Neg", "Exp", "Tanh", "Abs", "Relu", "Sigmoid", "Identity")
BINARY = ("Add", "Mul", "Sub", "Max")


def some_model(seed: int) -> ModelProto:
    """Elementwise operators, matrix products, means, casts, splits and branches over values of shape [1, 4, 4]."""
    rng = random.Random(seed)
    shape = [1, 4, 4]
    values = ["x", "z"]
    weights = {
        "w": np.random.default_rng(seed).normal(size=shape).astype(np.float32),
        "axes": np.array([-1]),
        "to": np.array([1, 2, 8]),
        "back": np.array(shape),
    }
    nodes = []
    for at in range(7):
        out, source = f"value_{at}", rng.choice(values)
        kind = rng.randrange(8)
        if kind < 3:
            nodes.append(helper.make_node(rng.choice(UNARY), [source], [out]))
        elif kind == 3:
            nodes.append(helper.make_node(rng.choice(BINARY), [source, rng.choice([*values, "w"])], [out]))
        elif kind == 4:
            nodes.append(helper.make_node("MatMul", [source, "w"], [out]))
        elif kind == 5:
            nodes.append(helper.make_node("ReduceMean", [source, "axes"], [f"{out}_mean"], keepdims=1))
            nodes.append(helper.make_node("Sub", [source, f"{out}_mean"], [out]))
        elif kind == 6:
            nodes.append(helper.make_node("Reshape", [source, "to"], [f"{out}_flat"]))
            nodes.append(helper.make_node("Reshape", [f"{out}_flat", "back"], [out]))
        else:
            nodes.append(helper.make_node("Split", [source], [f"{out}_a", f"{out}_b"], axis=1, num_outputs=2))
            nodes.append(helper.make_node("Concat", [f"{out}_b", f"{out}_a"], [out], axis=1))
        values.append(out)
    nodes.append(helper.make_node("Cast", ["p"], ["positions"], to=TensorProto.FLOAT))
    branch = [
        helper.make_graph([helper.make_node(op, [values[-1]], [name])], name, [], [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
        for op, name in (("Neg", "yes"), ("Abs", "no"))
    ]  # fmt: skip
    nodes.append(helper.make_node("If", ["c"], ["chosen"], then_branch=branch[0], else_branch=branch[1]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "z")]
    inputs.append(helper.make_tensor_value_info("p", TensorProto.INT64, [1, 4]))
    inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    read = {name for node in nodes for name in node.input}
    ends = [name for node in nodes for name in node.output if name not in read]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ends]
    used = [numpy_helper.from_array(array, name) for name, array in weights.items() if name in read]
    graph = helper.make_graph(nodes, "g", inputs, outputs, used)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [one.name for one in PASSES] + ["all"])
def test_what_a_pass_leaves(name: str, seed: int) -> None:
    model = some_model(seed)
    rng = random.Random(seed)
    needed = rng.sample(sorted({node.op_type for node in model.graph.node}), 2)
    at_least = rng.choice([1, 2, 6])

    def fault(candidate: Candidate) -> bool:
        elements = sum(tensor.size for tensor in candidate.feeds.values())
        return set(needed) <= set(operators(candidate)) and elements >= at_least

    start = shrinking(model, fault)
    found = shrink_with(name, model, fault)
    assert size(found.best) <= size(start.best)
    assert fault(found.best)
    if found.best_size < size(start.best):
        check_best(found)
    if name == "all":
        assert len(found.best.nodes) <= 4
        again = shrink_with(name, found.best.model.with_weights_inside(), fault, {
            each: tensor.array for each, tensor in found.best.feeds.items()})  # fmt: skip
        assert again.best_size == found.best_size
