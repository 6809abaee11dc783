"""Write the folder that leaves as evidence, each file whole or not at all, and run its script as a reader would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from onnxreduce import scratch
from onnxreduce.awake import communicate
from onnxreduce.emit.canonical import stored, tensors
from onnxreduce.emit.page import PAGE_NAME
from onnxreduce.emit.script import MAX_INLINE_BYTES, Script
from onnxreduce.emit.together import drop, together
from onnxreduce.emit.variant import PASSING_DATA, PASSING_MODEL
from onnxreduce.errors import OnnxReduceError
from onnxreduce.graph.input_files import feed_names, ordered_inputs, read_inputs
from onnxreduce.graph.inputs import named_inputs
from onnxreduce.graph.model import Model
from onnxreduce.graph.tensors import Blob, StoredTensor

SCRIPT_NAME = "build_repro.py"
MODEL_NAME = "reduced.onnx"
DATA_SET = "test_data_set_0"

_REPLACED = {
    DATA_SET: r"(in|out)put_\d+\.pb",
    "weights": r"\d+_[\w-]+\.pb",
    ".": f"{re.escape(MODEL_NAME)}\\.data|{re.escape(PAGE_NAME)}",
}

_KEPT_VARIABLES = re.compile(
    r"PATH|HOME|USERPROFILE|APPDATA|SYSTEMROOT|TEMP|TMP|TMPDIR|LANG|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|(DY)?LD_LIBRARY_PATH",
    re.IGNORECASE,
)
"""Environment variables that a Python process needs to start and to find the same packages."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name beside it and move it into place; raises OSError when that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_test_data_set(
    folder: Path,
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    expected: Mapping[str, StoredTensor],
    name: str = DATA_SET,
) -> None:
    """Write `test_data_set_0/input_N.pb` and `output_N.pb` as ONNX's own test data is laid out.

    Inputs count from 0 in the model's order, those that override an initializer behind the others; an output's number
    is its position in the model, and outputs without an expected tensor have no file. Each tensor carries its name.
    Files of an earlier, larger data set are removed. Raises ValueError for a name that the model does not have.
    """
    outputs = [value.name for value in model.graph.output]
    if unknown := set(expected) - set(outputs):
        raise ValueError(f"no graph output is named {sorted(unknown)}")
    names = feed_names(model, inputs)
    files = {f"input_{at}.pb": inputs[each].to_proto(each) for at, each in enumerate(names)}
    files |= {f"output_{at}.pb": expected[each].to_proto(each) for at, each in enumerate(outputs) if each in expected}
    for file, proto in files.items():
        write_atomically(folder / name / file, proto.SerializeToString())
    _remove_others(folder / name, r"(in|out)put_\d+\.pb", files)


def write_reduction(
    folder: Path,
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    expected: Mapping[str, StoredTensor],
    script: Script,
    summary: Mapping[str, Any],
    *,
    external: Mapping[str, Blob] | None = None,
    page: str | None = None,
) -> None:
    """Write `reduced.onnx`, the test data set, `build_repro.py` with its data files, `repro.html` if there is a
    `page`, and `summary.json` last.

    All are replaced together (see `together`), and files that an earlier call left for a larger model are removed.
    `external` gives the content of tensors with external data; the written model has it inside, or in
    `reduced.onnx.data` when it is more than 1 GiB. Raises TypeError when `summary` is not JSON.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False, sort_keys=False) + "\n"
    with together(folder, _REPLACED) as new:
        _write_model(new, model, external or {})
        write_test_data_set(new, model, inputs, expected)
        for name, tensor in script.data.items():
            if not name.startswith(f"{DATA_SET}/"):
                write_atomically(new / name, tensor.to_proto("").SerializeToString())
        (new / SCRIPT_NAME).write_bytes(script.text.encode())
        if page is not None:
            (new / PAGE_NAME).write_bytes(page.encode())
        (new / "summary.json").write_bytes(text.encode())


def discard(folder: Path) -> None:
    """Take away what an earlier run has written that says what it came to: another one begins here."""
    drop(folder)
    for name in ("summary.json", MODEL_NAME, f"{MODEL_NAME}.data", SCRIPT_NAME, PAGE_NAME):
        (folder / name).unlink(missing_ok=True)


def write_passing(
    folder: Path,
    script: Script,
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    expected: Mapping[str, StoredTensor],
    external: Mapping[str, Blob],
) -> None:
    """Write the nearest model that is right beside the failing one: `passing.onnx`, its data set, and the script."""
    _write_model(folder, model, external, PASSING_MODEL)
    write_test_data_set(folder, model, inputs, expected, PASSING_DATA)
    write_atomically(folder / SCRIPT_NAME, script.text.encode())


def remove_passing(folder: Path) -> None:
    """Take away what `write_passing` left, but for the script."""
    for name in (PASSING_MODEL, f"{PASSING_MODEL}.data"):
        (folder / name).unlink(missing_ok=True)
    _remove_others(folder / PASSING_DATA, r"(in|out)put_\d+\.pb", ())
    with contextlib.suppress(OSError):
        (folder / PASSING_DATA).rmdir()


def run_script(folder: Path, timeout: float, *arguments: str) -> tuple[onnx.ModelProto, dict[str, StoredTensor]]:
    """Run the folder's `build_repro.py` in a child process and load the model and the inputs that it wrote.

    `arguments` are the script's. The child works in a temporary folder under a clean environment, for `timeout` seconds
    at most. Raises OnnxReduceError with the last line of its error output when it fails, hangs, or leaves nothing that
    can be used.
    """
    script = (folder / SCRIPT_NAME).resolve()
    environment = {name: value for name, value in os.environ.items() if _KEPT_VARIABLES.fullmatch(name)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    with scratch.folder("script") as place:
        command = [sys.executable, str(script), *arguments]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        ) as child:
            try:
                _, said = communicate(child, timeout)
            except BaseException as error:
                child.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise OnnxReduceError(f"{SCRIPT_NAME} did not end within {timeout:g} seconds") from None
                raise
        if child.returncode:
            lines = said.decode(errors="replace").strip().splitlines()
            raise OnnxReduceError(f"{SCRIPT_NAME} failed: {lines[-1] if lines else f'exit code {child.returncode}'}")
        try:
            model = onnx.load(place / "model.onnx")
        except (OSError, DecodeError, onnx.checker.ValidationError) as error:
            raise OnnxReduceError(f"{SCRIPT_NAME} left no model that can be loaded: {error}") from error
        given = read_inputs(place / "inputs.npz", ordered_inputs(model))
    return model, named_inputs(model, given)


def _write_model(folder: Path, model: onnx.ModelProto, external: Mapping[str, Blob], name: str = MODEL_NAME) -> None:
    whole = Model(model, external).with_weights_inside()
    if sum(stored(each, external).blob.length for each in tensors(model)) <= MAX_INLINE_BYTES:
        write_atomically(folder / name, whole.SerializeToString())
        (folder / f"{name}.data").unlink(missing_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".model.") as place:
        onnx.save(whole, Path(place) / name, save_as_external_data=True, location=f"{name}.data")
        for file in (f"{name}.data", name):
            (Path(place) / file).replace(folder / file)


def _remove_others(folder: Path, pattern: str, kept: Collection[str]) -> None:
    for file in folder.glob("*.pb"):
        if re.fullmatch(pattern, file.name) and file.name not in kept:
            file.unlink()
