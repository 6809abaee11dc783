"""The text of the page: the same each time, closed to what names try, and only as large as is sensible."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import page_cases as cases
import pytest
from page_reader import REFERENCE, SUSPECT, Rules, page_text

from onnxreduce import emit
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import RELATIVE
from onnxreduce.reduction import page as page_module
from onnxreduce.reduction.page import repro_page

RULES: Any = Rules()


class Parts(HTMLParser):
    """The elements of a page that hold code or data, by id or tag, and how many tags there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.parts: dict[str, str] = {}
        self.policy = ""
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.addresses += [str(given[name]) for name in ("src", "href", "action", "data") if name in given]
        self.policy = str(given["content"]) if "Security" in str(given.get("http-equiv")) else self.policy
        self._open = str(given.get("id") or given.get("type") or tag) if tag in ("script", "style") else ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.parts[self._open] = self.parts.get(self._open, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def summary(**more: object) -> dict[str, object]:
    targets = {"suspect": SUSPECT, "reference": REFERENCE}
    return {"model": "m.onnx", "nodes_before": 9, "nodes_after": 1, "targets": targets, **more}


def test_the_same_arguments_give_the_same_text() -> None:
    assert page_text(cases.founding()) == page_text(cases.founding())
    assert page_text(cases.founding()) != page_text(cases.agrees())


def test_the_policy_allows_this_code_alone() -> None:
    page = Parts(page_text(cases.agrees()))
    for what in ("module", "style"):
        digest = base64.b64encode(hashlib.sha256(page.parts[what].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.policy
    assert "unsafe-inline" not in page.policy
    assert "default-src 'none'" in page.policy
    assert not re.search(r"^(import|export) ", page.parts["module"] + page.parts["worker"], re.MULTILINE)


def test_model_and_inputs_come_back_out_of_the_page() -> None:
    model, feeds = cases.agrees()
    data = json.loads(Parts(page_text((model, feeds))).parts["data"])
    assert onnx.load_model_from_string(base64.b64decode(data["model"])) == model
    assert [each["name"] for each in data["inputs"]] == list(feeds)
    kinds = {"f": "float32", "h": "float16", "l": "int64", "b": "bool", "u": "uint8"}
    for given in data["inputs"]:
        array = feeds[given["name"]]
        assert (given["type"], given["dims"]) == (kinds[given["name"]], list(array.shape))
        assert base64.b64decode(given["base64"]) == array.tobytes()


def test_names_cannot_leave_their_element() -> None:
    hostile, plain = Parts(page_text(cases.hostile())), Parts(page_text(cases.agrees()))
    assert hostile.tags == plain.tags
    assert {name: hostile.parts[name] for name in ("module", "worker", "style")} == {
        name: plain.parts[name] for name in ("module", "worker", "style")
    }
    assert json.loads(hostile.parts["data"])["outputs"] == [cases.HOSTILE[2]]


def test_nothing_points_anywhere() -> None:
    text = page_text(cases.agrees())
    assert set(re.findall(r"https?://[\w.-]+", text)) == {"https://onnxruntime-web.invalid"}
    assert Parts(text).addresses == ["data:,"]


def test_settings_of_the_measured_run_are_filled_in() -> None:
    options = "bundle=webgpu&level=basic&disabled_optimizers=A,B&forceCpuNodeNames=n1,n2&threads=2&runs=3"
    target = f"ort-web@1.30.0/webgpu?{options}"
    facts = page_module.page_facts(
        summary(targets={"suspect": {**SUSPECT, "target": target}, "reference": REFERENCE}), RULES, None
    )
    suspect = facts["suspect"]
    assert (suspect["bundle"], suspect["provider"], suspect["runs"]) == ("webgpu", "webgpu", 3)
    assert suspect["provider_options"] == {"forceCpuNodeNames": ["n1", "n2"]}
    assert suspect["session"] == {
        "graphOptimizationLevel": "basic",
        "extra": {"optimization": {"disable_specified_optimizers": "A;B"}},
    }
    assert facts["rules"]["tolerance"]["relative"] == {
        "float16": 2e-2,
        "float32": 2e-3,
        "float64": RELATIVE["float64"],
    }


def test_what_is_too_large_is_not_written_and_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    big = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    add = cases.node("Add", ["x", "w"], ["y"])
    proto, feeds = cases.case([add], {"x": big}, {"y": onnx.TensorProto.FLOAT}, {"w": big})
    candidate = whole(load(proto), {name: StoredTensor.from_array(array) for name, array in feeds.items()})
    page, note = repro_page(candidate, summary(), RULES, None)
    assert page is not None
    assert note == "repro.html"
    data = json.loads(Parts(page).parts["data"])
    inside = onnx.load_model_from_string(base64.b64decode(data["model"])).graph.initializer[0]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(inside), big)
    monkeypatch.setattr(emit, "MAX_PAGE_BYTES", 2 * big.nbytes)
    page, note = repro_page(candidate, summary(), RULES, None)
    assert page is None
    assert re.fullmatch(r"not written: model and inputs have \d+ bytes, a page holds 32768", note)


def test_only_a_suspect_in_a_browser_gets_a_page() -> None:
    proto, feeds = cases.agrees()
    candidate = whole(load(proto), {name: StoredTensor.from_array(array) for name, array in feeds.items()})
    python = {"runtime": "onnxruntime", "target": "ort/cpu", "version": "1.32.0"}
    for targets in ({"suspect": python, "reference": REFERENCE}, {}):
        assert repro_page(candidate, summary(targets=targets), RULES, None) == (
            None,
            "not written: the suspect does not run in a browser",
        )
    page, _ = repro_page(candidate, summary(targets={"suspect": SUSPECT, "reference": python}), RULES, None)
    assert page is not None
    facts = json.loads(Parts(page).parts["facts"])
    assert (facts["reference"]["provider"], facts["reference"]["name"]) == ("wasm", "onnxruntime 1.32.0")
