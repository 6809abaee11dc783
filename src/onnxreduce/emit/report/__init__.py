"""The written evidence in a result folder: `issue.md`, `repro.zip`, a test for the runtime's repository, `report.html`.

Everything is read from the folder, so that it can be written again at any time. What is missing there is left out.
"""

from __future__ import annotations

from pathlib import Path

from onnxreduce.emit.folder import remove_passing, write_atomically
from onnxreduce.emit.report.archive import ARCHIVE, write_archive
from onnxreduce.emit.report.facts import read_facts
from onnxreduce.emit.report.issue import ISSUE, issue_text
from onnxreduce.emit.report.page import REPORT, report_page
from onnxreduce.emit.report.upstream import WORDS, upstream_tests

WRITTEN = (ISSUE, ARCHIVE, REPORT, *WORDS)
"""All names that `write_report` may write."""


def remove_report(folder: Path) -> None:
    """Remove what was written about a model that is no longer the one in the folder."""
    for name in (*WRITTEN, "explanation.json"):
        (folder / name).unlink(missing_ok=True)
    remove_passing(folder)


def write_report(folder: Path, *, of_new_model: bool = False) -> list[str]:
    """Write the reports into a folder that a reduction has left, in place of earlier ones; the names of the files.

    `of_new_model`: the explanation of a model that was there before is removed first.
    Raises BadInputError when `summary.json` or `reduced.onnx` cannot be read, OSError when nothing can be written.
    """
    if of_new_model:
        remove_report(folder)
    facts = read_facts(folder)
    upstream = upstream_tests(facts)
    for name in WORDS:
        if name in upstream.files:
            write_atomically(folder / name, upstream.files[name].encode("utf-8", "replace"))
        else:
            (folder / name).unlink(missing_ok=True)
    archive = write_archive(folder)
    write_atomically(folder / ISSUE, issue_text(facts, archive, upstream).encode("utf-8", "replace"))
    write_atomically(folder / REPORT, report_page(facts).encode("utf-8", "replace"))
    return [*upstream.files, *([ARCHIVE] if archive else []), ISSUE, REPORT]
