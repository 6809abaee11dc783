"""Python ONNX Runtime in a child process, which may crash, hang or be killed without taking the search with it."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
from onnx import TensorProto

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.base import RunRequest, RunResult, Status
from onnxreduce.runtimes.target import Target

_WORKER = Path(__file__).with_name("ort_worker.py")
_START_SECONDS = 120.0
_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "dml": "DmlExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
}
_LEVELS = ("disabled", "basic", "extended", "all")


class PythonOrt:
    """The `ort/...` targets: `level=` and `disabled_optimizers=` and `threads=` are understood as options."""

    def __init__(self, target: Target, python: str = sys.executable) -> None:
        self.target = target
        self._python = python
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._spool = Path(tempfile.mkdtemp(prefix="onnxreduce-ort-"))
        self._hello: dict[str, Any] = {}
        provider = target.provider or "cpu"
        self._provider = _PROVIDERS.get(provider, provider)
        if target.options.get("level", "all") not in _LEVELS:
            raise BadInputError(f"{target}: level is one of {', '.join(_LEVELS)}")

    def run(self, request: RunRequest, *, timeout: float, fresh: bool = False) -> RunResult:
        """Run a model once; `fresh` starts a new process. See `Runtime.run`."""
        folder = Path(tempfile.mkdtemp(dir=self._spool))
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
        providers = [self._provider] if self._provider == "CPUExecutionProvider" else [self._provider, "CPUExecutionProvider"]
        config = {}
        if "disabled_optimizers" in self.target.options:
            disabled = self.target.options["disabled_optimizers"].replace(",", ";")
            config["optimization.disable_specified_optimizers"] = disabled
        job = {
            "model": str(model),
            "feeds": {name: self._describe(tensor) for name, tensor in request.feeds.items()},
            "external": self._external(request),
            "outputs": list(request.outputs),
            "folder": str(folder),
            "level": self.target.options.get("level", "all"),
            "threads": int(self.target.options.get("threads", 0)),
            "config": config,
            "providers": providers,
        }
        answer = self._ask(job, timeout)
        if isinstance(answer, Status):
            text = "no answer in time" if answer is Status.HANG else self._last_words()
            return RunResult(answer, message=text, seconds_run=timeout if answer is Status.HANG else 0.0), []
        if answer["status"] == "no provider":
            raise SetupError(f"{self.target}: {answer['message']}")
        seconds = answer["seconds"]
        if answer["status"] != "ok":
            status = Status.CREATE_ERROR if answer["status"] == "create" else Status.RUN_ERROR
            return RunResult(status, message=answer["message"], seconds_create=seconds[0]), []
        outputs = {o["name"]: _array(o) for o in answer["outputs"] if "elem_type" in o} if load else {}
        return RunResult(Status.OK, outputs, "", seconds[0], seconds[1]), answer["outputs"]

    def describe(self) -> Mapping[str, str]:
        """Runtime, version and provider."""
        self._start()
        return {"runtime": "onnxruntime (Python)", "version": self._hello["version"], "provider": self._provider}

    def close(self) -> None:
        """End the child process and remove its files."""
        self._stop()
        shutil.rmtree(self._spool, ignore_errors=True)

    def _start(self) -> None:
        if self._child is not None and self._child.poll() is None:
            return
        self._stderr = (self._spool / "stderr.txt").open("wb")
        self._child = subprocess.Popen(
            [self._python, str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._answers = queue.Queue()
        threading.Thread(target=_pump, args=(self._child, self._answers), daemon=True).start()
        hello = self._next(_START_SECONDS)
        if isinstance(hello, Status):
            words = self._last_words()
            self._stop()
            raise SetupError(f"Python onnxruntime does not start: {words or 'no answer'}; try: pip install onnxruntime")
        self._hello = hello

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        try:
            family = psutil.Process(child.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        child.kill()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        child.wait()
        for stream in (child.stdin, child.stdout, self._stderr):
            try:
                if stream:
                    stream.close()
            except OSError:
                continue

    def _ask(self, job: dict[str, Any], timeout: float) -> dict[str, Any] | Status:
        assert self._child is not None and self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(job) + "\n")
            self._child.stdin.flush()
        except OSError:
            self._stop()
            return Status.DEAD
        return self._next(timeout)

    def _next(self, timeout: float) -> dict[str, Any] | Status:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            self._stop()
            return Status.HANG
        if line is None:
            self._stop()
            return Status.DEAD
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        text = (self._spool / "stderr.txt").read_text("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else "the process ended without a word"

    def _external(self, request: RunRequest) -> dict[str, Any]:
        if not request.external:
            return {}
        proto = onnx.load_model_from_string(request.model)
        described: dict[str, Any] = {}
        for tensor in proto.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                location = next(entry.value for entry in tensor.external_data if entry.key == "location")
                stored = StoredTensor(tensor.data_type, tuple(tensor.dims), request.external[location])
                described[tensor.name] = self._describe(stored)
        return described

    def _describe(self, tensor: StoredTensor) -> dict[str, Any]:
        if tensor.elem_type == TensorProto.STRING:
            return {"strings": tensor.array.ravel().tolist(), "shape": list(tensor.shape)}
        path, offset = self._file_of(tensor.blob)
        return {
            "path": str(path),
            "offset": offset,
            "length": tensor.blob.length,
            "elem_type": tensor.elem_type,
            "shape": list(tensor.shape),
        }

    def _file_of(self, blob: Blob) -> tuple[Path, int]:
        if blob.path is not None:
            return blob.path, blob.offset
        path = self._spool / blob.digest
        if not path.exists():
            path.write_bytes(blob.view())
        return path, 0


def stored_output(output: Mapping[str, Any], blob: Blob | None = None) -> StoredTensor:
    """An output described by the worker as a tensor by reference to its file (or to `blob`, its moved content)."""
    if "strings" in output:
        return StoredTensor.from_array(np.array(output["strings"], dtype=object).reshape(output["shape"]))
    return StoredTensor(output["elem_type"], tuple(output["shape"]), blob or Blob.from_file(Path(output["path"])))


def _array(output: Mapping[str, Any]) -> np.ndarray:
    if "strings" in output:
        return np.array(output["strings"], dtype=object).reshape(output["shape"])
    dtype = onnx.helper.tensor_dtype_to_np_dtype(output["elem_type"])
    return np.fromfile(output["path"], dtype=dtype).reshape(output["shape"])


def _pump(child: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert child.stdout is not None
    try:
        for line in child.stdout:
            answers.put(line)
    except (OSError, ValueError):
        pass
    answers.put(None)
