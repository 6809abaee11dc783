"""A result folder, read for its report: what is missing or damaged is empty, never invented."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import onnx
from google.protobuf.message import DecodeError

from onnxreduce.emit.folder import DATA_SET, MODEL_NAME, SCRIPT_NAME
from onnxreduce.emit.neighbourhood import NEIGHBOURHOOD
from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_files import feed_names
from onnxreduce.graph.tensors import StoredTensor

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """What a reduction, and `explain` where it was asked, have left in a folder.

    `model` has its structure; tensors in a file of their own stay there. `inputs` and `expected` hold the test data
    set by name. `calls` and `steps` are the journal's lines on verdicts and on accepted candidates.
    """

    folder: Path
    summary: Json
    explanation: Json
    calls: Sequence[Json]
    steps: Sequence[Json]
    neighbourhood: Json
    model: onnx.ModelProto
    inputs: Mapping[str, StoredTensor]
    expected: Mapping[str, StoredTensor]
    script: str = field(repr=False)

    @property
    def suspect(self) -> Json:
        """Facts on the target that fails."""
        return dict(self.summary.get("targets", {}).get("suspect", {}))

    @property
    def reference(self) -> Json:
        """Facts on the target that is right."""
        return dict(self.summary.get("targets", {}).get("reference", {}))

    @property
    def in_browser(self) -> bool:
        """Whether the suspect is onnxruntime-web."""
        return self.suspect.get("runtime") == "onnxruntime-web"

    @property
    def in_python(self) -> bool:
        """Whether the suspect is Python's onnxruntime."""
        return self.suspect.get("runtime") == "onnxruntime (Python)"

    @cached_property
    def wrong(self) -> set[str]:
        """Names of the outputs that differ, as the emitted model was judged."""
        return {each["output"] for each in self.summary.get("outputs", []) if each.get("kind")}

    def has(self, name: str) -> bool:
        """Whether the folder holds a file of this name."""
        return (self.folder / name).is_file()


def options(target: Json) -> dict[str, str]:
    """What stands behind the question mark of a target's words."""
    return dict(parse_qsl(str(target.get("target", "")).partition("?")[2], keep_blank_values=True))


def read_facts(folder: Path) -> Facts:
    """Read a folder; raises BadInputError when `summary.json` or `reduced.onnx` cannot be read."""
    try:
        model = onnx.load(folder / MODEL_NAME, load_external_data=False)
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
    except (OSError, ValueError, DecodeError) as error:
        raise BadInputError(f"{folder} cannot be reported on: {error}") from error
    lines = _lines(folder / "journal.jsonl")
    return Facts(
        folder,
        summary,
        _json(folder / "explanation.json"),
        [line for line in lines if "call" in line],
        [line for line in lines if "step" in line],
        _json(folder / NEIGHBOURHOOD),
        model,
        _inputs(folder, model),
        _expected(folder, model),
        _text(folder / SCRIPT_NAME),
    )


def _json(path: Path) -> Json:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(path: Path) -> list[Json]:
    """The journal's lines; one that was cut short by a crash is passed over."""
    found: list[Json] = []
    for line in _text(path).splitlines():
        try:
            each = json.loads(line)
        except ValueError:
            continue
        if isinstance(each, dict):
            found.append(each)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _inputs(folder: Path, model: onnx.ModelProto) -> dict[str, StoredTensor]:
    tensors = (_tensor(folder / DATA_SET / f"input_{at}.pb") for at in range(len(model.graph.input)))
    given = {tensor.name: StoredTensor.from_proto(tensor) for tensor in tensors if tensor is not None}
    known = {value.name for value in model.graph.input}
    return {name: given[name] for name in feed_names(model, known & given.keys())}


def _expected(folder: Path, model: onnx.ModelProto) -> dict[str, StoredTensor]:
    tensors = {at: _tensor(folder / DATA_SET / f"output_{at}.pb") for at in range(len(model.graph.output))}
    return {
        model.graph.output[at].name: StoredTensor.from_proto(tensor)
        for at, tensor in tensors.items()
        if tensor is not None
    }


def _tensor(path: Path) -> onnx.TensorProto | None:
    try:
        return onnx.load_tensor(path)
    except (OSError, DecodeError):
        return None
