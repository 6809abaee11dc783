"""The check of the benchmarks that no accepted step has left the class of the original can fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from cases import CREATE, NUMERIC, RUN, Case
from reductions import drift


def journal(folder: Path, *classes: str) -> None:
    """A golden run, accepted steps, and the model of the emitted script."""
    lines: list[dict[str, object]] = [{"model": "g"}]
    for at, shown in enumerate(classes):
        what = "golden" if at == 0 else "emitted" if at == len(classes) - 1 else "confirm"
        lines.append({"what": "candidate", "outcome": "passes"})
        lines.append({"what": what, "outcome": "fails", "signature": f"{shown}: why"})
        lines += [{"step": at}] if what == "confirm" else []
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("fault", "classes", "said"),
    [
        (RUN, (RUN, RUN, RUN, RUN), []),
        (NUMERIC, (NUMERIC, "NaN or Inf", "all zeros", NUMERIC), []),
        (RUN, (RUN, NUMERIC, RUN, RUN), [f"step 1: {NUMERIC}"]),
        (NUMERIC, (NUMERIC, NUMERIC, RUN, NUMERIC), [f"step 2: {RUN}"]),
        (RUN, (RUN, RUN, CREATE), [f"emitted: {CREATE}"]),
        (RUN, (CREATE, RUN, RUN), [f"golden: {CREATE}"]),
        (RUN, (RUN, RUN), ["no step"]),
    ],
)
def test_another_class_is_told(fault: str, classes: tuple[str, ...], said: list[str], tmp_path: Path) -> None:
    journal(tmp_path, *classes)
    assert drift(Case("own", 3, fault=fault), tmp_path) == said
