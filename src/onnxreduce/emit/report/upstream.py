"""Which test for onnxruntime's own repository a reduced model can become, and why not where it cannot."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnxreduce.emit.report.browser_test import browser_test
from onnxreduce.emit.report.facts import Facts
from onnxreduce.emit.report.operator_test import NotExpressibleError, operator_test
from onnxreduce.emit.report.python_test import python_test

OPERATOR_TEST, BROWSER_TEST, PYTHON_TEST = "operator_test.jsonc", "browser_test.js", "test_repro.py"
WORDS = {
    OPERATOR_TEST: "in the form of js/web/test/data/ops",
    BROWSER_TEST: "in the form of js/web/test/e2e/browser-test-*.js, with reduced.onnx",
    PYTHON_TEST: "a unit test that needs build_repro.py and test_data_set_0",
}


@dataclass(frozen=True)
class Upstream:
    """`files`: text by name; `reasons`: why a form does not fit; `words`: what each file is."""

    files: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    words = WORDS


def upstream_tests(facts: Facts) -> Upstream:
    """The tests for a folder's model: of a browser's operator, else of a browser; of Python."""
    found = Upstream()
    if facts.in_browser:
        forms = {OPERATOR_TEST: operator_test, BROWSER_TEST: browser_test}
    elif facts.in_python:
        forms = {PYTHON_TEST: python_test}
    else:
        found.reasons.append("the oracle does not tell in which runtime the model fails")
        return found
    for name, form in forms.items():
        try:
            found.files[name] = form(facts)
            break
        except NotExpressibleError as error:
            found.reasons.append(f"{name}: {error}")
    return found
