"""Names that somebody chose to break a report: they are shown as they are, and nothing else happens."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from onnx import TensorProto, helper
from report_cases import FAILS, Make, explanation
from test_report_page import Page

from onnxreduce.emit import write_report
from onnxreduce.emit.report.contents import Table
from onnxreduce.emit.report.markdown import block, code, comment, item, prose, table
from onnxreduce.emit.report.mermaid import label

HOSTILE = [
    "<script>window.hacked=1</script>",
    "</style></svg><img src=x onerror=window.hacked=1>",
    "a|b`c``d",
    "--> <b>out</b>",
    "@everyone",
    "see#1",
    "[x](https://example.org)",
    "![](https://example.org/a.png)",
    '"];b0-->b1;click b0 "javascript:alert(1)"',
    "%%{init: {'theme':'dark'}}%%",
    "```\n# heading\n```",
    '"""\nimport os',
    "{{ 7 * 7 }}{% raw %}",
    "- list\n1. item",
    "a\u202eb\x00c\x1b[31m",
    "日本 ünï 😀",
    "$x^2$ ~~y~~ **z** &lt;",
    "__proto__",
    "../../etc/passwd",
]
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
_BOX = re.compile(r'  b\d+(\["|\(\["|\[\(")([^"]*)("\]|"\]\)|"\)\])(:::\w+)?')
_ARROW = re.compile(r'  b\d+ -->(\|"[^"|]*"\|)? b\d+')


def hostile_model() -> tuple[onnx.ModelProto, dict[str, Any], dict[str, Any]]:
    """Every name is an input, a node and an output."""
    nodes = [helper.make_node("Neg", [name], [f"{name} out"], name=name) for name in HOSTILE]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["<i>N</i>", 1]) for name in HOSTILE]
    outputs = [helper.make_tensor_value_info(f"{name} out", TensorProto.FLOAT, None) for name in HOSTILE]
    model = helper.make_model(helper.make_graph(nodes, "<g>", inputs, outputs), ir_version=8)
    ones = np.ones((1, 1), np.float32)
    return model, dict.fromkeys(HOSTILE, ones), {f"{name} out": -ones for name in HOSTILE}


@pytest.fixture
def hostile(web_folder: Make) -> Path:
    differences = [
        {"output": f"{name} out", "kind": name, "dtype": name, "shape": [1, 1], "wrong": 1, "total": 1, "note": name,
         "absolute": 1.0, "relative": 1.0, "samples": [[[0, 0], name, name]]}
        for name in HOSTILE
    ]  # fmt: skip
    words = " ".join(HOSTILE)
    folder = web_folder(
        *hostile_model(),
        model=f"{words}.onnx",
        outputs=differences,
        message_reduced="\n".join(HOSTILE),
        changed=dict(zip(HOSTILE, HOSTILE, strict=True)),
        runtime=words,
        system={"os": words, "cpu": words},
    )
    found = explanation().to_json()
    for part in ("neighbours", "variants", "findings"):
        example = found[part][0]
        found[part] = [
            {key: name if isinstance(value, str) else value for key, value in example.items()} for name in HOSTILE
        ]
    found["optimizers"], found["changed"] = HOSTILE, HOSTILE[:2]
    found["bisection"] = [[name, name] for name in HOSTILE]
    found["closest"] = {"subject": words, "change": words, "result": FAILS.__dict__}
    (folder / "explanation.json").write_text(json.dumps(found), "utf-8")
    write_report(folder)
    return folder


def flat(text: str) -> list[Any]:
    found: list[Any] = []
    for token in MARKDOWN.parse(text):
        found += [token, *(token.children or [])]
    return found


def test_the_issue_holds_no_markup_but_its_own(hostile: Path) -> None:
    tokens = flat((hostile / "issue.md").read_text("utf-8"))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_inline", "image", "link_open", "s_open", "em_open", "strong_open"}
    html = [token.content for token in tokens if token.type == "html_block"]
    assert html and all(text.strip().startswith("<!--") and text.count("-->") == 1 for text in html)
    assert all(text.strip().endswith("-->") for text in html)
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert not [text for text in headings if text.strip() == "heading"]
    fences = [token.info for token in tokens if token.type == "fence"]
    assert set(fences) <= {"", "mermaid", "python"}


def test_tables_keep_their_columns(hostile: Path) -> None:
    text = (hostile / "issue.md").read_text("utf-8")
    widths: list[list[int]] = []
    for token in MARKDOWN.parse(text):
        if token.type == "table_open":
            widths.append([])
        elif token.type == "tr_open":
            widths[-1].append(0)
        elif token.type in ("th_open", "td_open"):
            widths[-1][-1] += 1
    assert len(widths) == 7
    assert all(len(set(rows)) == 1 for rows in widths)
    assert sum(map(len, widths)) > 5 * len(HOSTILE)
    raw = [line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ")]
    assert set(raw) <= {rows[0] + 1 for rows in widths}  # a bar too many would be cut off without a word


def test_what_github_would_make_live_is_code(hostile: Path) -> None:
    for token in flat((hostile / "issue.md").read_text("utf-8")):
        if token.type == "text":
            assert not re.search(r"@\w|#\d|https?://", token.content), token.content


def test_the_diagram_is_made_of_boxes_and_arrows_alone(hostile: Path) -> None:
    text = (hostile / "issue.md").read_text("utf-8")
    lines = re.search(r"```mermaid\n(.*?)\n```", text, re.DOTALL)
    assert lines is not None
    head, *body = lines[1].splitlines()
    assert head == "flowchart TD"
    assert all(_BOX.fullmatch(line) or _ARROW.fullmatch(line) or line.startswith("  classDef ") for line in body)
    assert sum(bool(_BOX.fullmatch(line)) for line in body) == 3 * len(HOSTILE)


def test_the_page_holds_no_tag_but_its_own(hostile: Path) -> None:
    page = Page(hostile / "report.html")
    assert not {"script", "img", "b", "i", "iframe"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    words = " ".join(page.texts)
    assert "<script>window.hacked=1</script>" in words
    assert "{{ 7 * 7 }}" in words
    assert page.tags.count("style") == 1


def test_the_browser_test_is_one_literal(hostile: Path) -> None:
    text = (hostile / "browser_test.js").read_text("utf-8")
    case = json.loads(text.partition("const CASE = ")[2].partition(";\n\nconst ARRAYS")[0])
    assert [each["name"] for each in case["inputs"]] == HOSTILE
    before = text.partition("const CASE = ")[0].splitlines()
    assert all(not line or line == "'use strict';" or line.startswith("//") for line in before)


def test_the_unit_test_is_python(web_folder: Make) -> None:
    suspect = {"target": "ort/cpu", "runtime": "onnxruntime (Python)", "version": '1.0 """\nimport os\n'}
    targets = {"suspect": suspect, "reference": {}}
    folder = web_folder(*hostile_model(), targets=targets, operators=HOSTILE, signature_reduced='"""\nimport os')
    write_report(folder)
    compile((folder / "test_repro.py").read_text("utf-8"), "test_repro.py", "exec")
    assert "\nimport os" not in (folder / "test_repro.py").read_text("utf-8")


@given(st.text(max_size=60))
def test_any_text_is_one_code_span_or_plain_text(text: str) -> None:
    children = MARKDOWN.parseInline(f"x {code(text)} y")[0].children or []
    assert [child.type for child in children] == ["text", "code_inline", "text"]
    kinds = {child.type for child in MARKDOWN.parseInline(prose(text))[0].children or []}
    assert kinds <= {"text", "code_inline", "text_special"}


@given(st.text(max_size=60))
def test_any_text_stays_in_its_item_cell_comment_and_block(text: str) -> None:
    kinds = [token.type for token in MARKDOWN.parse(f"- {item(text)} (sure)")]
    assert kinds == [
        "bullet_list_open",
        "list_item_open",
        "paragraph_open",
        "inline",
        "paragraph_close",
        "list_item_close",
        "bullet_list_close",
    ]
    cells = [token.type for token in MARKDOWN.parse(table(Table(("a", "b"), [(text, "y")])))]
    assert cells.count("td_open") == 2
    (only,) = MARKDOWN.parse(f"<!-- {comment(text)} -->")
    assert only.type == "html_block" and only.content.count("-->") == 1
    (fence,) = MARKDOWN.parse(block(f"a{text}b"))
    assert fence.type == "fence"


@given(st.text(max_size=40))
def test_any_label_is_harmless(text: str) -> None:
    assert re.fullmatch(r"[\w .,:/=×+-]*(#\d+;[\w .,:/=×+-]*)*", label(text), re.ASCII)
    assert re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label(text)) == text
