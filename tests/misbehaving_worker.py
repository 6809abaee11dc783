"""A worker of Python ONNX Runtime that misbehaves on every model that holds a node of a certain name. A script.

Arguments: what it does (`segfault`, `hang`, `memory`, `flaky`, `slow`, `healthy`), the name, the real worker, the real
worker's own arguments. Before it misbehaves it starts a child of its own, which must not be left behind.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

KIND, PLANTED, WORKER = sys.argv[1:4]
sys.argv[1:] = sys.argv[4:]
sys.path.insert(0, str(Path(WORKER).parent))

import ort_worker  # noqa: E402

right = ort_worker.run
real_session = ort_worker.session


class Slow:
    """A session that takes 60 ms more for each run; to create it takes no longer."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run_with_ort_values(self, *args: Any) -> Any:
        time.sleep(0.06)
        return self.session.run_with_ort_values(*args)


def slowed(*args: Any) -> Slow:
    return Slow(real_session(*args))


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Answer as the real worker does, unless the node is there."""
    if PLANTED.encode() not in Path(job["model"]).read_bytes():
        return right(job)
    subprocess.Popen(["sleep", "600"])
    if KIND == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif KIND == "hang":
        time.sleep(600)
    elif KIND == "memory":
        held = []
        while True:
            held.append(b"x" * (32 << 20))
    elif KIND == "slow":
        ort_worker.session = slowed
        try:
            return right(job)
        finally:
            ort_worker.session = real_session
    answer = right(job)
    if KIND == "flaky" and random.random() < 0.5:
        for output in answer["outputs"]:
            spoil(Path(output["path"]), output["shape"])
    return answer


def spoil(path: Path, shape: list[int]) -> None:
    """Change every element: a bit of the exponent, or the last one of a byte."""
    data = np.fromfile(path, np.uint8).reshape(max(int(np.prod(shape)), 1), -1)
    data[:, -1] ^= 0x40 if data.shape[1] > 1 else 1
    data.tofile(path)


ort_worker.run = run
ort_worker.main()
