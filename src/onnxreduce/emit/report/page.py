"""`report.html`: a run at a glance, in one file that needs no network."""

from __future__ import annotations

from importlib import resources

from onnxreduce.emit.report import contents
from onnxreduce.emit.report.curves import curves
from onnxreduce.emit.report.drawing import drawing
from onnxreduce.emit.report.facts import Facts
from onnxreduce.emit.report.picture import picture, surroundings
from onnxreduce.emit.report.templates import rendered

REPORT = "report.html"
_LINKS = {
    "issue.md": "an issue for the runtime's maintainers, ready to be pasted",
    "repro.zip": "its attachments",
    "repro.html": "runs the reduced model in a browser",
    "build_repro.py": "builds the reduced model and its inputs",
    "reduced.onnx": "the reduced model",
    "passing.onnx": "the closest model that is right",
    "operator_test.jsonc": "an operator test for onnxruntime",
    "browser_test.js": "a browser test for onnxruntime",
    "test_repro.py": "a unit test",
    "summary.json": "the facts of the run",
    "explanation.json": "the facts of its explanation",
    "journal.jsonl": "every verdict",
}


def report_page(facts: Facts) -> str:
    """The page as HTML."""
    summary = facts.summary
    table, changed = contents.bisection(facts)
    after = picture(facts.model, facts.wrong)
    around = surroundings(facts.neighbourhood)
    kept = [(box.mark, f"{box.lines[0]} ({box.lines[1]})") for box in around.boxes if box.mark]
    return rendered(
        "report.html",
        style=(resources.files(__package__) / "templates" / "report.css").read_text("utf-8"),
        title=contents.title(facts),
        summary=summary,
        fault=contents.fault(facts),
        message=summary.get("message_reduced", ""),
        curves=curves(facts),
        passes=contents.calls_by_pass(facts),
        reduced=drawing(after, "after", f"The reduced model: {len(facts.model.graph.node)} nodes with their values"),
        around=drawing(around, "before", f"{len(kept)} kept nodes among {len(around.boxes)} nodes of the original"),
        around_count=len(around.boxes),
        total=facts.neighbourhood.get("total", 0),
        kept=kept,
        steps=facts.steps,
        outputs=contents.outputs(facts),
        values=contents.values(facts),
        findings=contents.findings(facts),
        variants=contents.variants(facts),
        optimizers=contents.optimizers(facts),
        neighbours=contents.neighbours(facts),
        closest=contents.closest(facts),
        bisection=table,
        changed=changed,
        explained=bool(facts.explanation),
        system=contents.system(facts),
        reduction=contents.reduction(facts),
        files=[(name, what) for name, what in _LINKS.items() if facts.has(name)],
    )
