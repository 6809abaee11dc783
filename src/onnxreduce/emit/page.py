"""`repro.html`: one file that runs the reduced model in a browser, reference against suspect, and shows what differs.

Its code lies in `page/` and in `runtimes/browser/page/`: the page runs a model with the very code that the tool runs
it with. Nothing in the file points anywhere; the reader names the package onnxruntime-web.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import onnx
from onnx import ModelProto

from onnxreduce.graph.anchor import anchor_model
from onnxreduce.graph.input_files import feed_names
from onnxreduce.graph.tensors import StoredTensor

PAGE_NAME = "repro.html"
MAX_PAGE_BYTES = 32 << 20
"""Most bytes of model and tensors together that go into a page; as base64 they are 4/3 of it."""

_FOLDERS = (("onnxreduce.emit", "page"), ("onnxreduce.runtimes.browser", "page"))
_IMPORT = re.compile(r"^import \{[^}]*\} from '\./(\w+\.js)';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async function|function|class|const|let)\b)", re.MULTILINE)
_STYLES = ("repro.css", "results.css")
_MOST_NODES = 200
_LONGEST_NODE = 400
# Scripts: ours, and what it makes addresses for. Fetching: wherever the reader says the package is.
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}' blob: 'wasm-unsafe-eval'; style-src 'sha256-{style}'; "
    "worker-src blob:; connect-src http: https: blob:; img-src data:; base-uri 'none'; form-action 'none'"
)


def repro_page(
    model: ModelProto,
    inputs: Mapping[str, StoredTensor],
    facts: Mapping[str, Any],
    expected: Mapping[str, StoredTensor] | None = None,
) -> str:
    """The page as HTML; the same arguments give the same text.

    `model` has its weights inside. `facts` is JSON: `title`, `lines` (sentences), `suspect`, `reference`, `rules`
    and `measured` (see `reduction.page`). `expected`: outputs to stand for a reference that no browser runs.
    """
    data = {
        "model": _base64(model.SerializeToString()),
        "anchor": _base64(anchor_model().SerializeToString()),
        "inputs": [_tensor(name, inputs[name]) for name in feed_names(model, inputs)],
        "outputs": [value.name for value in model.graph.output],
        "expected": [_tensor(name, tensor) for name, tensor in expected.items()] if expected else None,
    }
    script, style = _joined("repro.js"), "\n".join(_read(name) for name in _STYLES)
    parts = {
        "POLICY": _POLICY.format(script=_hash(script), style=_hash(style)),
        "STYLE": style,
        "FACTS": _json({**facts, "nodes": _nodes(model)}),
        "DATA": _json(data),
        "WORKER": "'use strict';\n" + _joined("worker.js"),
        "SCRIPT": script,
    }
    return re.sub("@@([A-Z]+)@@", lambda match: parts[match[1]], _read("repro.html"))


def page_bytes(model: ModelProto, *tensors: StoredTensor, weights: int = 0) -> int:
    """Bytes that a page would hold; `weights` are those outside of the model's protobuf."""
    return int(model.ByteSize()) + weights + sum(tensor.blob.length for tensor in tensors)


def _tensor(name: str, tensor: StoredTensor) -> dict[str, Any]:
    kind = {"float": "float32", "double": "float64"}.get(tensor.dtype_name, tensor.dtype_name)
    return {"name": name, "type": kind, "dims": list(tensor.shape), "base64": _base64(bytes(tensor.blob.view()))}


def _nodes(model: ModelProto) -> list[str]:
    """The nodes in ONNX's own text syntax, for reading."""
    nodes = model.graph.node
    lines = [" ".join(onnx.printer.to_text(node).split()) for node in nodes[:_MOST_NODES]]
    lines = [line if len(line) <= _LONGEST_NODE else f"{line[:_LONGEST_NODE]} …" for line in lines]
    return lines if len(nodes) <= _MOST_NODES else [*lines, f"… and {len(nodes) - _MOST_NODES} more nodes"]


def _json(value: object) -> str:
    """JSON that cannot end the element it stands in: there is no `<` in it."""
    return json.dumps(value, indent=1, allow_nan=False).replace("<", "\\u003c")


@cache
def _read(name: str) -> str:
    for package, folder in _FOLDERS:
        file = resources.files(package) / folder / name
        if file.is_file():
            return file.read_text("utf-8")
    raise FileNotFoundError(name)


@cache
def _joined(name: str) -> str:
    """A module and all that it imports as one script, each file once and before those that need it.

    The files keep to a form that allows it: named imports and exports, and no name twice at the top level.
    """
    order: dict[str, str] = {}

    def visit(each: str) -> None:
        if each in order:
            return
        text = _read(each)
        for needed in _IMPORT.findall(text):
            visit(needed)
        order[each] = f"// {each}\n{_EXPORT.sub('', _IMPORT.sub('', text))}"

    visit(name)
    return "\n".join(order.values())


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
