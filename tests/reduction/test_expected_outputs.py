"""The expected outputs that a reduction leaves are the reference's own, to the last bit, where it can be asked."""

from __future__ import annotations

from pathlib import Path

import faults
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxreduce
from onnxreduce.emit.report.facts import read_facts
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.reduction.page import page_facts
from onnxreduce.runtimes.recording import RECORDED_BY


def left(folder: Path) -> tuple[onnx.ModelProto, faults.Arrays, faults.Arrays]:
    """Model, inputs and expected outputs of a folder."""
    facts = read_facts(folder)
    inputs, outputs = ({name: each.array for name, each in held.items()} for held in (facts.inputs, facts.expected))
    return facts.model, inputs, outputs


def wide(size: int) -> faults.Case:
    """The faulty normalisation over rows so long that two runtimes do not round their sums alike."""
    proto, _ = faults.normalisation()
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = size
    (scale,) = (tensor for tensor in proto.graph.initializer if tensor.name == "scale")
    scale.CopyFrom(numpy_helper.from_array(np.arange(1, size + 1, dtype=np.float32), "scale"))
    return proto, {"x": np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)}


def test_they_are_the_references(tmp_path: Path) -> None:
    proto, feeds = wide(32)
    oracle = faults.levels(reference="onnx-reference")
    try:
        found = onnxreduce.reduce(proto, oracle, feeds, output=tmp_path, shrinks=onnxreduce.Shrinks(passes=()))
    finally:
        oracle.close()
    model, inputs, outputs = left(tmp_path)
    names = list(outputs)
    right = ReferenceEvaluator(model).run(names, inputs)
    for name, array in zip(names, right, strict=True):
        assert np.asarray(array).tobytes() == outputs[name].tobytes()
    assert found.summary["expected_outputs"] == found.summary["reference"]
    assert "onnx.reference" in found.summary["reference"]


def test_they_are_the_recorded_ones_where_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(candidate: Candidate) -> dict[str, StoredTensor] | None:
        raise KeyboardInterrupt

    proto, feeds = faults.normalisation()
    oracle = faults.levels()
    monkeypatch.setattr(oracle, "expected", interrupted)
    try:
        found = onnxreduce.reduce(proto, oracle, feeds, output=tmp_path, shrinks=onnxreduce.Shrinks(passes=()))
    finally:
        oracle.close()
    assert found.status is onnxreduce.Status.REDUCED
    assert found.summary["expected_outputs"] == RECORDED_BY
    assert set(left(tmp_path)[2]) == {value.name for value in found.model.graph.output}


def test_the_page_says_whose_they_are() -> None:
    suspect = {"target": "ort-web@1.27.0/webgpu", "runtime": "onnxruntime-web", "version": "1.27.0"}
    summary = {
        "model": "m.onnx",
        "nodes_before": 2,
        "nodes_after": 1,
        "reference": "onnx.reference",
        "targets": {"suspect": suspect, "reference": {"target": "onnx-reference", "runtime": "onnx.reference"}},
    }
    oracle = faults.levels()
    try:
        for expected, words in (("onnx.reference", "its recorded outputs"), (RECORDED_BY, f"outputs of {RECORDED_BY}")):
            facts = page_facts({**summary, "expected_outputs": expected}, oracle, None, recorded=True)
            assert f"{words} stand for it here." in facts["lines"][-1]
    finally:
        oracle.close()
