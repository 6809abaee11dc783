"""A page as a reader opens it: Chromium, a folder with the package beside the page, served by Python's own server."""

from __future__ import annotations

import functools
import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_reader import VERSION, Opened, Served
from playwright.sync_api import Browser, sync_playwright

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.packages import ort_web_package

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


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
