"""What a reduction leaves for browsers, opened as a reader opens it: a file, a browser, the package onnxruntime-web."""

from __future__ import annotations

import functools
import http.server
import json
import math
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from playwright.sync_api import Browser, Error, Page, sync_playwright

from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.browser.ort_web import page_settings
from onnxreduce.runtimes.packages import ort_web_package
from onnxreduce.runtimes.target import Target

Json = Mapping[str, Any]
SIDES = ("suspect", "reference")
PATIENCE = 300_000  # milliseconds; a software adapter on a machine that does other work too

FIGURES = """() => Object.fromEntries([...document.querySelectorAll('#outputs > details')].map((part) => [
  part.querySelector('h3').textContent,
  Object.fromEntries([...part.querySelector('table tbody').rows].map((row) => [
    row.cells[0].textContent,
    [...row.cells].slice(1).map((cell) => cell.querySelector('data')?.value ?? cell.textContent),
  ])),
]))"""
"""By output and label, the cells of its table: this page, as measured. Numbers with all their digits."""

HARNESS = """<!doctype html><script src="dist/{script}"></script><script>
let body;
const it = (name, run) => (body = run);
function assert(found) {{ if (!found) throw new Error('assertion'); }}
const create = ort.InferenceSession.create;
const other = {options};
if (other) ort.InferenceSession.create = (model) => create.call(ort.InferenceSession, model, other);
</script><script src="browser_test.js"></script>"""
"""What mocha and common.js of upstream's js/web/test/e2e give to a test; `options` in place of the test's own."""
THROWN = "async () => { try { await body(); return ''; } catch (error) { return String(error?.message ?? error); } }"


@contextmanager
def opened(summary: Json) -> Iterator[Browser]:
    """A browser with an adapter of the kind that the reduction had."""
    kind = "software" if summary.get("adapter_software") == "yes" or not summary.get("adapter") else "hardware"
    with sync_playwright() as playwright:
        found = find_browser(None, own=Path(playwright.chromium.executable_path))
        browser = playwright.chromium.launch(
            executable_path=found.executable,
            channel=found.channel,
            args=launch_flags(kind, headed=False),
            chromium_sandbox=sandbox_possible(),
        )
        try:
            yield browser
        finally:
            browser.close()


def page_reproduces(browser: Browser, folder: Path, summary: Json) -> list[str]:
    """What is wrong with `repro.html`, alone in a folder and opened as a file, beside what the tool measured."""
    with tempfile.TemporaryDirectory(prefix="onnxreduce-page-") as alone, browser.new_context() as context:
        file = Path(shutil.copy(folder / "repro.html", alone))
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(file.as_uri())
        for side in sides(page, summary):
            version = summary["targets"][side]["version"]
            slot = "package" if side == "suspect" else "reference-package"
            page.set_input_files(f"#{slot}-folder", str(ort_web_package(version).dist.parent))
        page.fill("#limit", str(PATIENCE // 1000))
        page.click("#run")
        page.wait_for_selector("#results[aria-busy=false]")
        wrong = verdict_differs(page, summary)
        for each in summary["outputs"]:
            wrong += figures_differ(page.evaluate(FIGURES).get(each["output"], {}), each)
        fetched = [url for url in asked if url != file.as_uri() and not url.startswith(("blob:", "data:"))]
        return wrong + [f"fetched {url}" for url in fetched]


def sides(page: Page, summary: Json) -> list[str]:
    """The sides whose package the page wants."""
    targets = summary["targets"]
    recorded = page.input_value("#reference-provider") == "recorded"
    one = recorded or targets["suspect"]["version"] == targets["reference"]["version"]
    return ["suspect"] if one else ["suspect", "reference"]


def verdict_differs(page: Page, summary: Json) -> list[str]:
    """The verdict beside that of the reduced model."""
    line = page.inner_text("#verdict")
    kind = summary["signature_reduced"].partition(": ")[0]
    shown = page.get_attribute("#verdict", "data-kind")
    wrong = []
    if page.get_attribute("#verdict", "class") != "fails" or shown != kind:
        wrong.append(f"{line!r} instead of {kind}")
    if not line.endswith("This is the fault that onnxreduce measured."):
        wrong.append(f"the verdict says {line!r}")
    told = page.inner_text("#errors")
    for text in summary["message_reduced"].splitlines()[:1]:
        if text not in told:
            wrong.append(f"the error is {told[:200]!r} instead of {text!r}")
    return wrong


def figures_differ(rows: Mapping[str, list[str]], measured: Json) -> list[str]:
    """Where the page's own figures of an output, or those that it shows as measured, are not the tool's."""
    wanted = {
        "Verdict": measured["kind"] or "agrees",
        "Type": "string" if measured["dtype"] == "object" else measured["dtype"],
        "Shape": str(list(measured["shape"])),
        "Largest absolute difference": measured["absolute"],
        "Relative to scale": measured["relative"],
        "Wrong elements": f"{measured['wrong']} of {measured['total']}",
        "Cosine similarity": measured["cosine"],
        "Units in the last place": "–" if measured["ulp"] is None else str(measured["ulp"]),
        "NaN or Inf": str(measured["not_finite"]),
        "First wrong index": str(measured["first"]) if measured["wrong"] and not measured["note"] else "–",
    }
    if measured["samples"] and measured["kind"]:
        _, right, given = measured["samples"][0]
        wanted |= {"Reference there": right, "Suspect there": given}
    wrong = []
    for label, value in wanted.items():
        cells = rows.get(label, [])
        near = 1e-6 if label in ROUNDED else 0.0
        if len(cells) != 2 or not all(same(cell, value, near) for cell in cells):
            wrong.append(f"output {measured['output']}: {label} is {cells} instead of {value}")
    return wrong


ROUNDED = ("Cosine similarity", "Reference there", "Suspect there")
"""The cosine is summed in another order there; single values are shown with seven digits."""


def same(shown: str, value: Any, near: float) -> bool:
    """Whether a cell says a value: numbers are equal as numbers, or differ by the share `near` at most."""
    if value is None:
        return shown in ("–", "not finite")
    try:
        one, other = float(shown), float(value)
    except ValueError:
        plain = {"True": "1", "False": "0", "inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
        return shown in (str(value), plain.get(str(value)))
    return math.isclose(one, other, rel_tol=near) or (math.isnan(one) and math.isnan(other))


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A folder over HTTP."""

    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def log_message(self, *_: object) -> None:
        """Nothing."""


def browser_test_reproduces(browser: Browser, folder: Path, summary: Json) -> list[str]:
    """What is wrong with `browser_test.js`, which is to throw with its options and not with the reference's."""
    suspect, reference = (page_settings(Target.parse(summary["targets"][side]["target"])) for side in SIDES)
    script = "ort.min.js" if suspect["bundle"] == "default" else f"ort.{suspect['bundle']}.min.js"
    options = {
        "executionProviders": [{**reference["provider_options"], "name": reference["provider"]}],
        **reference["session"],
    }
    with tempfile.TemporaryDirectory(prefix="onnxreduce-test-") as alone:
        for name in ("browser_test.js", "reduced.onnx"):
            shutil.copy(folder / name, alone)
        place = Path(alone)
        (place / "dist").symlink_to(ort_web_package(summary["targets"]["suspect"]["version"]).dist)
        (place / "suspect.html").write_text(HARNESS.format(script=script, options="null"), "utf-8")
        (place / "reference.html").write_text(HARNESS.format(script=script, options=json.dumps(options)), "utf-8")
        thrown = {side: _thrown(browser, place, f"{side}.html") for side in SIDES}
    wrong = []
    first = next(iter(summary["message_reduced"].splitlines()), "")
    shown = ("instead of", "assertion") if "error at" not in summary["signature_reduced"] else (first,)
    if not any(word in thrown["suspect"] for word in shown):
        wrong.append(f"the suspect throws {thrown['suspect'][:200]!r}")
    if thrown["reference"]:
        wrong.append(f"the reference throws {thrown['reference'][:200]!r}")
    return wrong


def _thrown(browser: Browser, folder: Path, name: str) -> str:
    """What the test on a page throws, if anything."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser.new_context() as context:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/{name}")
            thrown: str = page.evaluate(THROWN)
            return thrown
        except Error as error:
            return f"the page: {error.message}"
        finally:
            server.shutdown()
