"""A real fault in a real browser: every file is left, upstream's test shows it, and the report can be looked at."""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import children
import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright
from test_report_issue import WEB_FORM, headings, invented, numbers

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.packages import ort_web_package

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[3]
HARNESS = """<!doctype html><script src="dist/ort.min.js"></script><script>
let body;
const it = (name, run) => (body = run);
function assert(found) { if (!found) throw new Error('assertion'); }
</script><script src="browser_test.js"></script>"""
"""What mocha and common.js of upstream's js/web/test/e2e give to a test."""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command line leaves of a founding model."""
    folder = tmp_path_factory.mktemp("founding")
    subprocess.run([sys.executable, ROOT / "examples" / "founding_models.py", "-o", folder], check=True)
    data = ["--inputs", "synth_depth3.npz", "--passes", "dims,names"]
    done = children.onnxreduce("synth_depth3.onnx", *data, "-o", "to", cwd=folder, timeout=200)
    if done.code == SetupError.exit_code:
        pytest.skip(f"nothing to run it: {done.words[0]}")
    assert done.code == 0, done.err
    return folder / "to"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            found = find_browser(None, own=Path(playwright.chromium.executable_path))
            flags = launch_flags("software", headed=False)
            made = playwright.chromium.launch(
                executable_path=found.executable, args=flags, chromium_sandbox=sandbox_possible()
            )
        except (SetupError, Error) as error:
            pytest.skip(f"no browser to drive: {error}")
        yield made
        made.close()


@pytest.fixture
def served(left: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a folder with the test, its model and onnxruntime-web, as upstream's server has them."""
    for name in ("browser_test.js", "reduced.onnx"):
        (tmp_path / name).write_bytes((left / name).read_bytes())
    (tmp_path / "dist").symlink_to(ort_web_package("1.27.0").dist)
    (tmp_path / "index.html").write_text(HARNESS, "utf-8")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_every_file_is_left(left: Path) -> None:
    names = {path.name for path in left.iterdir()}
    assert names >= {
        "issue.md",
        "repro.zip",
        "report.html",
        "browser_test.js",
        "steps",
        "neighbourhood.json",
        "repro.html",
        "build_repro.py",
    }
    assert not names & {"operator_test.jsonc", "test_repro.py"}


def test_the_issue_is_ready_to_be_filed(left: Path) -> None:
    text = (left / "issue.md").read_text("utf-8")
    summary = json.loads((left / "summary.json").read_text("utf-8"))
    assert headings(text) == WEB_FORM
    assert text.startswith("<!-- Title: [Web] WebGPU: numeric mismatch in 4 nodes (Cast, Div, ReduceMean, Add) -->")
    assert summary["adapter"] in text.replace("\\", "")
    assert "7 → 4" in text
    assert "Open `repro.html`" in text
    assert len(numbers(text)) > 40
    assert invented(left, text) == []


def run(page: Page, address: str) -> str:
    """What the test throws, if anything."""
    page.goto(address)
    thrown: str = page.evaluate("async () => { try { await body(); return ''; } catch (e) { return String(e); } }")
    return thrown


def test_the_browser_test_fails_where_the_fault_is_and_passes_where_it_is_not(
    browser: Browser, served: str, tmp_path: Path
) -> None:
    with browser.new_context() as context:
        assert "instead of" in run(context.new_page(), served)
    path = tmp_path / "browser_test.js"
    right = path.read_text("utf-8").replace('"webgpu"', '"wasm"')
    path.write_text(right, "utf-8")
    with browser.new_context() as context:
        assert run(context.new_page(), served) == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_can_be_looked_at(browser: Browser, left: Path, width: int, scheme: str) -> None:
    with browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:  # type: ignore[arg-type]
        page = context.new_page()
        told: list[str] = []
        page.on("console", lambda message: told.append(message.text))
        page.goto((left / "report.html").as_uri())
        assert told == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("svg").count() == 4
        drawn = page.locator("svg").evaluate_all("all => all.every(each => each.getBoundingClientRect().height > 50)")
        assert drawn
        ground, ink = (page.evaluate(f"getComputedStyle(document.body).{key}") for key in ("backgroundColor", "color"))
        assert (brightness(ground) > brightness(ink)) is (scheme == "light")
        assert abs(brightness(ground) - brightness(ink)) > 150
        clipped = page.locator("svg.drawing text").evaluate_all(
            "all => all.filter(t => !t.classList.contains('value')).filter(t => "
            "t.getBoundingClientRect().width > t.parentNode.querySelector('rect').getBoundingClientRect().width).length"
        )
        assert clipped == 0


def brightness(colour: str) -> float:
    """Of a CSS colour `rgb(r, g, b)`, 0 to 255."""
    return sum(map(float, colour[4:-1].split(","))) / 3
