"""The run at a glance: complete, in one file, and well-formed whatever is missing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from report_cases import Make, two_nodes

from onnxreduce.emit import write_report

VOID = {"meta", "link", "br", "img", "input", "hr", "path", "rect", "line", "circle"}


class Page(HTMLParser):
    """Tags, text and links of a page; tags must be closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []
        self.feed(path.read_text("utf-8"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def page_of(folder: Path) -> Page:
    write_report(folder)
    return Page(folder / "report.html")


def test_it_shows_the_run(explained_folder: Path) -> None:
    page = page_of(explained_folder)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for section in ("outputs", "findings", "after", "variants", "neighbours", "versions", "way", "before", "steps"):
        assert section in ids
    summary = json.loads((explained_folder / "summary.json").read_text("utf-8"))
    assert f"{summary['nodes_before']} → {summary['nodes_after']} nodes" in page.texts
    lines = [json.loads(line) for line in (explained_folder / "journal.jsonl").read_text("utf-8").splitlines()]
    steps = [line for line in lines if "step" in line]
    assert len(steps) > 2
    links = page.values("href")
    assert [step["model"] for step in steps if step["model"]] == [link for link in links if link.startswith("steps/")]
    calls = sum("call" in line for line in lines)
    assert str(calls) in page.texts
    assert "D is what Neg gives for the content of mn in place of f." in page.texts


def test_every_link_leads_somewhere(explained_folder: Path) -> None:
    page = page_of(explained_folder)
    ids = set(page.values("id"))
    links = page.values("href")
    assert {"issue.md", "repro.zip", "build_repro.py", "test_repro.py", "journal.jsonl"} <= set(links)
    for link in links:
        assert link[1:] in ids if link.startswith("#") else (explained_folder / link).is_file(), link


def test_it_needs_nothing_else_and_runs_nothing(explained_folder: Path) -> None:
    page = page_of(explained_folder)
    assert not {"script", "iframe", "link", "img", "object"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    text = (explained_folder / "report.html").read_text("utf-8")
    assert re.findall(r"https?://[^\s\"']+", text) == ["http://www.w3.org/2000/svg"] * text.count("http://")
    assert "prefers-color-scheme: dark" in text


def test_drawings_and_tables_speak(explained_folder: Path) -> None:
    page = page_of(explained_folder)
    labels = [value for tag, name, value in page.attributes if tag == "svg" and name == "aria-label"]
    assert len(labels) == 4
    assert any(label.startswith("Nodes left over oracle calls: from ") for label in labels)
    assert any(label.startswith("The reduced model: ") for label in labels)
    assert page.tags.count("th") > page.tags.count("table")
    assert set(page.values("scope")) == {"col", "row"}
    assert page.tags.count("main") == page.tags.count("h1") == 1


def test_calls_are_told_by_pass(folder: Path) -> None:
    text = " ".join(page_of(folder).texts)
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    told = text.partition("oracle calls of all accepted")[2].partition("Where it was")[0]
    counts = [int(count) for count in re.findall(r" (\d+) \d+ % \d+", told)]
    assert sum(counts) == summary["oracle_calls"]


def test_kept_nodes_are_marked_in_the_original(folder: Path) -> None:
    page = page_of(folder)
    around = json.loads((folder / "neighbourhood.json").read_text("utf-8"))
    kept = [f"node-{each['at']}" for each in around["nodes"] if each["kept"]]
    assert kept
    assert [each for each in page.values("id") if each.startswith("node-")] == kept


def test_what_is_missing_is_left_out(web_folder: Make) -> None:
    folder = web_folder(*two_nodes())
    (folder / "neighbourhood.json").unlink()
    page = page_of(folder)
    assert not {"steps", "before", "variants", "findings"} & set(page.values("id"))
    assert any("were not measured" in text for text in page.texts)
    assert page.tags.count("svg") == 1


def test_a_journal_that_was_cut_short_is_read_as_far_as_it_goes(folder: Path) -> None:
    path = folder / "journal.jsonl"
    content = path.read_text("utf-8")
    path.write_text(content[: content.rindex('"call"') + 9], "utf-8")
    assert "steps" in page_of(folder).values("id")


def test_a_large_model_is_not_drawn(web_folder: Make) -> None:
    model, feeds, expected = two_nodes()
    for at in range(300):
        model.graph.node.add(op_type="Identity", input=["x"], output=[f"v{at}"])
    folder = web_folder(model, feeds, expected)
    assert any("too large to be drawn" in text for text in page_of(folder).texts)
    assert "```mermaid" not in (folder / "issue.md").read_text("utf-8")


def test_a_later_model_does_not_inherit_an_explanation(explained_folder: Path) -> None:
    write_report(explained_folder, of_new_model=True)
    assert not (explained_folder / "explanation.json").exists()
    assert "were not measured" in (explained_folder / "report.html").read_text("utf-8")
