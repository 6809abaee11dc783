"""What the tests hand to a page and read from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from page_cases import Case
from playwright.sync_api import Page

from onnxreduce import api, emit
from onnxreduce.errors import SetupError
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.verdict import Verdict
from onnxreduce.reduction.page import page_facts

VERSION = "1.27.0"
SUSPECT = {
    "target": f"ort-web@{VERSION}/webgpu",
    "runtime": "onnxruntime-web",
    "version": VERSION,
    "provider": "webgpu",
    "bundle": "ort.bundle.min.mjs",
}
REFERENCE = {**SUSPECT, "target": f"ort-web@{VERSION}/wasm", "provider": "wasm"}


class Rules:
    """Of an oracle what decides a verdict on the page."""

    name = "webgpu-vs-wasm"

    def __init__(self, tolerance: Tolerance | None = None, slower: float | None = None) -> None:
        self.tolerance = tolerance or Tolerance({"float32": 2e-3, "float16": 2e-2})
        self.slower = slower


def measure(case: Case) -> api.Check:
    """What the tool itself says of a model, in the software adapter."""
    model, feeds = case
    try:
        return api.check(model, "webgpu-vs-wasm", feeds, setup=Setup(adapter="software"))
    except SetupError as error:
        pytest.skip(f"nothing to run: {error}")


def page_text(
    case: Case,
    verdict: Verdict | None = None,
    *,
    suspect: dict[str, str] = SUSPECT,
    reference: dict[str, str] = REFERENCE,
    expected: dict[str, StoredTensor] | None = None,
    slower: float | None = None,
) -> str:
    """The page for a model, as a reduction writes it."""
    model, feeds = case
    summary = {
        "model": "model.onnx",
        "nodes_before": 7,
        "nodes_after": len(model.graph.node),
        "targets": {"suspect": suspect, "reference": reference},
    }
    facts = page_facts(summary, Rules(slower=slower), verdict, recorded=bool(expected))  # type: ignore[arg-type]
    stored = {name: StoredTensor.from_array(array) for name, array in feeds.items()}
    return emit.repro_page(model, stored, facts, expected)


@dataclass
class Served:
    """A folder and its address; `asked` are the paths that were asked for."""

    folder: Path
    address: str
    asked: list[str] = field(default_factory=list)

    def put(self, text: str, name: str = "repro.html") -> str:
        (self.folder / name).write_text(text, "utf-8")
        return f"{self.address}/{name}"


@dataclass
class Opened:
    """A page in a context of its own; `requests` are the addresses of all that it asked for."""

    page: Page
    requests: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def run(self) -> str:
        """Run it by keyboard, and the verdict line."""
        self.page.focus("#run")
        self.page.keyboard.press("Enter")
        return self.verdict()

    def verdict(self) -> str:
        self.page.wait_for_selector("#results[aria-busy=false]", timeout=60_000)
        return self.page.inner_text("#verdict")

    def figures(self, output: int) -> dict[str, list[str]]:
        """The table of an output: label, this page, as measured."""
        part = self.page.locator("#outputs > details").nth(output)
        rows = part.locator("table").first.locator("tbody tr").all()
        texts = [[cell.text_content() or "" for cell in row.locator("th, td").all()] for row in rows]
        return {row[0]: row[1:] for row in texts}
