"""An operator test in the form of onnxruntime's `js/web/test/data/ops`, as upstream's `test-runner.ts` runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper


def operator_tests(path: Path) -> list[dict[str, Any]]:
    """What stands in the file, without its remarks."""
    found: list[dict[str, Any]] = json.loads(re.sub(r"^//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE))
    return found


def arrays(tensors: Sequence[dict[str, Any]]) -> list[np.ndarray | None]:
    """The form's tensors; None for one that is left out."""
    return [
        None
        if each["data"] is None
        else np.array(
            [int(v) for v in each["data"]] if "int64" in each["type"] else each["data"], each["type"]
        ).reshape(each["dims"])
        for each in tensors
    ]


def model_of(test: dict[str, Any]) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The model of one node that a test becomes, its inputs and its expected outputs."""
    case = test["cases"][0]
    given, wanted = arrays(case["inputs"]), arrays(case["outputs"])
    feeds = {f"input_{at}": array for at, array in enumerate(given) if array is not None}
    expected = {f"output_{at}": array for at, array in enumerate(wanted) if array is not None}
    node = helper.make_node(
        test["operator"],
        ["" if array is None else f"input_{at}" for at, array in enumerate(given)],
        ["" if array is None else f"output_{at}" for at, array in enumerate(wanted)],
        domain=test["opset"]["domain"],
        **{each["name"]: each["data"] for each in test["attributes"]},
    )
    shapes = [shape for shape, array in zip(test["inputShapeDefinitions"], given, strict=True) if array is not None]
    graph = helper.make_graph(
        [node],
        "g",
        [_info(name, array, shape) for (name, array), shape in zip(feeds.items(), shapes, strict=True)],
        [_info(name, array, None) for name, array in expected.items()],
    )
    opsets = [helper.make_opsetid(test["opset"]["domain"], test["opset"]["version"])]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets), feeds, expected


def _info(name: str, array: np.ndarray, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)
