"""Whole reductions without a browser: a real fault of the installed onnxruntime in a healthy graph of 203 nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import faults
import numpy as np
import onnx
import onnxruntime
import pytest

import onnxreduce
from onnxreduce import (
    BadInputError,
    Budget,
    DoesNotFailError,
    OracleSpec,
    Reduction,
    SetupError,
    Shrinks,
    Status,
    Verdict,
    Watcher,
)
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.spec import read
from onnxreduce.oracle.verdict import Golden

DELETION = Shrinks(passes=())
MOST_CALLS = 80
KEYS = {
    "nodes_before", "nodes_after", "oracle_calls", "full_model_equivalents", "seconds", "seconds_in_runtime",
    "signature", "one_minimal", "confirmed_fresh", "runtime", "browser", "adapter", "model", "oracle", "reference",
}  # fmt: skip


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> OracleSpec:
    path = tmp_path_factory.mktemp("oracle") / "levels.toml"
    path.write_text(faults.LEVELS)
    return read(path)


@pytest.fixture(scope="module")
def done(spec: OracleSpec, tmp_path_factory: pytest.TempPathFactory) -> Reduction:
    """One reduction of the hosted fault, by deletion alone."""
    folder = tmp_path_factory.mktemp("reduced") / "out"
    proto, feeds = faults.hosted()
    return onnxreduce.reduce(proto, spec, feeds, output=folder, shrinks=DELETION)


def folder_of(reduction: Reduction) -> Path:
    assert reduction.folder is not None
    return reduction.folder


def fails(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether a model differs between the levels, by plain onnxruntime."""
    found = []
    for level in (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    ):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 3
        found.append(onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, dict(feeds)))
    return any(np.abs(one - other).max() > 0.01 * np.abs(one).max() for one, other in zip(*found, strict=True))


def test_the_hosted_fault_reduces_to_its_minimum(done: Reduction) -> None:
    assert (done.status, done.nodes_before) == (Status.REDUCED, 203)
    assert done.nodes_after <= faults.MINIMUM
    assert done.summary["one_minimal"] is True
    assert done.summary["confirmed_fresh"] is True
    assert done.summary["signature"] == "numeric mismatch"
    assert {"ReduceMean", "Sqrt", "Div"} <= set(done.summary["operators"])
    assert done.summary["oracle_calls"] <= MOST_CALLS
    assert done.summary["full_model_equivalents"] < 13
    assert fails(done.model, done.inputs)


def test_no_single_node_can_go(done: Reduction) -> None:
    """Said of the result itself, with onnxruntime alone: each smaller model is right, or cannot run."""
    proto = done.model
    for gone in range(len(proto.graph.node)):
        smaller = onnx.ModelProto()
        smaller.CopyFrom(proto)
        del smaller.graph.node[gone]
        left = {name for each in smaller.graph.node for name in each.output}
        read_by = {name for each in smaller.graph.node for name in each.input}
        lost = [name for name in proto.graph.node[gone].output if name in read_by]
        values = _values(proto, done.inputs)
        del smaller.graph.output[:]
        smaller.graph.output.extend(faults.floats(name, values[name].shape) for name in left - read_by)
        smaller.graph.input.extend(faults.floats(name, values[name].shape) for name in lost)
        feeds = {**done.inputs, **{name: values[name] for name in lost}}
        used = {value.name for value in smaller.graph.input}
        assert not smaller.graph.output or not fails(smaller, {name: feeds[name] for name in used})


def _values(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    exposed = onnx.ModelProto()
    exposed.CopyFrom(proto)
    names = [name for each in proto.graph.node for name in each.output]
    del exposed.graph.output[:]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(exposed.SerializeToString(), options)
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def test_the_summary_has_what_the_issue_lists(done: Reduction) -> None:
    summary = json.loads((folder_of(done) / "summary.json").read_text("utf-8"))
    assert set(summary) >= KEYS
    assert summary == dict(done.summary)
    assert summary["nodes_after"] == len(done.model.graph.node)
    assert 0 < summary["seconds_in_runtime"] <= summary["seconds"]
    assert "onnxruntime" in summary["runtime"]


def test_the_journal_is_complete(done: Reduction) -> None:
    lines = [json.loads(line) for line in (folder_of(done) / "journal.jsonl").read_text("utf-8").splitlines()]
    head, calls, steps = (
        lines[0],
        [each for each in lines if "call" in each],
        [each for each in lines if "step" in each],
    )
    asked = [each["asks"] for each in lines if "asks" in each]
    assert asked == [each["key"] for each in calls[1:]], "each question but the first is there before its verdict"
    assert len(lines) == 1 + len(calls) + len(asked) + len(steps)
    assert [(step["left"], (folder_of(done) / step["model"]).is_file()) for step in steps[-1:]] == [
        (done.summary["nodes_after"], True)
    ]
    assert head["nodes"] == 203
    assert [line["call"] for line in calls] == list(range(1, done.summary["oracle_calls"] + 1))
    assert calls[0]["what"] == "golden"
    assert calls[-1]["what"] == "emitted"
    assert all({"at", "size", "nodes", "outcome", "seconds", "fresh"} <= set(line) for line in calls)
    assert [line["at"] for line in calls] == sorted(line["at"] for line in calls)
    total = sum(line["size"] for line in calls) / 203
    assert done.summary["full_model_equivalents"] == pytest.approx(total, abs=0.01)


def test_the_emitted_script_reproduces(done: Reduction, tmp_path: Path) -> None:
    script = folder_of(done) / "build_repro.py"
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, timeout=120)
    with np.load(tmp_path / "inputs.npz") as data:
        assert fails(onnx.load(tmp_path / "model.onnx"), {name: data[name] for name in data.files})
    assert len(script.read_text().splitlines()) < 70


def test_the_folder_holds_the_model_and_its_data(done: Reduction) -> None:
    folder = folder_of(done)
    proto = onnx.load(folder / "reduced.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert fails(proto, done.inputs)
    expected = _values(proto, done.inputs)
    for at, value in enumerate(proto.graph.output):
        tensor = onnx.load_tensor(folder / "test_data_set_0" / f"output_{at}.pb")
        np.testing.assert_allclose(onnx.numpy_helper.to_array(tensor), expected[value.name], rtol=1e-4, atol=1e-4)
    assert not [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.suffix == ".part"]


def test_what_deletion_left_can_be_shrunk_further(spec: OracleSpec, done: Reduction) -> None:
    proto, feeds = faults.hosted(4, 4)
    shrunk = onnxreduce.reduce(proto, spec, feeds)
    assert shrunk.status is Status.REDUCED
    assert shrunk.nodes_after <= done.nodes_after
    assert fails(shrunk.model, shrunk.inputs)


@pytest.mark.parametrize("calls", [1, 2, 7, 20, 33])
def test_a_budget_of_calls_leaves_the_best_so_far(spec: OracleSpec, calls: int, tmp_path: Path) -> None:
    proto, feeds = faults.hosted()
    stopped = onnxreduce.reduce(proto, spec, feeds, output=tmp_path, budget=Budget(calls=calls), shrinks=DELETION)
    assert stopped.status is Status.STOPPED
    assert stopped.status.exit_code == 4
    assert stopped.summary["oracle_calls"] <= calls + 1, "the emitted script's model comes on top"
    assert stopped.summary["one_minimal"] is False
    assert stopped.summary["confirmed_fresh"] is True
    assert len(onnx.load(tmp_path / "reduced.onnx").graph.node) == stopped.nodes_after
    assert fails(onnx.load(tmp_path / "reduced.onnx"), stopped.inputs)


def test_a_budget_of_seconds_leaves_the_best_so_far(spec: OracleSpec) -> None:
    proto, feeds = faults.hosted()
    stopped = onnxreduce.reduce(proto, spec, feeds, budget=Budget(seconds=0), shrinks=DELETION)
    assert (stopped.status, stopped.nodes_after) == (Status.STOPPED, 203)
    assert fails(stopped.model, stopped.inputs)


def test_nothing_is_written_without_a_folder(spec: OracleSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    proto, feeds = faults.normalisation()
    before = proto.SerializeToString()
    found = onnxreduce.reduce(proto, spec, feeds, shrinks=DELETION)
    assert (found.status, found.folder) == (Status.REDUCED, None)
    assert proto.SerializeToString() == before, "the caller's model is left alone"
    assert [path.name for path in tmp_path.iterdir() if path.name != ".ses"] == []


def test_watchers_are_told(spec: OracleSpec) -> None:
    stages: list[str] = []
    left: list[int] = []
    proto, _ = faults.hosted(2, 2)
    feeds = {"x": faults.normalisation()[1]["x"]}
    watcher = Watcher(stages.append, lambda problem: left.append(len(problem.reached)))
    onnxreduce.reduce(proto, spec, feeds, shrinks=DELETION, watcher=watcher)
    text = "\n".join(stages)
    assert "stream: float [1,12,16] generated as" in text
    for words in ("golden run: 33 nodes", "the original fails: numeric mismatch", "confirming the emitted script"):
        assert words in text
    assert left == sorted(left, reverse=True)
    assert left[-1] <= faults.MINIMUM


class Own(BuiltOracle):
    """An oracle object of the caller's own, which can be told to misbehave."""

    closed = 0
    judged = 0
    misbehave: Callable[[int, Verdict], Verdict] = staticmethod(lambda at, verdict: verdict)

    @classmethod
    def make(cls) -> Own:
        made = faults.levels()
        made.__class__ = cls
        assert isinstance(made, cls)
        return made

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        self.judged += 1
        return self.misbehave(self.judged, super().judge(candidate, fresh=fresh, alone=alone))

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        return super().golden(candidate, recorded)

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_an_oracle_of_the_callers_own_is_not_closed() -> None:
    own = Own.make()
    proto, feeds = faults.normalisation()
    assert onnxreduce.reduce(proto, own, feeds, shrinks=DELETION).status is Status.REDUCED
    assert onnxreduce.check(proto, own, feeds).golden.verdict.outcome is onnxreduce.Outcome.FAILS
    assert own.closed == 0
    own.close()


def test_an_interrupt_of_the_search_keeps_the_best_so_far(tmp_path: Path) -> None:
    def interrupt(at: int, verdict: Verdict) -> Verdict:
        if at == 25:
            raise KeyboardInterrupt
        return verdict

    own = Own.make()
    own.misbehave = interrupt  # type: ignore[method-assign]
    proto, feeds = faults.hosted()
    stopped = onnxreduce.reduce(proto, own, feeds, output=tmp_path, shrinks=DELETION)
    own.close()
    assert stopped.status is Status.STOPPED
    assert stopped.nodes_after < 203
    assert fails(stopped.model, stopped.inputs)
    assert stopped.summary["confirmed_fresh"] is True


def test_a_runtime_that_goes_away_for_good_keeps_the_best_so_far(tmp_path: Path) -> None:
    def break_down(at: int, verdict: Verdict) -> Verdict:
        if at >= 25:
            raise SetupError("the browser does not start any more")
        return verdict

    own = Own.make()
    own.misbehave = break_down  # type: ignore[method-assign]
    proto, feeds = faults.hosted()
    stopped = onnxreduce.reduce(proto, own, feeds, output=tmp_path, shrinks=DELETION)
    own.close()
    assert stopped.status is Status.STOPPED
    assert stopped.nodes_after < 203
    assert stopped.summary["confirmed_fresh"] is False
    assert "does not start any more" in stopped.summary["not_confirmed"]
    assert fails(onnx.load(tmp_path / "reduced.onnx"), stopped.inputs)


def test_a_mistake_of_our_own_keeps_the_best_so_far_and_is_told(tmp_path: Path) -> None:
    def stumble(at: int, verdict: Verdict) -> Verdict:
        if at == 25:
            raise ZeroDivisionError("stumbled")
        return verdict

    own = Own.make()
    own.misbehave = stumble  # type: ignore[method-assign]
    proto, feeds = faults.hosted()
    with pytest.raises(ZeroDivisionError, match="stumbled"):
        onnxreduce.reduce(proto, own, feeds, output=tmp_path, shrinks=DELETION)
    own.close()
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert summary["nodes_after"] < 203
    assert summary["confirmed_fresh"] is True
    assert fails(onnx.load(tmp_path / "reduced.onnx"), _inputs_of(tmp_path))


def test_a_result_that_is_not_confirmed_is_not_claimed() -> None:
    def never_the_last(at: int, verdict: Verdict) -> Verdict:
        return verdict if at < last else onnxreduce.Verdict(onnxreduce.Outcome.PASSES)

    proto, feeds = faults.normalisation()
    counted = Own.make()
    onnxreduce.reduce(proto, counted, feeds, shrinks=DELETION)
    last = counted.judged
    own = Own.make()
    own.misbehave = never_the_last  # type: ignore[method-assign]
    found = onnxreduce.reduce(proto, own, feeds, shrinks=DELETION)
    for each in (counted, own):
        each.close()
    assert found.status is Status.UNCONFIRMED
    assert found.status.exit_code == 4
    assert "the model that the script builds passes" in found.summary["not_confirmed"]


def test_a_model_that_does_not_fail_leaves_no_folder(spec: OracleSpec, tmp_path: Path) -> None:
    proto, feeds = faults.healthy()
    with pytest.raises(DoesNotFailError, match=r"g does not fail: 1 of 1 outputs agree$"):
        onnxreduce.reduce(proto, spec, feeds, output=tmp_path / "a" / "b")
    with pytest.raises(DoesNotFailError, match="inputs were generated"):
        onnxreduce.reduce(proto, spec, output=tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [faults.not_a_number, faults.random, faults.unknown_operator, faults.cannot_run])
def test_a_false_reference_leaves_no_folder(make: Callable[[], faults.Case], spec: OracleSpec, tmp_path: Path) -> None:
    proto, feeds = make()
    with pytest.raises(BadInputError, match="reference"):
        onnxreduce.reduce(proto, spec, feeds, output=tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_another_run_is_replaced_only_by_force(spec: OracleSpec, tmp_path: Path) -> None:
    proto, feeds = faults.normalisation()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "reduced.onnx").write_text("old")
    with pytest.raises(BadInputError, match="holds another run"):
        onnxreduce.reduce(proto, spec, feeds, output=tmp_path)
    assert (tmp_path / "reduced.onnx").read_text() == "old"
    onnxreduce.reduce(proto, spec, feeds, output=tmp_path, force=True, shrinks=DELETION)
    assert fails(onnx.load(tmp_path / "reduced.onnx"), _inputs_of(tmp_path))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def _inputs_of(folder: Path) -> dict[str, np.ndarray]:
    tensors = [onnx.load_tensor(path) for path in sorted((folder / "test_data_set_0").glob("input_*.pb"))]
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}


def test_functions_are_inlined_and_reduced_too(spec: OracleSpec) -> None:
    proto, feeds = faults.normalisation()
    body = list(proto.graph.node)
    weights = {tensor.name for tensor in proto.graph.initializer}
    function = onnx.helper.make_function(
        "mine", "Normalise", ["x", *sorted(weights)], ["out"], body, [onnx.helper.make_opsetid("", 11)]
    )
    call = faults.node("Normalise", ["x", *sorted(weights)], ["out"], domain="mine", name="call")
    del proto.graph.node[:]
    proto.graph.node.append(call)
    proto.functions.append(function)
    proto.opset_import.append(onnx.helper.make_opsetid("mine", 1))
    found = onnxreduce.reduce(proto, spec, feeds, shrinks=DELETION)
    assert (found.status, found.nodes_before) == (Status.REDUCED, 8)
