"""Slower than a factor: a child process that really sleeps, and a model whose product is not folded without levels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import faults
import numpy as np
import pytest

import onnxreduce
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.hire import oracle_for
from onnxreduce.oracle.signature import Expectation, Kind, Signature
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.speed import FIRST_LOOK, SHORTEST, slowness
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.base import RunResult, Status
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.target import Target

PLANTED = "planted-node"
WORKER = Path(__file__).parents[1] / "misbehaving_worker.py"
ONE_THREAD = Target.parse("ort/cpu?level=disabled&threads=1")
TEN_TIMES = Signature(Kind.SLOW, "10 times the reference")


class Sleepy(PythonOrt):
    """Python ONNX Runtime, 60 ms slower for each run of a model that holds the planted node."""

    def _command(self) -> list[str]:
        python, *rest = super()._command()
        return [python, str(WORKER), "slow", PLANTED, *rest]


@pytest.fixture
def sleepy() -> Iterator[tuple[PythonOrt, PythonOrt]]:
    """Reference and suspect."""
    sides = PythonOrt(ONE_THREAD), Sleepy(ONE_THREAD)
    yield sides
    for side in sides:
        side.close()


def named(name: str) -> faults.Case:
    case = faults.healthy()
    case[0].graph.node[0].name = name
    return case


def folded(before: int = 1, after: int = 1) -> faults.Case:
    """A product of two weights of 1024 x 1024 amid other nodes: one level computes it once, the other at each run."""
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(size=(1024, 1024)).astype(np.float32) for name in ("a", "b")}
    names = ["x", *(f"n{at}" for at in range(before))]
    nodes = [faults.node("Neg", [x], [y]) for x, y in pairwise(names)]
    nodes += [
        faults.node("MatMul", ["a", "b"], ["product"], name="slow"),
        faults.node("ReduceMax", ["product"], ["largest"], keepdims=0),
        faults.node("Add", [names[-1], "largest"], ["m0"]),
    ]
    names = [*(f"m{at}" for at in range(after)), "y"]
    nodes += [faults.node("Neg", [x], [y]) for x, y in pairwise(names)]
    ends = [faults.floats("x", (512,))], [faults.floats("y", (512,))]
    return faults.model(nodes, *ends, weights), {"x": np.zeros(512, np.float32)}


def took(*repeated: float) -> RunResult:
    return RunResult(Status.OK, seconds_run=9.0, repeated=repeated)


def test_both_bars_must_be_cleared_by_the_median() -> None:
    right = took(0.001, 0.001, 0.5)
    said = slowness(10, right, took(0.02, 0.03, 0.0))
    assert said == "20 ms a run, 20 times the 1 ms of the reference"
    assert not slowness(10, right, took(0.009))  # not ten times
    assert not slowness(10, took(0.0001), took(SHORTEST * 0.9))  # noise
    assert slowness(10, took(0.0001), took(SHORTEST * 1.1))


def test_a_first_look_asks_for_more_than_its_confirmation() -> None:
    for right, result in ((took(0.01), took(0.101)), (took(0.0001), took(SHORTEST * 1.1))):
        assert slowness(10, right, result)
        assert not slowness(10, right, result, first_look=True)
        more = took(*(seconds * FIRST_LOOK for seconds in result.repeated))
        assert slowness(10, right, more, first_look=True)


def test_a_suspect_that_sleeps_is_slow_where_that_is_asked(sleepy: tuple[PythonOrt, PythonOrt]) -> None:
    candidate = faults.candidate(named(PLANTED))
    asked = DifferentialOracle("sleepy", *sleepy, slower=10)
    for verdict in (asked.golden(candidate).verdict, asked.judge(candidate), asked.judge(candidate, alone=True)):
        assert (verdict.outcome, verdict.signature) == (Outcome.FAILS, TEN_TIMES)
        assert "times the" in verdict.message
        assert verdict.wrong_outputs == []
    assert asked.judge(faults.candidate(named("another"))).outcome is Outcome.PASSES
    assert DifferentialOracle("sleepy", *sleepy).judge(candidate).outcome is Outcome.PASSES
    assert DifferentialOracle("sleepy", *sleepy, slower=1e6).judge(candidate).outcome is Outcome.PASSES


def test_wrong_values_come_first_unless_slowness_is_expected(sleepy: tuple[PythonOrt, PythonOrt]) -> None:
    candidate = faults.candidate(named(PLANTED))
    wrong = PythonOrt(ONE_THREAD)
    try:
        wrong.run = lambda *_, **__: RunResult(Status.OK, {"y": np.zeros((2, 3), np.float32)}, repeated=[1e-4])  # type: ignore[method-assign]
        found = DifferentialOracle("sleepy", wrong, sleepy[1], slower=10).judge(candidate)
        assert found.signature == Signature(Kind.NUMERIC)
        expected = Expectation(Kind.SLOW)
        found = DifferentialOracle("sleepy", wrong, sleepy[1], expectation=expected, slower=10).judge(candidate)
        assert found.signature == TEN_TIMES
    finally:
        wrong.close()


def test_another_suspect_of_the_same_oracle_is_judged_as_strictly() -> None:
    target = Target.parse(faults.REFERENCE)
    spec = OracleSpec("own", target, target, expectation=Expectation(Kind.NAN), slower=10)
    oracle = BuiltOracle(spec, Setup())
    try:
        with oracle.with_suspect(Target.parse(faults.SUSPECT)) as other:
            assert (other.slower, other.expectation) == (10, Expectation(Kind.NAN))
            verdict = other.judge(faults.candidate(faults.normalisation()))
            assert verdict.message == "it fails, but not as expected: numeric mismatch"
    finally:
        oracle.close()


def test_workers_beside_each_other_measure_nothing() -> None:
    target = Target.parse(faults.REFERENCE)
    with pytest.raises(onnxreduce.BadInputError, match="--jobs does not go with --slower"):
        oracle_for(OracleSpec("own", target, target, slower=2), Setup(jobs=2))


def test_a_slow_node_is_what_is_left(tmp_path: Path) -> None:
    """20 ms and more for 2 Gflop in each run against almost nothing; a file of three lines asks for it."""
    file = tmp_path / "slow.toml"
    file.write_text('reference = "ort/cpu?threads=1"\nsuspect = "ort/cpu?level=disabled&threads=1"\nslower = 3.0\n')
    model, feeds = folded(6, 4)
    found = onnxreduce.reduce(model, str(file), feeds, output=tmp_path / "out", shrinks=onnxreduce.Shrinks(()))
    assert found.status is onnxreduce.Status.REDUCED
    assert [node.name for node in found.model.graph.node] == ["slow"]
    assert found.summary["signature"] == "slower than: 3 times the reference"
    lines = [json.loads(line) for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()]
    assert any("times the" in line.get("message", "") for line in lines)


@pytest.mark.browser
def test_runs_in_a_browser_are_timed_too() -> None:
    spec = OracleSpec("web", Target.parse("ort/cpu"), Target.parse("ort-web@1.27.0/wasm?level=disabled"), slower=3)
    try:
        oracle = BuiltOracle(spec, Setup())
    except onnxreduce.SetupError as error:
        pytest.skip(str(error))
    try:
        verdict = oracle.judge(faults.candidate(folded()))
    except onnxreduce.SetupError as error:
        pytest.skip(str(error))
    finally:
        oracle.close()
    assert verdict.signature == Signature(Kind.SLOW, "3 times the reference"), verdict.summary()
