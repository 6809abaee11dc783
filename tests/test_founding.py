"""onnxruntime issue 32134, which this project began with, from its own generator to four nodes, in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import children
import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[1]
MOST_CALLS = 30
FOUR = ["Add", "Cast", "Div", "ReduceMean"]


@pytest.fixture(scope="module")
def founding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("founding")
    subprocess.run([sys.executable, ROOT / "examples" / "founding_models.py", "-o", folder], check=True)
    return folder


def reduce(founding: Path, name: str, folder: Path, *more: str) -> children.Done:
    args = [founding / f"{name}.onnx", "--inputs", founding / f"{name}.npz", "--oracle", "webgpu-vs-wasm"]
    return children.onnxreduce(*args, "-o", "to", "--no-explain", *more, cwd=folder, timeout=300)


def summary(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "to" / "summary.json").read_text("utf-8")))


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_the_fault_reduces_to_four_nodes(founding: Path, depth: int, tmp_path: Path) -> None:
    done = reduce(founding, f"synth_depth{depth}", tmp_path, "--passes", "")
    assert done.code == 0, done.err
    found = summary(tmp_path)
    assert sorted(map(str, found["operators"])) == FOUR  # type: ignore[call-overload]
    assert (found["one_minimal"], found["confirmed_fresh"]) == (True, True)
    assert int(str(found["oracle_calls"])) <= MOST_CALLS
    assert found["browser"]
    assert found["adapter"]
    script = (tmp_path / "to" / "build_repro.py").read_text("utf-8")
    assert len(script.splitlines()) < 60


def test_another_version_of_the_runtime(founding: Path, tmp_path: Path) -> None:
    done = reduce(founding, "synth_depth3", tmp_path, "--passes", "", "--ort-web", "1.22.0")
    if "npm" in done.err and done.code == 3:
        pytest.skip(f"no package to run: {done.words[0]}")
    assert done.code == 0, done.err
    found = summary(tmp_path)
    assert sorted(map(str, found["operators"])) == FOUR  # type: ignore[call-overload]
    assert "1.22.0" in str(found["runtime"])


def test_what_deletion_left_is_shrunk(founding: Path, tmp_path: Path) -> None:
    done = reduce(founding, "synth_depth3", tmp_path)
    assert done.code == 0, done.err
    found = summary(tmp_path)
    assert int(str(found["nodes_after"])) <= 4
    assert found["confirmed_fresh"] is True
    assert len((tmp_path / "to" / "build_repro.py").read_text("utf-8").splitlines()) < 60
    page = (tmp_path / "to" / "repro.html").read_text("utf-8")
    facts = json.loads(page.partition('id="facts">')[2].partition("</script>")[0])
    assert found["page"] == "repro.html"
    assert facts["measured"]["kind"] == found["signature_reduced"]
    assert any(each["wrong"] for each in facts["measured"]["differences"])


@pytest.mark.parametrize("name", ["synth_depth1", "synth_depth2", "synth_workaround"])
def test_the_healthy_ones_are_told_in_a_line(founding: Path, name: str, tmp_path: Path) -> None:
    done = reduce(founding, name, tmp_path)
    assert done.code == 1, done.err
    assert len(done.words) == 1
    assert "does not fail" in done.words[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lines", [4, 9, 16])
def test_an_interrupt_of_the_search_keeps_the_best_so_far(founding: Path, lines: int, tmp_path: Path) -> None:
    journal = tmp_path / "to" / "journal.jsonl"
    args = [founding / "synth_depth5.onnx", "--inputs", founding / "synth_depth5.npz", "-o", "to"]
    done, alive = children.interrupted(
        *args, cwd=tmp_path, when=lambda: journal.exists() and journal.read_text("utf-8").count('"call"') >= lines
    )
    assert done.code == 4, done.err
    assert done.words == []
    assert "Traceback" not in done.err
    assert alive == []
    assert summary(tmp_path)["confirmed_fresh"] is True


def test_an_interrupt_while_the_browser_starts_leaves_nothing(founding: Path, tmp_path: Path) -> None:
    args = [founding / "synth_depth5.onnx", "--inputs", founding / "synth_depth5.npz", "-o", "to"]
    for seconds in (1.5, 2.0, 2.5):
        begun = time.monotonic()
        done, alive = children.interrupted(
            *args,
            cwd=tmp_path,
            when=lambda: time.monotonic() > begun + seconds,  # noqa: B023
        )
        if done.code == 4:  # this machine is faster than that
            return
        assert done.code == 130, done.err
        assert done.words == ["onnxreduce: interrupted before there was anything to keep"]
        assert "Traceback" not in done.err
        assert alive == []
        assert list(tmp_path.iterdir()) == []
