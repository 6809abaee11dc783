"""The models of accepted steps: all of them while they are small, and none of an earlier run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import faults
import numpy as np
import onnx
import pytest
from onnx import helper

from onnxreduce.graph.candidate import Candidate
from onnxreduce.reduction import steps
from onnxreduce.reduction.journal import Journal


def candidate(elements: int) -> Candidate:
    """One node and one weight of so many elements."""
    weight = np.random.default_rng(0).normal(size=elements).astype(np.float32)
    ends = [faults.floats("x", [elements])], [faults.floats("y", [elements])]
    proto = faults.model([helper.make_node("Add", ["x", "w"], ["y"])], *ends, {"w": weight})
    return replace(faults.candidate((proto, {"x": weight})), nodes=(3,))


def test_each_step_is_told_and_its_model_kept(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "009-deletion.onnx").write_bytes(b"of an earlier run")
    (tmp_path / "steps" / "notes.txt").write_text("mine")
    journal = Journal()
    journal.keep_in(tmp_path / "journal.jsonl")
    journal.step("deletion", candidate(100))
    journal.step("dims", candidate(3))
    journal.close()
    told = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [(line["step"], line["by"], line["left"], line["ends"]) for line in told] == [
        (1, "deletion", 1, 2),
        (2, "dims", 1, 2),
    ]
    assert sorted(file.name for file in (tmp_path / "steps").iterdir()) == [
        "001-deletion.onnx",
        "002-dims.onnx",
        "notes.txt",
    ]
    model = onnx.load(tmp_path / told[0]["model"])
    onnx.checker.check_model(model)
    assert list(model.graph.initializer[0].dims) == [100]


def test_what_is_large_is_told_without_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LARGEST", 1000)
    monkeypatch.setattr(steps, "ALL", 1200)
    kept = steps.Steps(tmp_path)
    assert [kept.keep(number, "dims", candidate(size)) for number, size in enumerate((300, 150, 150, 5))] == [
        "",  # larger than one may be
        "steps/001-dims.onnx",
        "",  # no room left for it
        "steps/003-dims.onnx",
    ]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal()
    journal.step("deletion", candidate(3))
    assert journal.steps == 1
    assert list(tmp_path.iterdir()) == []
