"""The issue: in the order of the form, complete where something was measured, and nothing in it that was not."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from report_cases import FAILS, Make, explanation, two_nodes

from onnxreduce.emit import write_report
from onnxreduce.emit.report.archive import Archive
from onnxreduce.emit.report.facts import read_facts
from onnxreduce.emit.report.issue import issue_text
from onnxreduce.emit.report.upstream import upstream_tests

WEB_FORM = [
    "Describe the issue",
    "To reproduce",
    "Urgency",
    "ONNX Runtime Installation",
    "ONNX Runtime Version or Commit ID",
    "Execution Provider",
]
"""The labels of 04-web.yml in microsoft/onnxruntime, as they were in December 2026."""
GENERAL_FORM = [
    "Describe the issue",
    "To reproduce",
    "Urgency",
    "Platform",
    "OS Version",
    "ONNX Runtime Installation",
    "ONNX Runtime Version or Commit ID",
    "ONNX Runtime API",
    "Architecture",
    "Execution Provider",
    "Execution Provider Library Version",
]
"""The labels of 08-general.yml."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?:[eE][-+]?\d+)?")


def text_of(folder: Path) -> str:
    write_report(folder)
    return (folder / "issue.md").read_text("utf-8")


def headings(text: str, level: int = 3) -> list[str]:
    outside = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(rf"^{'#' * level} (.*)$", outside, re.MULTILINE)


def section(text: str, heading: str) -> str:
    return text.partition(f"### {heading}\n")[2].partition("\n### ")[0].strip()


def numbers(text: str) -> list[str]:
    """Figures in a text, character codes of diagrams put back."""
    plain = re.sub(r"#(\d+);", lambda match: chr(int(match[1])), text)
    return _NUMBER.findall(plain.replace("\\", ""))


def invented(folder: Path, text: str) -> list[str]:
    """Figures that stand in no other file of the folder, nor are one of those there with four digits."""
    model = onnx.load(folder / "reduced.onnx")
    script = (folder / "build_repro.py").read_text("utf-8")
    names = ["summary.json", "explanation.json", "journal.jsonl"]
    sources = [(folder / name).read_text("utf-8") for name in names if (folder / name).is_file()]
    sources += [script, str(script.count("\n")), str(model), onnx.printer.to_text(model)]
    sources.append(str((folder / "repro.zip").stat().st_size))
    known = {token for source in sources for token in numbers(source)}
    rounded = {f"{float(token):.4g}" for token in known if token.count(".") < 2}
    steps = {str(at) for at in range(1, 3)}  # of the list of steps to reproduce it
    shown = {number for number in numbers(text) if number not in steps}
    return sorted(number for number in shown if number not in known | rounded)


def test_a_python_fault_is_told_in_the_general_form(folder: Path) -> None:
    text = text_of(folder)
    assert headings(text) == GENERAL_FORM
    assert section(text, "ONNX Runtime API") == "Python"
    assert section(text, "Execution Provider") == "Default CPU"
    assert section(text, "Platform") in ("Linux", "Mac", "Windows")
    assert section(text, "Urgency").startswith("<!--") and section(text, "Urgency").endswith("-->")


def test_a_browser_fault_is_told_in_the_web_form(web_folder: Make) -> None:
    text = text_of(web_folder(*two_nodes()))
    assert headings(text) == WEB_FORM
    assert text.startswith("<!-- Title: [Web] WebGPU: numeric mismatch in 2 nodes (Neg, Exp) -->\n")
    assert section(text, "ONNX Runtime Installation") == "Released Package"
    assert section(text, "Execution Provider") == "'webgpu' (WebGPU)"
    assert "1.27.0" in section(text, "ONNX Runtime Version or Commit ID")
    description = section(text, "Describe the issue")
    assert "some-browser 156.0.1" in description and "/usr/bin" not in text
    assert "google swiftshader (software)" in description


def test_it_says_what_was_measured(folder: Path) -> None:
    summary, text = json.loads((folder / "summary.json").read_text("utf-8")), text_of(folder)
    description = section(text, "Describe the issue")
    assert f"{summary['nodes_before']} → {summary['nodes_after']}" in description
    assert f"| oracle calls | {summary['oracle_calls']} |" in description
    assert "3 of 3 runs" in description
    assert "`ort/cpu?level=all`" in description and "`ort/cpu?level=disabled`" in description
    for place, expected, actual in summary["outputs"][0]["samples"]:
        assert f"| \\{str(place)[:-1]}\\] | {expected} | {actual} |" in description
    flags = summary["system"].get("cpu_flags", "")
    assert flags.replace("_", "\\_") in description
    script = (folder / "build_repro.py").read_text("utf-8")
    assert f"```python\n{script.rstrip()}\n```" in section(text, "To reproduce")
    size = (folder / "repro.zip").stat().st_size
    assert f"`repro.zip` ({size} bytes)" in section(text, "To reproduce")


def test_it_says_what_explain_has_found(explained_folder: Path) -> None:
    description = section(text_of(explained_folder), "Describe the issue")
    assert headings(description, 4) == [
        "Expected and actual",
        "What the wrong output holds",
        "Where it shows and where not",
        "What heals it",
        "Versions",
        "The reduced graph",
        "System",
        "How it was reduced",
    ]
    assert "D is what Neg gives for the content of mn in place of f. (1 of 1 elements, certain)" in description
    assert "| runtime | Node.js | ort-node/cpu | not run: onnxruntime-node is not installed |  |  |" in description
    assert "The closest model that is right: Neg (ad) left out." in description
    rows = description.partition("#### What heals it")[2]
    assert rows.index("left out | passes") < rows.index("1 → 17 | numeric mismatch | 2 | 1.953")
    assert "changed between 1.21.0 and 1.22.0" in description
    assert "Disabling `ConstantFolding`, `MatMulAddFusion` heals it." in description


@pytest.mark.parametrize(
    "missing", ["neighbours", "variants", "findings", "optimizers", "bisection", "closest", "changed"]
)
def test_a_part_that_is_missing_is_left_out(explained_folder: Path, missing: str) -> None:
    path = explained_folder / "explanation.json"
    found = json.loads(path.read_text("utf-8"))
    del found[missing]
    path.write_text(json.dumps(found), "utf-8")
    text = text_of(explained_folder)
    assert headings(text) == GENERAL_FORM
    words = {
        "neighbours": "What heals it",
        "variants": "Where it shows and where not",
        "findings": "What the wrong output holds",
        "optimizers": "Disabling",
        "bisection": "#### Versions",
        "closest": "closest model that is right",
        "changed": "changed between",
    }
    assert words[missing] not in text
    assert all(
        word in text
        for name, word in words.items()
        if {name, missing} != {"closest", "neighbours"}
        and name not in (missing, "changed" if missing == "bisection" else "")
    )


@pytest.mark.parametrize(
    "content", [None, "{ cut sho", "[]", '{"variants": 7, "neighbours": [1, {}], "findings": [{}]}']
)
def test_an_explanation_that_cannot_be_read_is_none(folder: Path, content: str | None) -> None:
    if content is not None:
        (folder / "explanation.json").write_text(content, "utf-8")
    assert headings(text_of(folder)) == GENERAL_FORM


def test_a_reduction_that_was_not_confirmed_warns_its_writer(web_folder: Make) -> None:
    text = text_of(web_folder(*two_nodes(), confirmed_fresh=False, not_confirmed="the model passes --> <b>"))
    assert "NOT CONFIRMED: the model passes - -› <b›" in text


def test_an_oracle_of_the_users_own_is_told_as_it_is(web_folder: Make) -> None:
    targets = {"suspect": {"runtime": "command: ./interesting.sh {model}"}, "reference": {}}
    text = text_of(web_folder(*two_nodes(), targets=targets, runtime="command: ./interesting.sh {model}", reference=""))
    assert headings(text) == GENERAL_FORM
    assert "It was judged by `command: ./interesting.sh {model}`." in text
    assert section(text, "Execution Provider").startswith("Other / Unknown")
    assert "Default CPU" not in text


def test_a_long_script_is_attached(web_folder: Make) -> None:
    model, feeds, expected = two_nodes()
    for at in range(60):
        model.graph.node.insert(1, helper.make_node("Identity", ["x"], [f"unused{at}"]))
    folder = web_folder(model, feeds, expected)
    text = text_of(folder)
    lines = (folder / "build_repro.py").read_text("utf-8").count("\n")
    assert lines >= 60
    assert f"`build_repro.py` has {lines} lines and is attached." in text
    assert "```python" not in text


def test_no_figure_is_invented(explained_folder: Path) -> None:
    text = text_of(explained_folder)
    assert len(numbers(text)) > 60
    assert invented(explained_folder, text) == []
    assert invented(explained_folder, text + "\nIt took 987654 s.") == ["987654"]


figures = st.floats(0, 1e12, allow_nan=False) | st.floats(1e-9, 1)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(absolute=figures, relative=figures, matched=st.integers(0, 10**9), calls=st.integers(0, 10**6))
def test_no_figure_is_invented_whatever_was_measured(
    explained_folder: Path, absolute: float, relative: float, matched: int, calls: int
) -> None:
    base = explanation()
    measured = replace(FAILS, absolute=absolute, relative=relative)
    changed = replace(
        base,
        variants=[replace(each, result=measured) for each in base.variants],
        findings=[replace(each, matched=matched, total=matched + 1) for each in base.findings],
    )
    facts = read_facts(explained_folder)
    summary = {**facts.summary, "oracle_calls": calls}
    again = replace(facts, explanation=asdict(changed), summary=summary)
    text = issue_text(again, Archive([], 4711), upstream_tests(facts))
    assert str(matched) in text and str(calls) in text
    place = explained_folder / "again"
    shutil.copytree(explained_folder, place, ignore=shutil.ignore_patterns("again"), dirs_exist_ok=True)
    (place / "explanation.json").write_text(json.dumps(changed.to_json()), "utf-8")
    (place / "summary.json").write_text(json.dumps(summary), "utf-8")
    (place / "repro.zip").write_bytes(bytes(4711))
    assert invented(place, text) == []


def test_what_is_not_a_number_is_not_made_one(web_folder: Make) -> None:
    difference = {
        "output": "y", "kind": "NaN or Inf", "dtype": "float32", "shape": [2], "absolute": None, "relative": None,
        "wrong": 2, "total": 2, "samples": [[[0], "1.0", "nan"], [[1], "0.36787945", "inf"]],
    }  # fmt: skip
    text = text_of(web_folder(*two_nodes(), outputs=[difference]))
    assert "| y | float32 \\[2\\] | NaN or Inf | 2 of 2 |  |  |" in text
    assert "| y | \\[1\\] | 0.36787945 | inf |" in text
