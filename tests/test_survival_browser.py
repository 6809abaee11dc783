"""The same with a browser: its processes are killed during a reduction, and it may not start again."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import children
import psutil
import pytest
from killed import (
    Tally,
    Task,
    answered,
    kill_helpers,
    kill_until_done,
    kind_of,
    result_of,
    still_running,
    undisturbed,
    unusable,
)  # fmt: skip

pytestmark = [pytest.mark.browser, pytest.mark.skipif(os.name != "posix", reason="signals")]

ROOT = Path(__file__).parents[1]
KINDS = ("main", "gpu-process", "renderer")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """The founding fault, by deletion alone."""
    folder = tmp_path_factory.mktemp("founding")
    subprocess.run([sys.executable, ROOT / "examples" / "founding_models.py", "-o", folder], check=True)
    return Task(folder / "synth_depth3.onnx", ["--oracle", "webgpu-vs-wasm", "--passes", ""])


@pytest.fixture(scope="module")
def expected(task: Task, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return undisturbed(task, tmp_path_factory.mktemp("expected") / "run")[0]


@pytest.mark.parametrize("seed", [1])
def test_processes_of_the_browser_that_are_killed_change_nothing(
    seed: int, task: Task, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """One of each kind, at any moment of the search."""
    rng, tally = random.Random(seed), Tally()
    moments = [
        (at, rng.uniform(0, 0.1), kind) for at, kind in zip(sorted(rng.sample(range(1, 18), 3)), KINDS, strict=True)
    ]
    kill_helpers(task, tmp_path / "run", expected, moments, tally)
    assert tally.good, tally
    assert tally.kills == len(KINDS)


def test_kills_of_the_tool_take_the_browser_along(task: Task, expected: dict[str, bytes], tmp_path: Path) -> None:
    tally = Tally()
    kill_until_done(task, tmp_path / "run", expected, [(0.05, 9)], tally)
    assert tally.good, tally
    assert tally.kills == 1
    assert tally.paid_twice <= tally.kills


def test_a_browser_that_does_not_start_again(task: Task, expected: dict[str, bytes], tmp_path: Path) -> None:
    """The best so far is left, and the run goes on once there is a browser again."""
    programs = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable", "chrome")
    program = next(filter(None, map(shutil.which, programs)), None)
    if program is None:
        pytest.skip("no browser on PATH to be taken away")
    browser = tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    browser.chmod(0o755)
    words = [*task.words, "--browser", browser]
    child = children.start(*words, cwd=tmp_path)
    tool = psutil.Process(child.pid)
    while answered(tmp_path / "to") < 12 and child.poll() is None:
        time.sleep(0.002)
    away = browser.rename(tmp_path / "away")
    family = tool.children(recursive=True)
    for process in family:
        if kind_of(process) == "main":
            process.kill()
    _, err = child.communicate(timeout=300)
    assert child.returncode == 4, err
    assert "stopped: " in err
    assert "Traceback" not in err
    assert still_running(family) == []
    assert unusable(tmp_path / "to") == []
    summary = json.loads((tmp_path / "to" / "summary.json").read_text("utf-8"))
    assert summary["nodes_after"] < summary["nodes_before"]
    assert (summary["status"], summary["confirmed_fresh"]) == ("stopped", False)
    away.rename(browser)
    done = children.onnxreduce(*words, cwd=tmp_path, timeout=300)
    assert done.code == 0, done.err
    assert result_of(tmp_path / "to") == expected
