"""The real SmolVLA exports that the project was given beside its repository; skipped where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import children
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1800)]

CASES = Path(__file__).parents[2] / "shared" / "cases" / "smolvla"
MOST_NODES, MOST_CALLS, MOST_FULL_MODELS = 8, 60, 3.0


@pytest.mark.parametrize(("name", "nodes"), [("smolvla", 2553), ("smolvla_prefill", 1145)])
def test_the_export_reduces_within_budget(name: str, nodes: int, tmp_path: Path) -> None:
    model = CASES / f"{name}.onnx"
    if not model.is_file():
        pytest.skip(f"no {name}.onnx in shared/cases/smolvla beside this repository")
    args = [model, "--inputs", model.with_suffix(".npz"), "--oracle", "webgpu-vs-wasm", "-o", "to"]
    done = children.onnxreduce(*args, cwd=tmp_path, timeout=1700)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "to" / "summary.json").read_text("utf-8"))
    assert found["nodes_before"] == nodes
    assert found["nodes_after"] <= MOST_NODES
    assert (found["one_minimal"], found["confirmed_fresh"]) == (True, True)
    deletion = found.get("deletion") or found
    assert deletion["oracle_calls"] <= MOST_CALLS
    assert deletion["full_model_equivalents"] <= MOST_FULL_MODELS
