"""Reductions that are killed outright again and again, and what is left of them each time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import children
import onnx
import psutil

Moment = tuple[float, int]
"""So many seconds after there are so many verdicts in the journal."""
GONE_SECONDS = 15.0
"""For all that a killed tool has started to end; a busy machine schedules late."""


@dataclass(frozen=True)
class Task:
    """A command that reduces `model` into the folder `to`."""

    model: Path
    arguments: Sequence[str | Path]

    @property
    def words(self) -> list[str | Path]:
        """Arguments of the command."""
        return [self.model, "--inputs", self.model.with_suffix(".npz"), *self.arguments, "-o", "to", "--no-explain"]


@dataclass
class Tally:
    """What came of the kills, and of the runs that ended after them."""

    kills: int = 0
    ended: int = 0
    differing: list[str] = field(default_factory=list)
    paid_twice: int = 0
    passed_over: int = 0
    left_running: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)

    @property
    def good(self) -> bool:
        """Whether every run ended well, with the result of an undisturbed one, and nothing was left running."""
        return not (self.differing or self.left_running or self.unusable) and set(self.codes) <= {0}


def result_of(folder: Path) -> dict[str, bytes]:
    """The reduced model and its data set, byte by byte."""
    files = [folder / "reduced.onnx", *sorted((folder / "test_data_set_0").glob("*.pb"))]
    return {file.name: file.read_bytes() for file in files}


def undisturbed(task: Task, folder: Path) -> tuple[dict[str, bytes], float]:
    """The result of a run that nobody kills, and its seconds."""
    folder.mkdir(parents=True)
    begun = time.monotonic()
    done = children.onnxreduce(*task.words, cwd=folder, timeout=900)
    assert done.code == 0, done.err
    return result_of(folder / "to"), time.monotonic() - begun


def kill_until_done(
    task: Task, folder: Path, expected: dict[str, bytes], moments: Iterable[Moment], tally: Tally
) -> None:
    """Run, kill at a moment, go on with the same command, until a run ends by itself.

    Every other time the whole process group is killed.
    """
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    for seconds, verdicts in moments:
        child = children.start(*task.words, cwd=folder, env={"TMPDIR": str(temporary)})
        while answered(folder / "to") < verdicts and child.poll() is None:
            time.sleep(0.005)
        end = time.monotonic() + seconds
        while time.monotonic() < end and child.poll() is None:
            time.sleep(0.005)
        if child.poll() is not None:
            break
        family = psutil.Process(child.pid).children(recursive=True)
        if tally.kills % 2:
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        tally.kills += 1
        tally.left_running += still_running(family)
        tally.unusable += unusable(folder / "to")
    else:
        child = children.start(*task.words, cwd=folder, env={"TMPDIR": str(temporary)})
    _finished(child, folder, expected, tally)


def _finished(child: subprocess.Popen[str], folder: Path, expected: dict[str, bytes], tally: Tally) -> None:
    _, err = child.communicate(timeout=900)
    tally.ended += 1
    tally.codes[child.returncode] += 1
    asked, skipped = paid_twice(folder / "to" / "journal.jsonl")
    tally.paid_twice += asked
    tally.passed_over += skipped
    if child.returncode:
        tally.differing.append(f"{folder}: {err[-1500:]}")
    elif result_of(folder / "to") != expected:
        tally.differing.append(f"{folder}: another result")


def kill_helpers(
    task: Task, folder: Path, expected: dict[str, bytes], moments: Iterable[tuple[int, float, str]], tally: Tally
) -> None:
    """One run under which a process of a kind (see `kind_of`) is killed so long after each of some verdicts."""
    folder.mkdir(parents=True)
    child = children.start(*task.words, cwd=folder)
    tool = psutil.Process(child.pid)
    for verdicts, seconds, kind in moments:
        while answered(folder / "to") < verdicts and child.poll() is None:
            time.sleep(0.002)
        time.sleep(seconds)
        while child.poll() is None:
            found = [each for each in _descendants(tool) if kind_of(each) == kind]
            if found:
                with contextlib.suppress(psutil.Error):
                    found[-1].kill()  # the latest
                    tally.kills += 1
                break
    _finished(child, folder, expected, tally)


def kind_of(process: psutil.Process) -> str:
    """`worker`, or of a browser's processes `main`, `gpu-process`, `renderer`, ...; of others nothing."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    if any(word.endswith("_worker.py") for word in words):
        return "worker"
    kinds = [word.partition("=")[2] for word in words if word.startswith("--type=")]
    return kinds[0] if kinds else "main" if any(word.startswith("--onnxreduce-browser=") for word in words) else ""


def still_running(family: Sequence[psutil.Process]) -> list[str]:
    """Of these processes, those that do not end although the tool is gone."""
    end = time.monotonic() + GONE_SECONDS
    while (left := [each for each in family if _runs(each)]) and time.monotonic() < end:
        time.sleep(0.02)
    names = [_name(each) for each in left]
    for each in left:
        each.kill()
    return names


def unusable(folder: Path) -> list[str]:
    """What is wrong with the best so far in a folder, if there is one: a model that does not go with its inputs."""
    model = folder / "reduced.onnx"
    if not model.exists():
        return []
    try:
        proto = onnx.load(model)
        onnx.checker.check_model(proto)
        given = {
            tensor.name: (tensor.data_type, list(tensor.dims))
            for tensor in map(onnx.load_tensor, (folder / "test_data_set_0").glob("input_*.pb"))
        }
        weights = {tensor.name for tensor in proto.graph.initializer}
        wanted = {value.name for value in proto.graph.input} - weights
        json.loads((folder / "summary.json").read_text("utf-8"))
    except Exception as error:
        return [f"{folder}: {type(error).__name__} {error}"]
    return [] if wanted <= set(given) else [f"{folder}: inputs {sorted(given)} for {sorted(wanted)}"]


def paid_twice(journal: Path) -> tuple[int, int]:
    """Questions that were put to the oracle and got no verdict before they were put again; and those passed over."""
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    asked = sum("asks" in line for line in lines)
    answered = sum("key" in line for line in lines)
    skipped = sum("it is passed over" in line.get("message", "") for line in lines)
    withdrawn = sum("withdrawn" in line for line in lines)
    return asked - withdrawn - (answered - skipped), skipped


def answered(folder: Path) -> int:
    """Verdicts in a folder's journal."""
    journal = folder / "journal.jsonl"
    return journal.read_text("utf-8").count('"call"') if journal.exists() else 0


def _descendants(tool: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return list(tool.children(recursive=True))
    return []


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return str(process.pid)
