"""Oracles of the user's own: a command, or a Python function. What they find interesting is what is kept.

Exit codes follow C-Vise and Lithium (0 is interesting) and git bisect (125 is "cannot tell").
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxreduce import scratch
from onnxreduce.awake import communicate
from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle import guardian
from onnxreduce.oracle.signature import Kind, Signature, normalised
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict

COMMAND = "command:"
CANNOT_TELL = 125
DEFAULT_TIMEOUT = 300.0
INTERESTING = Signature(Kind.INTERESTING)

Answer = bool | str | None


class CustomOracle:
    """What both kinds share: no reference, no tolerance, one answer."""

    def __init__(self, name: str, timeout: float | None = None) -> None:
        self.name = name
        self.timeout = timeout or DEFAULT_TIMEOUT
        self.files: list[Path] = []

    def answer(self, model: onnx.ModelProto, inputs: Mapping[str, StoredTensor]) -> Verdict:
        """Judge a self-contained model with its inputs."""
        raise NotImplementedError

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        """See `Oracle.golden`."""
        verdict = self.judge(candidate)
        if recorded is not None:
            recorded()
        return Golden(verdict, 0.0, self.timeout)

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        """See `Oracle.judge`; every run is fresh."""
        begun = time.perf_counter()
        verdict = self.answer(candidate.model.with_weights_inside(), candidate.feeds)
        return replace(verdict, seconds=time.perf_counter() - begun)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """See `Oracle.describe`; `files` is a digest of the files that the oracle consists of."""
        facts = {"runtime": self.name}
        if self.files:
            facts["files"] = hashlib.blake2b(b"".join(map(_content, self.files)), digest_size=16).hexdigest()
        return {"suspect": facts, "reference": {}}

    def as_record(self) -> Mapping[str, Any]:
        """What `explain` needs to build this oracle again."""
        return {"custom": self.name, "timeout": self.timeout}

    def close(self) -> None:
        """Nothing is held."""


class CommandOracle(CustomOracle):
    """`command: PROGRAM ARGUMENTS` with `{model}` for the file and `{inputs}` for a folder with `input_N.pb`.

    Exit code 0 is interesting, 125 cannot tell, any other not. The command runs in a folder of its own, without a
    shell; words that name files are taken from where onnxreduce runs. Once the command ends, or at its time limit,
    which counts as cannot tell, all that it started is killed.
    """

    def __init__(self, text: str, timeout: float | None = None) -> None:
        super().__init__(text.strip(), timeout)
        try:
            self._words = shlex.split(text.strip().removeprefix(COMMAND))
        except ValueError as error:
            raise BadInputError(f"oracle {text!r}: {error}") from error
        if not self._words:
            raise BadInputError(f"oracle {text!r} names no command")
        program, *arguments = self._words
        if "/" in program or os.sep in program:
            program = str(Path(program).absolute())
        self._words = [program, *(str(Path(word).absolute()) if _is_file(word) else word for word in arguments)]
        self._mark = uuid.uuid4().hex
        self._guardian: subprocess.Popen[bytes] | None = None
        self.files = [Path(word) for word in self._words if _is_file(word)]

    def answer(self, model: onnx.ModelProto, inputs: Mapping[str, StoredTensor]) -> Verdict:
        """Write both, run the command, read its exit code."""
        with scratch.folder("command") as folder:
            onnx.save(model, folder / "model.onnx")
            data = folder / "test_data_set_0"
            data.mkdir()
            for at, value in enumerate(each for each in model.graph.input if each.name in inputs):
                (data / f"input_{at}.pb").write_bytes(inputs[value.name].to_proto(value.name).SerializeToString())
            places = {"{model}": str(folder / "model.onnx"), "{inputs}": str(data)}
            words = [_filled(word, places) for word in self._words]
            code = self._run(words, folder)
        if code == 0:
            return Verdict(Outcome.FAILS, INTERESTING)
        if code is None or code == CANNOT_TELL:
            return Verdict(Outcome.UNRESOLVED, message="the command cannot tell" if code else "the command hangs")
        return Verdict(Outcome.PASSES)

    def _run(self, words: list[str], folder: Path) -> int | None:
        mark = f"{self._mark} {uuid.uuid4().hex}"
        begun = time.time()
        self._guard()
        try:
            child = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, guardian.RUN: mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise SetupError(
                f"the oracle's command {words[0]!r} cannot be run: {os.strerror(error.errno or 0)}"
            ) from error
        try:
            communicate(child, self.timeout)
            return child.returncode
        except subprocess.TimeoutExpired:
            return None
        finally:
            _kill_all(child, mark, begun)

    def close(self) -> None:
        """Send the guardian away."""
        process, self._guardian = self._guardian, None
        if process is not None:
            process.communicate()

    def _guard(self) -> None:
        """See to it that no command outlives this process."""
        if self._guardian is None or self._guardian.poll() is not None:
            self._guardian = subprocess.Popen(
                [sys.executable, str(Path(guardian.__file__)), self._mark],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )


class FunctionOracle(CustomOracle):
    """`PATH.py:FUNCTION`, called with the model (`onnx.ModelProto`) and its inputs (arrays by name).

    It returns True (interesting), False, None (cannot tell), or a text: interesting, with the text as its message.
    It runs in this process; modules beside its file can be imported. What crashes or hangs belongs into a command.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        path_text, _, name = text.rpartition(":")
        path = Path(path_text)
        if not path.is_file():
            raise BadInputError(f"oracle {text!r}: no file {path_text}")
        spec = importlib.util.spec_from_file_location(f"onnxreduce_oracle_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        beside = str(path.absolute().parent)
        if beside not in sys.path:
            sys.path.append(beside)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise BadInputError(f"oracle {text!r} cannot be imported: {type(error).__name__}: {error}") from error
        function = getattr(module, name, None)
        if not callable(function):
            raise BadInputError(f"oracle {text!r}: {path.name} has no function {name!r}")
        self.files = [path]
        self._function: Callable[[onnx.ModelProto, Mapping[str, np.ndarray]], Answer] = function

    def answer(self, model: onnx.ModelProto, inputs: Mapping[str, StoredTensor]) -> Verdict:
        """Call the function; an exception of its own is told as a mistake in the oracle."""
        try:
            found: Any = self._function(model, {name: tensor.array for name, tensor in inputs.items()})
        except Exception as error:
            raise BadInputError(f"oracle {self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(found, (bool, np.bool_, str, type(None))):
            raise BadInputError(f"oracle {self.name} returned {found!r:.80}: it returns True, False, None or a text")
        if isinstance(found, str):
            return Verdict(Outcome.FAILS, Signature(Kind.INTERESTING, normalised(found)), message=found)
        if found is None:
            return Verdict(Outcome.UNRESOLVED, message="the function cannot tell")
        return Verdict(Outcome.FAILS, INTERESTING) if found else Verdict(Outcome.PASSES)


def custom(text: str, timeout: float | None = None) -> CustomOracle | None:
    """The oracle of a command or function, or None when the text is the name of another kind."""
    if text.startswith(COMMAND):
        return CommandOracle(text, timeout)
    if ".py:" in text:
        if timeout is not None:
            raise BadInputError("--timeout does not go with a function, which is not a process; use a command")
        return FunctionOracle(text)
    if text.endswith(".py"):
        raise BadInputError(f"oracle {text!r} names no function; write {text}:FUNCTION")
    return None


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # too long for a name
        return False


def _content(path: Path) -> bytes:
    try:
        return hashlib.blake2b(path.read_bytes()).digest()
    except OSError:
        return b""


def _kill_all(child: subprocess.Popen[bytes], mark: str, begun: float) -> None:
    """End the command and all that it started: its process group, and by their mark those that have left it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    elif child.poll() is None:
        child.kill()
    guardian.end_all(mark, begun)
    child.wait()
