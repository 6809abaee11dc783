"""The benchmark that tries what a reduction leaves takes what reproduces, and refuses what does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import faults
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxreduce
from onnxreduce.oracle.signature import Kind, Signature

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from evidence import expected_outputs, judge, script_reproduces, unit_test_reproduces
from evidence_browser import figures_differ

MEASURED = {
    "output": "y", "kind": "numeric mismatch", "dtype": "float32", "shape": [2], "absolute": 0.1 + 0.2,
    "relative": 1.0, "wrong": 1, "total": 2, "not_finite": 0, "first": [1], "note": "", "cosine": None, "ulp": 3,
    "samples": [[[1], "1.0", "0.5"]],
}  # fmt: skip
SHOWN = {
    "Verdict": "numeric mismatch", "Type": "float32", "Shape": "[2]",
    "Largest absolute difference": "0.30000000000000004", "Relative to scale": "1", "Wrong elements": "1 of 2",
    "Cosine similarity": "–", "Units in the last place": "3", "NaN or Inf": "0", "First wrong index": "[1]",
    "Reference there": "1", "Suspect there": "0.5",
}  # fmt: skip


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text("utf-8"))
    return found


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_a_folder_that_reproduces_is_taken(folder: Path) -> None:
    judged = judge((faults.SUSPECT, faults.REFERENCE), Signature.parse(summary(folder)["signature"]))
    assert script_reproduces(folder, judged, sys.executable) == []
    assert expected_outputs(folder) == []
    assert unit_test_reproduces(folder, summary(folder), sys.executable) == []


def test_a_script_that_does_not_stand_alone_is_refused(folder: Path) -> None:
    judged = judge((faults.SUSPECT, faults.REFERENCE), Signature.parse(summary(folder)["signature"]))
    change(folder / "build_repro.py", "import onnx\n", 'import onnx\nonnx.load("reduced.onnx")\n')
    (wrong,) = script_reproduces(folder, judged, sys.executable)
    assert wrong.startswith("build_repro.py ends with 1") and "reduced.onnx" in wrong


def test_another_class_is_refused(folder: Path) -> None:
    judged = judge((faults.SUSPECT, faults.REFERENCE), Signature(Kind.RUN_ERROR, "no such kernel"))
    (wrong,) = script_reproduces(folder, judged, sys.executable)
    assert wrong.startswith("fails numeric mismatch instead of error at run")


def test_a_unit_test_that_does_not_tell_the_sides_apart_is_refused(folder: Path) -> None:
    change(folder / "test_repro.py", "ORT_ENABLE_ALL", "ORT_DISABLE_ALL")
    (wrong,) = unit_test_reproduces(folder, summary(folder), sys.executable)
    assert wrong.startswith("test_suspect says") and "OK" in wrong
    change(folder / "test_repro.py", "ORT_DISABLE_ALL", "ORT_ENABLE_ALL")
    (wrong,) = unit_test_reproduces(folder, summary(folder), sys.executable)
    assert wrong.startswith("test_reference says") and "FAILED" in wrong


def test_expected_outputs_that_are_not_the_references_are_refused(folder: Path) -> None:
    path = folder / "test_data_set_0" / "output_0.pb"
    tensor = onnx.load_tensor(path)
    onnx.save_tensor(numpy_helper.from_array(2 + np.asarray(numpy_helper.to_array(tensor)), tensor.name), path)
    assert expected_outputs(folder) == ["the reference gives other outputs than test_data_set_0: numeric mismatch"]
    path.unlink()
    (wrong,) = expected_outputs(folder)
    assert wrong.startswith("there is no expected value for")


def test_the_oracle_of_a_case_may_be_the_shipped_one() -> None:
    with pytest.raises(onnxreduce.BadInputError, match=r"nothing\.onnx"):
        judge(None, Signature(Kind.NUMERIC))(Path("nothing.onnx"), {})


def test_figures_of_a_page_are_held_against_the_tools() -> None:
    rows = {label: [text, text] for label, text in SHOWN.items()}
    assert figures_differ(rows, MEASURED) == []
    for label, text in {"Largest absolute difference": "0.3", "Wrong elements": "2 of 2", "Verdict": "agrees"}.items():
        for cells in ([text, SHOWN[label]], [SHOWN[label], text], [SHOWN[label]]):
            (wrong,) = figures_differ({**rows, label: cells}, MEASURED)
            assert wrong.startswith(f"output y: {label} is ")
    assert len(figures_differ({}, MEASURED)) == len(SHOWN)
