"""Reductions that are killed, stopped, robbed of their processes, their disk or their runtime: they go on to one end.

The real command with real runtimes, in processes of its own; `benchmarks/survival.py` kills it hundreds of times.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import children
import faults
import psutil
import pytest
from killed import (
    Tally,
    Task,
    answered,
    kill_helpers,
    kill_until_done,
    paid_twice,
    result_of,
    still_running,
    undisturbed,
    unusable,
)  # fmt: skip

from onnxreduce import scratch

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals")]

KILLS = 5
Ending = tuple[dict[str, bytes], float]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("task")
    model, _ = faults.save(faults.hosted(4, 4), folder)
    (folder / "levels.toml").write_text(faults.LEVELS)
    return Task(model, ["--oracle", folder / "levels.toml", "--passes", "dims,names"])


@pytest.fixture(scope="module")
def ending(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """Result and seconds of a run that nothing disturbs."""
    return undisturbed(task, tmp_path_factory.mktemp("ending") / "run")


def wait_for(what: Callable[[], bool], child: subprocess.Popen[str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert child.poll() is None, child.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.005)


def goes_on(task: Task, folder: Path, ending: Ending) -> None:
    """The same command ends with the same bytes, and pays for one verdict twice at most."""
    done = children.onnxreduce(*task.words, "--resume", cwd=folder)
    assert done.code == 0, done.err
    assert "going on with an earlier run" in done.err
    assert result_of(folder / "to") == ending[0]
    assert paid_twice(folder / "to" / "journal.jsonl")[0] <= 1


def test_kills_at_random_moments(task: Task, ending: Ending, tmp_path: Path) -> None:
    """The first while the original is judged."""
    tally, rng = Tally(), random.Random(6)
    verdicts = [0, *sorted(rng.sample(range(2, 30), KILLS - 1))]
    moments = [(rng.uniform(0.4, 0.5) if at == 0 else rng.uniform(0, 0.03), at) for at in verdicts]
    kill_until_done(task, tmp_path / "run", ending[0], moments, tally)
    assert tally.good, tally
    assert tally.kills == KILLS
    assert tally.paid_twice <= tally.kills


def test_a_request_to_end_keeps_the_best_so_far(task: Task, tmp_path: Path) -> None:
    child = children.start(*task.words, cwd=tmp_path)
    wait_for(lambda: answered(tmp_path / "to") >= 20, child)
    family = psutil.Process(child.pid).children(recursive=True)
    child.terminate()
    _, err = child.communicate(timeout=120)
    assert child.returncode == 4, err
    assert "interrupted" in err
    assert still_running(family) == []
    summary = json.loads((tmp_path / "to" / "summary.json").read_text("utf-8"))
    assert (summary["status"], summary["confirmed_fresh"]) == ("stopped", True)


def test_children_that_are_killed_change_nothing(task: Task, ending: Ending, tmp_path: Path) -> None:
    """Workers of the reference, the suspect and the recorder, at any moment, their start included."""
    rng, tally = random.Random(3), Tally()
    moments = [(at, rng.uniform(0, 0.05), "worker") for at in (0, *sorted(rng.sample(range(3, 30, 3), 5)))]
    kill_helpers(task, tmp_path / "run", ending[0], moments, tally)
    assert tally.good, tally
    assert tally.kills == 6


SLEEPER = "#!/bin/sh\nsleep 1.2\n"


def test_time_in_which_nothing_ran_is_no_time(tmp_path: Path) -> None:
    """All processes stand still for longer than the limit, as in a container that is paused: no hang is seen."""
    model, data = faults.save(faults.healthy(), tmp_path)
    command = tmp_path / "sleeper.sh"
    command.write_text(SLEEPER)
    command.chmod(0o755)
    args = ["check", model, "--inputs", data, "--oracle", f"command: {command}", "--timeout", "3"]
    child = children.start(*args, cwd=tmp_path)
    tool = psutil.Process(child.pid)
    wait_for(lambda: any(each.name() == "sleep" for each in tool.children(recursive=True)), child)
    everyone = [tool, *tool.children(recursive=True)]
    for each in everyone:
        each.suspend()
    time.sleep(5)
    for each in everyone[:1] + everyone[:0:-1]:  # the tool first: it must not take the others' delay for a hang
        each.resume()
    out, err = child.communicate(timeout=60)
    assert (child.returncode, "fails" in out) == (1, True), err


def test_a_command_does_not_outlive_a_tool_that_was_killed(tmp_path: Path) -> None:
    model, data = faults.save(faults.healthy(), tmp_path)
    command = tmp_path / "forker.sh"
    command.write_text("#!/bin/sh\nsetsid sleep 601 &\nsleep 602\n")
    command.chmod(0o755)
    child = children.start("check", model, "--inputs", data, "--oracle", f"command: {command}", cwd=tmp_path)
    tool = psutil.Process(child.pid)

    def asleep() -> list[psutil.Process]:
        return [each for each in tool.children(recursive=True) if each.name() == "sleep"]

    wait_for(lambda: len(asleep()) == 2, child)
    family = tool.children(recursive=True)
    child.kill()
    child.communicate()
    assert len(family) >= 4
    assert still_running(family) == []


DEADLY = """
import os, signal
from pathlib import Path

def wrong(model, inputs):
    kinds = [node.op_type for node in model.graph.node]
    if kinds == ["Div"]:
        with Path({log!r}).open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return "Sqrt" in kinds and "Div" in kinds
"""


def test_a_candidate_that_takes_the_tool_down_is_passed_over(task: Task, tmp_path: Path) -> None:
    """The first run dies of it, the second too; the third passes it over and comes to an end."""
    log = tmp_path / "deaths"
    (tmp_path / "deadly.py").write_text(DEADLY.format(log=str(log)))
    args = [task.model, "--inputs", task.model.with_suffix(".npz"), "--oracle", "deadly.py:wrong", "-o", "to"]
    runs = [children.onnxreduce(*args, "--passes", "", "--no-explain", cwd=tmp_path) for _ in range(3)]
    summary = json.loads((tmp_path / "to" / "summary.json").read_text("utf-8"))
    assert [each.code for each in runs] == [-signal.SIGKILL, -signal.SIGKILL, 0], runs[-1].err
    assert (log.read_text(), summary["passed_over"]) == ("xx", 1)
    assert summary["operators"] == ["Sqrt", "Div"]


@contextlib.contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A file system of its own with so many bytes."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place]
    made = subprocess.run(words, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_is_full_is_told_and_can_be_emptied(task: Task, ending: Ending, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2 << 20) as disk:
        child = children.start(*task.words, cwd=disk)
        wait_for(lambda: answered(disk / "to") >= 12, child)
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        out, err = child.communicate(timeout=120)
        words = [line for line in err.splitlines() if line.startswith("onnxreduce: ")]
        assert (child.returncode, len(words)) == (3, 1), err
        assert "No space left on device" in words[0]
        assert "the same command goes on" in words[0]
        assert "Traceback" not in err + out
        assert unusable(disk / "to") == []
        (disk / "filler").unlink()
        goes_on(task, disk, ending)


@pytest.mark.skipif(shutil.which("chattr") is None or os.name != "posix", reason="no chattr")
def test_a_folder_that_can_no_longer_be_written_is_told(task: Task, ending: Ending, tmp_path: Path) -> None:
    child = children.start(*task.words, cwd=tmp_path)
    try:
        wait_for(lambda: answered(tmp_path / "to") >= 12, child)
        frozen = subprocess.run(["chattr", "-R", "+i", tmp_path / "to"], capture_output=True, check=False)
        if frozen.returncode:
            child.kill()
            pytest.skip(f"files cannot be made immutable here: {frozen.stderr.decode().strip()}")
        _, err = child.communicate(timeout=120)
    finally:
        subprocess.run(["chattr", "-R", "-i", tmp_path / "to"], capture_output=True, check=False)
    words = [line for line in err.splitlines() if line.startswith("onnxreduce: ")]
    assert (child.returncode, len(words)) == (3, 1), err
    assert "Operation not permitted" in words[0]
    assert unusable(tmp_path / "to") == []
    goes_on(task, tmp_path, ending)


def test_a_second_run_in_the_folder_is_refused_while_the_first_lives(task: Task, tmp_path: Path) -> None:
    child = children.start(*task.words, cwd=tmp_path)
    try:
        wait_for(lambda: (tmp_path / "to" / "journal.jsonl").exists(), child)
        child.send_signal(signal.SIGSTOP)
        for more in ((), ("--force",)):
            second = children.onnxreduce(*task.words, *more, cwd=tmp_path)
            assert (second.code, len(second.words)) == (2, 1), second.err
            assert "another run is under way" in second.words[0]
    finally:
        child.kill()
        child.communicate()
    third = children.start(*task.words, cwd=tmp_path)
    wait_for(lambda: answered(tmp_path / "to") > 0, third)  # the lock has died with its owner
    third.kill()
    third.communicate()


SCRATCH = "import sys, time; from onnxreduce import scratch; print(scratch.make('x'), flush=True); time.sleep(60)"


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    made = [
        subprocess.Popen([sys.executable, "-c", SCRATCH], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead, living = (Path(child.stdout.readline().strip()) for child in made if child.stdout)
    made[0].kill()
    made[0].communicate()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        scratch.clear()
        assert sorted(tmp_path.iterdir()) == sorted([dead, living]), "one so young may not be locked yet"
        for folder in (dead, living):
            os.utime(folder / ".in-use", (0, 0))
        scratch.clear()
        assert list(tmp_path.iterdir()) == [living]
    finally:
        made[1].kill()
        made[1].communicate()
