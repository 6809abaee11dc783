"""A folder that a reduction has left can be read again, or is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnxreduce.api import explain, reduce
from onnxreduce.errors import BadInputError
from onnxreduce.explain.explain import EXPLANATION, INTERRUPTED, Explainer, Limits
from onnxreduce.explain.reduced import read_reduced
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.choose import choose
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.reduction.place import alone

VALUE = helper.make_tensor_value_info


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reduced")
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Erf", ["a"], ["b"])]
    graph = helper.make_graph(nodes, "g", [VALUE("x", 1, [2])], [VALUE("b", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    oracle = place / "oracle.py"
    oracle.write_text("def has_erf(model, inputs):\n    return any(n.op_type == 'Erf' for n in model.graph.node)\n")
    reduce(model, f"{oracle}:has_erf", {"x": np.ones(2, np.float32)}, output=place / "out")
    return place / "out"


def test_the_oracle_of_a_folder_judges_its_model_again(folder: Path) -> None:
    reduced = read_reduced(folder)
    assert [node.op_type for node in reduced.candidate.model.proto.graph.node] == ["Erf"]
    oracle = reduced.oracle(Setup())
    verdict = oracle.judge(reduced.candidate, fresh=True)
    assert verdict.outcome is Outcome.FAILS and verdict.shows(reduced.signature)
    oracle.close()


def test_a_spec_survives_its_record() -> None:
    spec = choose("webgpu-vs-wasm")
    assert isinstance(spec, OracleSpec)
    assert OracleSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"signature": "odd"}', '{"signature": "hang"}'])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    with pytest.raises(BadInputError, match=r"summary\.json"):
        read_reduced(tmp_path)


def test_an_interrupt_keeps_the_earlier_explanation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(calls=4, seconds=20, variant_seconds=0, versions=0)
    first = explain(folder, limits=limits)
    before = (folder / EXPLANATION).read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Explainer, "_find_neighbours", interrupted)
    second = explain(folder, limits=limits)
    assert first.neighbours and not second.neighbours
    assert second.notes["neighbours"] == INTERRUPTED
    assert (folder / EXPLANATION).read_bytes() == before


def test_a_folder_in_which_a_run_is_under_way_is_refused(folder: Path) -> None:
    with alone(folder), pytest.raises(BadInputError, match="another run is under way"):
        explain(folder)


def test_an_empty_journal_does_not_give_a_folder_away(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "journal.jsonl").write_bytes(b"")
    graph = helper.make_graph([helper.make_node("Erf", ["x"], ["y"])], "h", [VALUE("x", 1, [1])], [VALUE("y", 1, [1])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(BadInputError, match="holds another run"):
        reduce(model, f"{folder.parent / 'oracle.py'}:has_erf", {"x": np.ones(1, np.float32)}, output=copy)
