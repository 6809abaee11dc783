"""Ends what commands have started once the process is gone that would have done so. Also a script, with psutil alone.

Its argument is the beginning of a mark in the environment of those processes. It waits until its standard input ends,
as it does with the process at the other end of the pipe, however that was ended.
"""

from __future__ import annotations

import contextlib
import sys

import psutil

RUN = "ONNXREDUCE_RUN"
"""In the environment of a command: tells what it started, also what has left its process group and its parent."""
CLOCK_SLACK = 2.0
"""Seconds by which a process may seem to have started before it did."""


def end_all(mark: str, begun: float = 0.0) -> None:
    """Kill all processes whose mark begins so, and that were started at `begun` or later (seconds since the epoch)."""
    while marked := _marked(mark, begun):  # again: one may have started another meanwhile
        for process in marked:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(marked, timeout=1.0)


def _marked(mark: str, begun: float) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                process.create_time() > begun - CLOCK_SLACK
                and process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get(RUN, "").startswith(mark)
            ):
                found.append(process)
    return found


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(sys.argv[1])
