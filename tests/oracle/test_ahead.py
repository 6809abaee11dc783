"""Several workers give the same answers, and so the same result, as one; what was judged in vain is counted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from faults import LEVELS, hosted
from onnx import ModelProto, TensorProto, helper

from onnxreduce.api import reduce
from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.ahead import AheadOracle
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.oracle.workers import LocalWorkers
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.result import Reduction

LENGTH = 300
NEEDED = frozenset({40, 41, 43, 200, 207})
FAILS = Signature(Kind.NUMERIC)


def chain() -> ModelProto:
    """Nodes n0, n1, ... each of which reads the one before."""
    nodes = [helper.make_node("Neg", [f"v{at - 1}" if at else "x"], [f"v{at}"], name=f"n{at}") for at in range(LENGTH)]
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, [1])], [value(f"v{LENGTH - 1}", TensorProto.FLOAT, [1])]
    return helper.make_model(helper.make_graph(nodes, "chain", *ends), opset_imports=[helper.make_opsetid("", 17)])


class Planted:
    """Fails where all needed nodes are there; takes its time; notes when two threads are in it at once."""

    name = "planted"

    def __init__(self, seed: int = 0, p: float = 1.0, sleep: float = 0.001) -> None:
        self.calls = 0
        self.overlaps = 0
        self.closed = False
        self._busy = threading.Lock()
        self._random = random.Random(seed)
        self._p, self._sleep = p, sleep

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        if not self._busy.acquire(blocking=False):
            self.overlaps += 1
            self._busy.acquire()
        try:
            self.calls += 1
            time.sleep(self._sleep * self._random.random())
            there = {int(node.name[1:]) for node in candidate.model.proto.graph.node}
            fails = there >= NEEDED and self._random.random() < self._p
            return Verdict(Outcome.FAILS, FAILS) if fails else Verdict(Outcome.PASSES)
        finally:
            self._busy.release()

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        if recorded is not None:
            recorded()
        return Golden(Verdict(Outcome.FAILS, FAILS))

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        return {"suspect": {"runtime": "planted"}, "reference": {}}

    def close(self) -> None:
        self.closed = True


def reduced(count: int) -> tuple[Reduction, list[Planted]]:
    made: list[Planted] = []

    def make() -> Planted:
        made.append(Planted(len(made)))
        return made[-1]

    oracle = AheadOracle("planted", LocalWorkers(make, count))
    try:
        return reduce(chain(), oracle, {"x": np.ones(1, np.float32)}, shrinks=Shrinks(())), made
    finally:
        oracle.close()


def test_any_number_of_workers_gives_the_result_of_one() -> None:
    alone, first = reduced(1)
    assert alone.summary["nodes"] == sorted(NEEDED)
    assert alone.summary["wasted_calls"] == 0 and len(first) == 1
    for count in (2, 3, 8):
        result, made = reduced(count)
        asked = [result.summary[key] for key in ("nodes", "oracle_calls", "full_model_equivalents")]
        assert asked == [alone.summary[key] for key in ("nodes", "oracle_calls", "full_model_equivalents")]
        assert 1 < len(made) <= count
        assert not any(oracle.overlaps for oracle in made), "an oracle is not thread-safe"
        assert all(oracle.closed for oracle in made)
        # No call is lost or invented: what workers did is what was asked, and what was wasted.
        did = sum(oracle.calls for oracle in made)
        assert did == result.summary["oracle_calls"] - 1 + result.summary["wasted_calls"]


def test_most_of_what_is_asked_was_judged_ahead() -> None:
    result, made = reduced(2)
    wasted, asked = result.summary["wasted_calls"], result.summary["oracle_calls"]
    assert wasted <= 0.5 * asked
    assert min(oracle.calls for oracle in made) > 0


def test_workers_that_cannot_work_are_dismissed() -> None:
    class Broken(Planted):
        def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
            raise SetupError("no browser any more")

    made: list[Planted] = []

    def make() -> Planted:
        made.append(Broken() if len(made) % 2 else Planted())
        return made[-1]

    oracle = AheadOracle("planted", LocalWorkers(make, 2))
    result = reduce(chain(), oracle, {"x": np.ones(1, np.float32)}, shrinks=Shrinks(()))
    oracle.close()
    assert result.summary["nodes"] == sorted(NEEDED)
    assert len(made) > 1 and all(each.closed for each in made)


@pytest.mark.slow
def test_two_workers_on_a_real_fault(tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(LEVELS)
    model, inputs = hosted()
    one = reduce(model, str(tmp_path / "levels.toml"), inputs)
    two = reduce(model, str(tmp_path / "levels.toml"), inputs, setup=Setup(jobs=2))
    assert two.model == one.model
    assert two.summary["oracle_calls"] == one.summary["oracle_calls"]
    assert two.summary["wasted_calls"] > 0


def test_what_cannot_have_several_workers_is_refused(tmp_path: Path) -> None:
    inputs = {"x": np.ones(1, np.float32)}
    (tmp_path / "o.py").write_text("def f(model, inputs):\n    return True\n")
    with pytest.raises(BadInputError, match="a function runs here"):
        reduce(chain(), f"{tmp_path / 'o.py'}:f", inputs, setup=Setup(jobs=2))
    with pytest.raises(BadInputError, match="does not go with --cluster"):
        reduce(chain(), "optimized-vs-unoptimized", inputs, setup=Setup(jobs=2, cluster="tcp://127.0.0.1:1"))
