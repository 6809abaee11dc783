"""The loop of every worker: it tells what it is, then answers each line with a line, and ends with its parent.

Used beside a script by Pythons as old as 3.8; it imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def answer_all(introduce: Callable[[], dict[str, Any]], run: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer one line for each line until standard input ends; whatever else is printed goes to standard error."""
    with contextlib.suppress(OSError):  # where memory ends, Linux shall take this process and not the search
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(json.dumps(introduce()) + "\n")
    answers.flush()
    for line in sys.stdin:
        job = json.loads(Path(json.loads(line)).read_text("utf-8"))
        answers.write(json.dumps(run(job)) + "\n")
        answers.flush()


def timed_again(work: Callable[[], Any], job: dict[str, Any]) -> list[float]:
    """The seconds of each of the further runs that a job asks for; none begins once they have taken too long."""
    seconds: list[float] = []
    while len(seconds) < job["repeats"] and sum(seconds) < job["repeat_seconds"]:
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds


def limit_memory(mebibytes: int | None) -> None:
    """Let allocations fail beyond a limit, where the system has one on a process's own memory."""
    if not mebibytes:
        return
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        kind = resource.RLIMIT_DATA if sys.platform.startswith("linux") else resource.RLIMIT_AS
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (mebibytes << 20, hard))


def _leave_with_parent() -> None:
    """End when the parent is gone, also in the middle of a run."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
