"""The doctor's findings."""

from __future__ import annotations

import pytest

from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.doctor import findings


@pytest.mark.browser
def test_a_working_machine(host: BrowserHost) -> None:
    found = {finding.name: finding for finding in findings()}
    for name in ("Python", "onnx", "playwright", "browser"):
        assert found[name].ok
        assert found[name].value
    assert found["WebGPU adapter"].value
    assert all(finding.ok or finding.advice for finding in found.values())


def test_what_is_missing_becomes_a_finding() -> None:
    found = {finding.name: finding for finding in findings(browser="/no/such/browser")}
    assert not found["browser"].ok
    assert "/no/such/browser" in found["browser"].advice
    assert "WebGPU adapter" not in found
