"""A page as a reader opens it: Chromium, a folder with the package beside the page, served by Python's own server."""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from page_cases import Case
from playwright.sync_api import Browser, Page, sync_playwright

from onnxreduce import api, emit
from onnxreduce.errors import SetupError
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.verdict import Verdict
from onnxreduce.reduction.page import page_facts
from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.packages import ort_web_package

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

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


@pytest.fixture(scope="module")
def dist() -> Path:
    try:
        return ort_web_package(VERSION).dist
    except SetupError as error:
        pytest.skip(f"no package to run: {error}")


@pytest.fixture(scope="module")
def served(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "node_modules" / "onnxruntime-web").mkdir(parents=True)
    (folder / "node_modules" / "onnxruntime-web" / "dist").symlink_to(dist)
    found = Served(folder, "")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code: object = "-", size: object = "-") -> None:
            found.asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.address = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            found = find_browser(None, own=Path(playwright.chromium.executable_path))
        except SetupError as error:
            pytest.skip(f"no browser to drive: {error}")
        yield playwright.chromium.launch(
            executable_path=found.executable,
            channel=found.channel,
            args=launch_flags("software", headed=False),
            chromium_sandbox=sandbox_possible(),
        )


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


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens an address; options are those of a browser context."""
    contexts = []

    def open_page(address: str, **options: object) -> Opened:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        found = Opened(context.new_page())
        context.on("request", lambda request: found.requests.append(request.url))
        context.on("weberror", lambda error: found.mistakes.append(str(error.error)))
        found.page.goto(address)
        return found

    yield open_page
    for context in contexts:
        context.close()
