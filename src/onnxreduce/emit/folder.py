"""Write the folder that leaves as evidence, each file whole or not at all, and run its script as a reader would."""

from __future__ import annotations

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

from onnxreduce.emit.canonical import stored, tensors
from onnxreduce.emit.page import PAGE_NAME
from onnxreduce.emit.script import MAX_INLINE_BYTES, Script
from onnxreduce.errors import OnnxReduceError
from onnxreduce.graph.input_files import feed_names, ordered_inputs, read_inputs
from onnxreduce.graph.inputs import named_inputs
from onnxreduce.graph.model import Model
from onnxreduce.graph.tensors import Blob, StoredTensor

SCRIPT_NAME = "build_repro.py"
MODEL_NAME = "reduced.onnx"
DATA_SET = "test_data_set_0"

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
    files = {f"input_{position}.pb": inputs[name].to_proto(name) for position, name in enumerate(names)}
    for position, name in enumerate(outputs):
        if name in expected:
            files[f"output_{position}.pb"] = expected[name].to_proto(name)
    for name, proto in files.items():
        write_atomically(folder / DATA_SET / name, proto.SerializeToString())
    _remove_others(folder / DATA_SET, r"(in|out)put_\d+\.pb", files)


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

    Each file is written whole or not at all, and files that an earlier call left for a larger model are removed.
    `external` gives the content of tensors with external data; the written model has it inside, or in
    `reduced.onnx.data` when it is more than 1 GiB. Raises TypeError when `summary` is not JSON.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False, sort_keys=False) + "\n"
    _write_model(folder, model, external or {})
    write_test_data_set(folder, model, inputs, expected)
    for name, tensor in script.data.items():
        if not name.startswith(f"{DATA_SET}/"):
            write_atomically(folder / name, tensor.to_proto("").SerializeToString())
    _remove_others(folder / "weights", r"\d+_[\w-]+\.pb", {Path(name).name for name in script.data})
    write_atomically(folder / SCRIPT_NAME, script.text.encode())
    if page is None:
        (folder / PAGE_NAME).unlink(missing_ok=True)
    else:
        write_atomically(folder / PAGE_NAME, page.encode())
    write_atomically(folder / "summary.json", text.encode())


def run_script(folder: Path, timeout: float) -> tuple[onnx.ModelProto, dict[str, StoredTensor]]:
    """Run the folder's `build_repro.py` in a child process and load the model and the inputs that it wrote.

    The child works in a temporary folder under a clean environment, for `timeout` seconds at most. Raises
    OnnxReduceError with the last line of its error output when it fails, hangs, or leaves nothing usable.
    """
    script = (folder / SCRIPT_NAME).resolve()
    environment = {name: value for name, value in os.environ.items() if _KEPT_VARIABLES.fullmatch(name)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    with tempfile.TemporaryDirectory(prefix="onnxreduce-") as place:
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OnnxReduceError(f"{SCRIPT_NAME} did not end within {timeout:g} seconds") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise OnnxReduceError(f"{SCRIPT_NAME} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
        try:
            model = onnx.load(Path(place) / "model.onnx")
        except (OSError, DecodeError, onnx.checker.ValidationError) as error:
            raise OnnxReduceError(f"{SCRIPT_NAME} left no model that can be loaded: {error}") from error
        given = read_inputs(Path(place) / "inputs.npz", ordered_inputs(model))
    return model, named_inputs(model, given)


def _write_model(folder: Path, model: onnx.ModelProto, external: Mapping[str, Blob]) -> None:
    whole = Model(model, external).with_weights_inside()
    if sum(stored(each, external).blob.length for each in tensors(model)) <= MAX_INLINE_BYTES:
        write_atomically(folder / MODEL_NAME, whole.SerializeToString())
        (folder / f"{MODEL_NAME}.data").unlink(missing_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".model.") as place:
        onnx.save(whole, Path(place) / MODEL_NAME, save_as_external_data=True, location=f"{MODEL_NAME}.data")
        for name in (f"{MODEL_NAME}.data", MODEL_NAME):
            (Path(place) / name).replace(folder / name)


def _remove_others(folder: Path, pattern: str, kept: Collection[str]) -> None:
    for file in folder.glob("*.pb"):
        if re.fullmatch(pattern, file.name) and file.name not in kept:
            file.unlink()
