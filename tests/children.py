"""The real console script in a child process, as a user at a terminal or in a pipeline has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

SCRIPT = Path(sys.executable).with_name("onnxreduce")
_NOT_PASSED_ON = ("COLUMNS", "FORCE_COLOR", "PYTEST_ADDOPTS")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> list[str]:
        """The lines in which the program speaks of an error."""
        return [line for line in self.err.splitlines() if line.startswith("onnxreduce: ")]


def onnxreduce(*args: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120) -> Done:
    """Run the command to its end; its whole process group is killed when it takes too long."""
    child = start(*args, cwd=cwd, env=env)
    try:
        out, err = child.communicate(timeout=timeout)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    return Done(child.returncode, out, err)


def start(*args: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, with the interrupt handling of a terminal's foreground."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    return subprocess.Popen(
        [str(SCRIPT), *map(str, args)],
        cwd=cwd,
        env={**inherited, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        preexec_fn=_interruptible,
    )


def interrupted(
    *args: str | Path, cwd: Path, when: Callable[[], bool], env: Mapping[str, str] | None = None, timeout: float = 120
) -> tuple[Done, list[psutil.Process]]:
    """Run the command, send the interrupt of Ctrl-C to its group once `when` holds, and wait for its end.

    Gives what it said, and those of its descendants that still run a moment later.
    """
    child = start(*args, cwd=cwd, env=env)
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + timeout
        while not when() and child.poll() is None:
            assert time.monotonic() < deadline, "the moment to interrupt never came"
            time.sleep(0.01)
        if child.poll() is None:
            family = psutil.Process(child.pid).children(recursive=True)
            os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=timeout)
    except BaseException:
        for process in [*family, psutil.Process(child.pid)]:
            process.kill()
        raise
    _, alive = psutil.wait_procs(family, timeout=5)
    return Done(child.returncode, out, err), [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
