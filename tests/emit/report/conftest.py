"""Folders to report on: a real reduction under Python's onnxruntime, and small ones of any model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import faults
import numpy as np
import onnx
import pytest
from report_cases import Make, explained

import onnxreduce
from onnxreduce.emit import builder_script
from onnxreduce.emit.folder import write_reduction
from onnxreduce.emit.neighbourhood import write_neighbourhood
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.passes.table import chosen

WEB = {
    "target": "ort-web@1.27.0/webgpu",
    "runtime": "onnxruntime-web",
    "version": "1.27.0",
    "package": "npm onnxruntime-web@1.27.0",
    "bundle": "ort.bundle.min.mjs",
    "provider": "webgpu",
    "browser": "/usr/bin/some-browser",
    "browser_version": "156.0.1",
    "adapter": "google swiftshader",
    "adapter_software": "yes",
}


@pytest.fixture(scope="session")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the library leaves of a model with the faulty normalisation in it; not to be written to."""
    proto, feeds = faults.hosted(1, 1)
    oracle = faults.levels()
    folder = tmp_path_factory.mktemp("reduced") / "folder"
    try:
        shrinks = Shrinks(chosen("names", None))
        onnxreduce.reduce(proto, oracle, feeds, output=folder, shrinks=shrinks)
    finally:
        oracle.close()
    return folder


@pytest.fixture
def folder(reduced: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(reduced, tmp_path / "folder"))


@pytest.fixture
def explained_folder(folder: Path) -> Path:
    """The same with an explanation."""
    (folder / "explanation.json").write_text(json.dumps(explained()), "utf-8")
    return folder


@pytest.fixture
def web_folder(tmp_path: Path) -> Make:
    """Makes the folder of a model that is wrong in a browser, without one."""

    def make(proto: onnx.ModelProto, feeds: dict[str, Any], expected: dict[str, Any], **summary: Any) -> Path:
        folder = tmp_path / "web"
        inputs = {name: StoredTensor.from_array(np.asarray(array)) for name, array in feeds.items()}
        outputs = {name: StoredTensor.from_array(np.asarray(array)) for name, array in expected.items()}
        facts = web_summary(proto) | summary
        write_reduction(folder, proto, inputs, outputs, builder_script(proto, inputs, title_lines=["A title"]), facts)
        write_neighbourhood(folder, GraphIndex(load(proto), inputs), range(len(proto.graph.node)))
        return folder

    return make


def web_summary(proto: onnx.ModelProto) -> dict[str, Any]:
    """A summary as a reduction in a browser leaves it."""
    return {
        "model": "model.onnx",
        "signature": "numeric mismatch",
        "signature_reduced": "numeric mismatch",
        "nodes_before": 2553,
        "nodes_after": len(proto.graph.node),
        "operators": [node.op_type for node in proto.graph.node],
        "confirmed_fresh": True,
        "runtime": "onnxruntime-web 1.27.0 webgpu ort.bundle.min.mjs",
        "reference": "onnxruntime-web 1.27.0 wasm ort.bundle.min.mjs",
        "targets": {"suspect": WEB, "reference": {**WEB, "target": "ort-web@1.27.0/wasm", "provider": "wasm"}},
        "oracle_record": {"tolerance": {"absolute": 1e-6, "float32": 2e-3}},
    }
