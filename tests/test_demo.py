"""What `make demo` shows: a SmolVLA-shaped model of 2,553 nodes, in a real browser, down to a handful."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import children
import onnx
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[1]
MOST_NODES, MOST_CALLS, MOST_FULL_MODELS = 8, 60, 3.0


def test_the_demo_keeps_its_budget(tmp_path: Path) -> None:
    model = tmp_path / "smolvla.onnx"
    subprocess.run([sys.executable, ROOT / "examples" / "smolvla_model.py", "-o", model], check=True)
    args = [model, "--oracle", "webgpu-vs-wasm", "--inputs", model.with_suffix(".npz"), "-o", "to", "--no-explain"]
    done = children.onnxreduce(*args, cwd=tmp_path, timeout=1000)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "to" / "summary.json").read_text("utf-8"))
    assert found["nodes_before"] > 2000
    assert found["nodes_after"] <= MOST_NODES
    assert len(onnx.load(tmp_path / "to" / "reduced.onnx").graph.node) == found["nodes_after"]
    assert (found["one_minimal"], found["confirmed_fresh"]) == (True, True)
    deletion = found.get("deletion") or found
    assert deletion["oracle_calls"] <= MOST_CALLS
    assert deletion["full_model_equivalents"] <= MOST_FULL_MODELS
