"""A runtime in a child process, which may crash, hang or be killed without taking the search with it.

The child runs a worker script: one line in (a JSON string: the path of a job, itself a JSON file), one JSON line out,
the first of which tells what it is. Tensors travel as files.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import psutil

from onnxreduce.awake import Patience
from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes.base import REPEAT_SECONDS, RunRequest, RunResult, Status
from onnxreduce.runtimes.memory import says_no_memory
from onnxreduce.runtimes.spool import Spool, array_of
from onnxreduce.runtimes.target import Target

_START_SECONDS = 120.0
_EXIT_SECONDS = 2.0
_LAUNCHES = 3
_KILLED = -9  # SIGKILL, from somebody or for want of memory


class ChildRuntime:
    """Starts a worker when it is first needed, feeds it jobs, and kills it with all that it started.

    `seconds_start` adds up the seconds spent on starting processes, up to their first word.

    `memory` limits what the child may hold, in MiB; a run that needs more is reported as OUT_OF_MEMORY.
    """

    name = "the runtime"

    def __init__(self, target: Target, memory: int | None = None) -> None:
        self.target = target
        self._memory = memory
        self._child: subprocess.Popen[str] | None = None
        self._stderr: IO[bytes] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._spool = Spool()
        self._hello: dict[str, Any] = {}
        self._exit = 0
        self._heard = 0
        self.seconds_start = 0.0

    def run(self, request: RunRequest, *, timeout: float, fresh: bool = False) -> RunResult:
        """Run a model once; `fresh` starts a new process. See `Runtime.run`."""
        folder = Path(tempfile.mkdtemp(dir=self._spool.folder))
        try:
            return self.run_into(request, folder, timeout=timeout, fresh=fresh)[0]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run_into(
        self, request: RunRequest, folder: Path, *, timeout: float, fresh: bool = False, load: bool = True
    ) -> tuple[RunResult, list[dict[str, Any]]]:
        """Run a model and leave its outputs as files in `folder`; returns the descriptions beside the result.

        With `load` false the result holds no arrays, so that nothing large is held in memory.
        """
        if fresh:
            self._stop()
        self._start()
        model = folder / "model.onnx"
        model.write_bytes(request.model)
        job = {
            "model": str(model),
            "feeds": {name: self._spool.described(tensor) for name, tensor in request.feeds.items()},
            "external": self._spool.external(request),
            "outputs": list(request.outputs),
            "folder": str(folder),
            "repeats": request.repeats,
            "repeat_seconds": REPEAT_SECONDS,
            **self._job(),
        }
        file = folder / "job.json"
        file.write_text(json.dumps(job), "utf-8")
        answer = self._ask(file, timeout)
        if isinstance(answer, Status):
            if answer is Status.HANG:
                return RunResult(answer, message="no answer in time", seconds_run=timeout), []
            return self._death(), []
        if answer["status"] == "setup":
            raise SetupError(f"{self.target}: {answer['message']}")
        seconds = answer["seconds"]
        if answer["status"] != "ok":
            if says_no_memory(answer["message"]):
                self._stop()
                return self._no_memory(answer["message"]), []
            if answer["status"] == "answer":
                raise SetupError(f"{self.target}: the outputs cannot be written: {answer['message']}")
            status = Status.CREATE_ERROR if answer["status"] == "create" else Status.RUN_ERROR
            return RunResult(status, message=answer["message"], seconds_create=seconds[0]), []
        outputs = {o["name"]: array_of(o) for o in answer["outputs"] if "elem_type" in o} if load else {}
        return RunResult(Status.OK, outputs, "", seconds[0], seconds[1], seconds[2:]), answer["outputs"]

    def close(self) -> None:
        """End the child process and remove its files."""
        self._stop()
        self._spool.close()

    def _command(self) -> list[str]:
        """What starts the worker."""
        raise NotImplementedError

    def _environment(self) -> Mapping[str, str]:
        """Variables of the worker beside our own."""
        return {}

    def _accept(self, hello: Mapping[str, Any]) -> None:
        """Raise SetupError where the worker that says this cannot serve the target."""

    def _job(self) -> dict[str, Any]:
        """What a job holds beside model, tensors and outputs."""
        return {}

    def _advice(self) -> str:
        """What to do when the worker does not start."""
        return ""

    def _start(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        begun = time.monotonic()
        try:
            for _ in range(_LAUNCHES):
                hello = self._launched()
                if not (hello is Status.DEAD and self._exit == _KILLED):  # the worker itself does not end so
                    break
            if isinstance(hello, Status):
                raise SetupError(f"{self.name} does not start: {self._death().message}{self._advice()}")
            self._hello = hello
            self._accept(hello)
            self.seconds_start += time.monotonic() - begun
        except BaseException:  # also an interrupt: what the child says first would be taken for an answer
            self._stop()
            raise

    def _launched(self) -> dict[str, Any] | Status:
        """What a new child says of itself."""
        self._stop()
        self._exit = self._heard = 0
        self._stderr = (self._spool.folder / "stderr.txt").open("wb")
        self._child = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            env={**os.environ, **self._environment()},
            start_new_session=True,
        )
        self._answers = queue.Queue()
        threading.Thread(target=_pump, args=(self._child, self._answers), daemon=True).start()
        return self._next(_START_SECONDS)

    def _stop(self) -> None:
        """End the child with all that it started, whether it still lives or has died before them."""
        child, self._child = self._child, None
        if child is None:
            return
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            family = psutil.Process(child.pid).children(recursive=True)
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, self._stderr):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()

    def _ask(self, job: Path, timeout: float) -> dict[str, Any] | Status:
        assert self._child is not None and self._child.stdin is not None
        self._heard = (self._spool.folder / "stderr.txt").stat().st_size
        try:
            try:
                self._child.stdin.write(json.dumps(str(job)) + "\n")
                self._child.stdin.flush()
            except OSError:  # it died since the last answer
                self._answers.put(None)
            return self._next(timeout)
        except BaseException:  # an interrupt: an answer that is on its way would be taken for the next one
            self._stop()
            raise

    def _next(self, timeout: float) -> dict[str, Any] | Status:
        line = self._line(timeout)
        if line is Status.HANG:
            self._stop()
            return Status.HANG
        if not isinstance(line, str):
            with contextlib.suppress(subprocess.TimeoutExpired):  # it may close its output and live on
                self._exit = self._child.wait(_EXIT_SECONDS) if self._child else 0
            self._stop()
            return Status.DEAD
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _line(self, timeout: float) -> str | Status | None:
        """The next line; None when the child is dead, which shows late where its own children hold the pipe."""
        patience = Patience(timeout)
        while True:
            dead = self._child is None or self._child.poll() is not None
            look = patience.look
            try:
                return self._answers.get(timeout=look)
            except queue.Empty:
                if dead:
                    return None
                if not look:
                    return Status.HANG

    def _death(self) -> RunResult:
        """How a child ended: by which signal, and the last line that it wrote since it was asked."""
        text = (self._spool.folder / "stderr.txt").read_bytes()[self._heard :].decode("utf-8", "replace").strip()
        said = text.splitlines()[-1] if text else "it ended without a word"
        if says_no_memory(said):
            return self._no_memory(said)
        if self._exit >= 0:
            return RunResult(Status.DEAD, message=said)
        try:
            name = signal.Signals(-self._exit).name
        except ValueError:
            name = f"signal {-self._exit}"
        reason = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return RunResult(Status.DEAD, message=f"{name}{reason}: {said}")

    def _no_memory(self, said: str) -> RunResult:
        limit = "" if self._memory is None else f" (limit {self._memory} MiB)"
        return RunResult(Status.OUT_OF_MEMORY, message=f"out of memory{limit}: {' '.join(said.split())}")


def megabytes(target: Target) -> int | None:
    """The limit that a target sets by `memory=MIB`; raises BadInputError when it is no number."""
    text = target.options.get("memory")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadInputError(f"{target}: memory is a number of MiB above 0")
    return int(text)


def _pump(child: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert child.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        for line in child.stdout:
            if line.endswith("\n"):  # half a line is what a process leaves that dies while it answers
                answers.put(line)
    answers.put(None)
