"""A model of one node that every version and provider takes: it shows that a provider starts."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper


def anchor_model() -> ModelProto:
    """`y = -x` over one float32."""
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "anchor",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
