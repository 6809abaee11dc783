"""The page in a real Chromium: what the tool measured, to the last digit, and nothing fetched but the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import page_cases as cases
import pytest
from page_reader import REFERENCE, SUSPECT, VERSION, Opened, Served, measure, page_text

from onnxreduce.errors import SetupError
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference
from onnxreduce.runtimes.packages import ort_web_package

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
PACKAGE = "node_modules/onnxruntime-web/dist/"


def same_figures(opened: Opened, at: int, found: Difference) -> None:
    """What the page shows of an output, from its own run and as measured, is what the tool says of it."""
    rows = opened.figures(at)
    kind = found.kind.value if found.kind else "agrees"
    dtype = "string" if found.dtype == "object" else found.dtype
    for column in (0, 1):
        assert rows["Verdict"][column] == kind
        assert rows["Type"][column] == dtype
        assert rows["Shape"][column] == str(list(found.shape))
        assert rows["Wrong elements"][column] == f"{found.wrong} of {found.total}"
        assert rows["NaN or Inf"][column] == str(found.not_finite)
        assert float(rows["Largest absolute difference"][column]) == float(f"{found.absolute:.7g}")
        assert float(rows["Relative to scale"][column]) == float(f"{found.relative:.7g}")
        if found.wrong and not found.note:
            assert rows["First wrong index"][column] == str(list(found.first))
        assert rows["Units in the last place"][column] == ("–" if found.ulp is None else str(found.ulp))
        if found.cosine is not None:
            assert float(rows["Cosine similarity"][column]) == pytest.approx(found.cosine, abs=1e-7)
    numbers = opened.page.locator("#outputs > details").nth(at).locator("data").all()
    figures = [float(each.get_attribute("value") or "nan") for each in numbers]
    assert figures[:4] == [*[found.absolute] * 2, *[found.relative] * 2]


def test_the_founding_fault_shows_with_the_figures_of_the_tool(opened: Open, served: Served) -> None:
    case = cases.founding()
    check = measure(case)
    verdict = check.golden.verdict
    served.asked.clear()
    page = opened(served.put(page_text(case, verdict, suspect=check.targets["suspect"])), color_scheme="dark")
    assert page.page.input_value("#package-address") == f"./{PACKAGE}"
    assert page.page.input_value("#suspect-provider") == "webgpu"
    assert page.page.input_value("#reference-provider") == "wasm"
    for _ in range(30):
        page.page.keyboard.press("Tab")
        if page.page.evaluate("document.activeElement.id") == "run":
            break
    page.page.keyboard.press("Enter")
    assert page.verdict() == (
        "Fails: numeric mismatch, 1 of 2 outputs wrong. This is the fault that onnxreduce measured."
    )
    assert page.page.evaluate("document.activeElement.id") == "run"
    assert [each.output for each in verdict.differences] == ["D", "ad"]
    for at, difference in enumerate(verdict.differences):
        same_figures(page, at, difference)
    right, given = ([float(text) for text in page.figures(0)[f"{side} there"]] for side in ("Reference", "Suspect"))
    assert right == [0, 0]
    assert given[0] == given[1] > 1000
    where = page.page.inner_text("#environment")
    for words in (VERSION, "ort.bundle.min.mjs", "ort-wasm-simd-threaded.jsep.wasm", "swiftshader", "Chrome/"):
        assert words in where
    assert check.targets["suspect"]["adapter"] in where
    assert sorted(served.asked) == [
        f"/{PACKAGE}ort-wasm-simd-threaded.jsep.wasm",
        f"/{PACKAGE}ort.bundle.min.mjs",
        "/repro.html",
    ]
    assert [url for url in page.requests if not url.startswith((f"{served.address}/", "blob:", "data:"))] == []
    assert page.mistakes == []


FAILURES = {
    "wrong shape": (cases.wrong_shape, "expected [1, 3, 5, 4]", ""),
    "shader error": (cases.shader_error, "", "GPUValidationError"),
    "error at run": (cases.run_error, "", "ceil()"),
    "": (cases.agrees, "", ""),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_every_class_of_failure_is_told_as_the_tool_tells_it(opened: Open, served: Served, kind: str) -> None:
    make, note, error = FAILURES[kind]
    verdict = measure(make()).golden.verdict
    assert kind == (verdict.signature.kind.value if verdict.signature else "")
    page = opened(served.put(page_text(make(), verdict)))
    line = page.run()
    if kind:
        assert line.startswith(f"Fails: {kind}")
        assert line.endswith("This is the fault that onnxreduce measured.")
    else:
        assert line == "Agrees: 5 of 5 outputs are right."
    for at, difference in enumerate(verdict.differences):
        same_figures(page, at, difference)
    assert note in page.page.inner_text("#outputs")
    told = page.page.inner_text("#errors")
    assert error in told
    for text in verdict.message.splitlines()[:1]:
        assert text in told
    assert page.page.text_content("#measured-message") == verdict.message
    assert page.page.is_visible("#measured-error") == bool(verdict.message)
    assert page.mistakes == []


def test_names_out_of_a_model_are_text(opened: Open, served: Served) -> None:
    page = opened(served.put(page_text(cases.hostile())))
    assert page.run() == "Agrees: 1 of 1 outputs are right."
    source, _, output = cases.HOSTILE
    assert page.page.locator("#outputs h3").text_content() == output
    assert page.page.locator("#inputs").text_content() == f"{source}: float32 [4]"
    assert source in page.page.inner_text("#nodes")
    assert page.page.evaluate("window.hacked") is None
    assert page.page.locator("img, b, iframe").count() == 0
    assert [url for url in page.requests if not url.startswith((f"{served.address}/", "blob:", "data:"))] == []
    assert page.mistakes == []


def test_a_chosen_folder_needs_no_server(opened: Open, dist: Path, tmp_path: Path) -> None:
    file = tmp_path / "repro.html"
    file.write_text(page_text(cases.agrees()), "utf-8")
    page = opened(file.as_uri())
    assert page.run() == "Not run: give the address of the package onnxruntime-web, or choose its folder"
    page.page.set_input_files("#package-folder", str(dist.parent))
    assert page.run() == "Agrees: 5 of 5 outputs are right."
    page.page.fill("#package-address", dist.as_uri())
    assert "choose the folder instead" in page.run()
    assert [url for url in page.requests if url != file.as_uri() and not url.startswith(("blob:", "data:"))] == []


BUNDLES = [("all", "webgpu"), ("webgpu", "webgpu"), ("webgpu", "wasm"), ("jspi", "webgpu"), ("wasm", "wasm")]


def test_every_bundle_runs_on_either_side(opened: Open, served: Served) -> None:
    page = opened(f"{served.put(page_text(cases.agrees()))}?package=./node_modules/onnxruntime-web")
    for bundle, provider in BUNDLES:
        page.page.select_option("#suspect-bundle", bundle)
        page.page.select_option("#suspect-provider", provider)
        page.page.select_option("#suspect-level", "disabled")
        assert page.run() == "Agrees: 5 of 5 outputs are right.", bundle
        assert f"ort.{bundle}.bundle.min.mjs" in page.page.inner_text("#environment")
    page.page.select_option("#suspect-provider", "webgpu")
    assert "ort.wasm.bundle.min.mjs does not start with provider webgpu" in page.run()


def test_two_versions_need_two_packages(opened: Open, served: Served) -> None:
    try:
        old = ort_web_package("1.22.0").dist
    except SetupError as error:
        pytest.skip(f"no package to run: {error}")
    before = {**REFERENCE, "target": "ort-web@1.22.0/wasm?bundle=wasm", "version": "1.22.0"}
    page = opened(served.put(page_text(cases.agrees(), reference=before)))
    assert "give its package too" in page.run()
    page.page.set_input_files("#reference-package-folder", str(old))
    assert page.run() == "Agrees: 5 of 5 outputs are right."
    where = page.page.inner_text("#environment")
    assert "onnxruntime-web 1.22.0, ort.wasm.bundle.min.mjs" in where
    assert f"onnxruntime-web {VERSION}, ort.bundle.min.mjs" in where


def test_recorded_outputs_stand_for_a_reference_that_no_browser_runs(opened: Open, served: Served) -> None:
    case = cases.agrees()
    python = {"runtime": "onnxruntime", "version": "1.32.0", "provider": "cpu", "target": "ort/cpu"}
    expected = {f"{name}_out": StoredTensor.from_array(array) for name, array in case[1].items()}
    wrong = np.array([2**62 + 1, -(2**63), 2**63 - 2], np.int64)
    page = opened(served.put(page_text(case, reference=python, expected=expected)))
    assert "does not run in a browser; its recorded outputs stand for it" in page.page.inner_text("#story")
    assert page.run() == "Agrees: 5 of 5 outputs are right."
    expected["l_out"] = StoredTensor.from_array(wrong)
    page = opened(served.put(page_text(case, reference=python, expected=expected)))
    assert page.run() == "Fails: numeric mismatch, 1 of 5 outputs wrong."
    rows = page.figures(2)
    assert (rows["First wrong index"], rows["Wrong elements"]) == (["[2]"], ["1 of 3"])
    assert rows["Reference there"] == ["9223372036854775806"]
    assert rows["Suspect there"] == ["9223372036854775807"]


def test_slowness_is_judged_where_the_oracle_asks_for_it(opened: Open, served: Served) -> None:
    wasm = {**SUSPECT, "target": f"ort-web@{VERSION}/wasm", "provider": "wasm"}
    for factor, line in ((1e-6, "Fails: slower than 0.000001 times the reference: "), (1e6, "Agrees: 1 of 1 outputs")):
        page = opened(served.put(page_text(cases.product(), suspect=wasm, slower=factor)))
        assert page.run().startswith(line)
        assert page.page.inner_text("#environment").count("create") == 2


def test_a_run_that_does_not_end_is_ended(opened: Open, served: Served) -> None:
    wasm = {**SUSPECT, "target": f"ort-web@{VERSION}/wasm", "provider": "wasm"}
    page = opened(served.put(page_text(cases.endless(), suspect=wasm)))
    page.page.fill("#limit", "2")
    assert page.run() == "Unresolved: the reference fails: hang."
    assert "no answer within 2 s" in page.page.inner_text("#errors")
    page.page.fill("#limit", "600")
    page.page.focus("#run")
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Enter")  # the focus is on Stop now
    assert page.verdict() == "Not run: stopped"


def test_a_package_that_is_not_there_is_told(opened: Open, served: Served) -> None:
    page = opened(f"{served.put(page_text(cases.agrees()))}?package=./nowhere/")
    assert "has no bundle default" in page.run()
    page.page.fill("#package-address", "http://127.0.0.1:9/")
    assert "cannot be fetched" in page.run()
    page.page.fill("#package-address", f"./{PACKAGE}")
    page.page.locator("summary", has_text="More options").first.click()
    page.page.fill("#suspect-options", "[1]")
    assert "the provider options are no JSON object: [1]" in page.run()


def test_it_fits_narrow_and_wide_and_can_be_read_in_both_schemes(opened: Open, served: Served) -> None:
    case = cases.agrees()
    python = {"runtime": "onnxruntime", "version": "1.32.0", "provider": "cpu", "target": "ort/cpu"}
    expected = {f"{name}_out": StoredTensor.from_array(array) for name, array in case[1].items()}
    expected["f_out"] = StoredTensor.from_array(case[1]["f"] * np.float32(np.nan))
    opened_page = opened(served.put(page_text(case, reference=python, expected=expected)), color_scheme="light")
    opened_page.run()
    page = opened_page.page
    maps = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (400, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        for selector in ("body", "#verdict", ".badge", ".badge.right", ".hint", "#run", "summary", "figcaption", "th"):
            assert page.evaluate(CONTRAST, selector) >= 4.5, selector
        maps.append(page.evaluate(COLOURS))
    # all elements are NaN on one side: one colour, another in each scheme
    assert [len(each) for each in maps] == [1, 1]
    assert maps[0] != maps[1]


# The colours in the map of the first output.
COLOURS = """() => {
  const canvas = document.querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) colours.add(data.slice(at, at + 4).join());
  return [...colours];
}"""
# Contrast of an element's text with what is behind it, as WCAG 2 counts it.
CONTRAST = """(selector) => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const parts = numbers(colour).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let element = document.querySelector(selector);
  const text = light(getComputedStyle(element).color);
  const clear = (one) => numbers(getComputedStyle(one).backgroundColor)[3] === 0;
  while (clear(element)) element = element.parentElement;
  const back = light(getComputedStyle(element).backgroundColor);
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}"""
