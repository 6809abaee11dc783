"""Faults that show now and then, and instances that go bad: what a verdict costs then, and what it is worth."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import faults
import pytest

import onnxreduce
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.driver import JOURNAL, Shrinks
from onnxreduce.reduction.evidence import Evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import CHECK_EVERY, Problem
from onnxreduce.reduction.reliability import MOST_REPEATS, RECENT_RUNS, Reliability
from onnxreduce.reduction.search import reduce_nodes
from onnxreduce.runtimes.recording import Recording, record


@dataclass
class Instance:
    """A runtime that shows the fault with probability `p`, and once spoilt not at all until it is fresh again."""

    needed: frozenset[int]
    p: float = 1.0
    seed: int = 0
    spoil_at: int = -1
    name: str = "instance"
    asked: list[tuple[tuple[int, ...], bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.spoilt = False

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        if recorded is not None:
            recorded()
        return Golden(Verdict(Outcome.FAILS, Signature(Kind.NUMERIC), [Difference("out", Kind.NUMERIC)]))

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        self.asked.append((candidate.nodes, fresh))
        self.spoilt = not fresh and (self.spoilt or len(self.asked) == self.spoil_at)
        shows = self.needed <= set(candidate.nodes) and self.random.random() < self.p and not self.spoilt
        return Verdict(Outcome.FAILS, Signature(Kind.NUMERIC)) if shows else Verdict(Outcome.PASSES)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def close(self) -> None:
        pass


Graph = tuple[GraphIndex, Recording]
NEEDED = frozenset({4, 20})


@pytest.fixture(scope="module")
def graph() -> Iterator[Graph]:
    proto, arrays = faults.hosted(6, 5)
    feeds = {name: StoredTensor.from_array(array) for name, array in arrays.items()}
    index = GraphIndex(normalise(load(proto)), feeds)
    recording = record(index, feeds, timeout=60)
    yield index, recording
    recording.close()


def problem(graph: Graph, oracle: Instance) -> Problem:
    index, recording = graph
    return Problem(index, recording, oracle, oracle.golden(Candidate(index.model, {}, ["out"])), Journal())


def ask_others(one: Problem, calls: int) -> None:
    """Ask about candidates that do not show the fault."""
    rng = random.Random(1)
    end = one.journal.calls + calls
    while one.journal.calls < end:
        one.interesting([at for at in range(one.size) if at != 4 and rng.random() < 0.5])


@pytest.mark.parametrize(
    ("trials", "repeats", "p"),
    [
        ([], 1, None),
        ([(3, 3)], 1, 1.0),
        ([(5, 10)], 5, 0.5),
        ([(9, 10)], 2, 0.9),
        ([(1, 10)], 29, 0.1),
        ([(1, 100)], MOST_REPEATS, 0.01),
        ([(0, 4)], MOST_REPEATS, 0.0),
        ([(3, 3), (0, 1)], 3, 0.75),
    ],
)
def test_repeats_follow_the_share_of_runs_that_fail(
    trials: list[tuple[int, int]], repeats: int, p: float | None
) -> None:
    found = Reliability()
    for failed, runs in trials:
        found.add(failed, runs)
    assert (found.repeats, found.p) == (repeats, p)


def test_confidence_grows_with_runs_and_is_never_certainty() -> None:
    found, last = Reliability(), 0.0
    assert found.confidence is None
    for _ in range(20):
        found.add(1, 1)
        assert found.confidence is not None
        assert last < found.confidence < 1
        last = found.confidence
    assert last > 0.95
    half = Reliability()
    half.add(20, 40)
    assert half.confidence is not None
    assert 0.93 < half.confidence < 0.97


def test_the_confidence_is_what_is_found_in_practice() -> None:
    rng = random.Random(0)
    claimed, found, total = 0.0, 0, 4000
    for _ in range(total):
        p = rng.random()
        one = Reliability()
        one.add(sum(rng.random() < p for _ in range(10)), 10)
        assert one.confidence is not None
        claimed += one.confidence
        found += any(rng.random() < p for _ in range(one.repeats))
    assert abs(claimed - found) / total < 0.015


def test_an_estimate_rests_on_recent_runs() -> None:
    found = Reliability()
    found.add(10, 10)
    found.add(9, 10)
    for _ in range(30):
        found.add(1, 2)
    assert found.p == 0.5
    assert RECENT_RUNS <= found.runs < RECENT_RUNS + 2
    for _ in range(60):
        found.add(1, 1)
    assert (found.p, found.repeats) == (1.0, 2)


def test_a_fault_that_looked_reliable_is_found_out_and_asked_again(graph: Graph) -> None:
    found_out = 0
    for seed in range(40):
        one = problem(graph, Instance(NEEDED, 0.5, seed))
        one.interesting(range(3, 22))
        if one.trials.unreliable or one.reliability[1] == 0:
            continue
        ask_others(one, 10)
        while one.repeats == 1 and one.interesting(sorted({*range(3, 22)} - {9 + one.journal.calls % 8})) is not None:
            one._answers.clear()
        assert one.repeats > 1
        assert not [key for key, answer in one._answers.items() if not answer]
        found_out += 1
    assert found_out > 2


def test_an_unreliable_fault_of_one_half_is_reduced_to_its_minimum(graph: Graph) -> None:
    exact, calls = 0, []
    for seed in range(30):
        oracle = Instance(NEEDED, 0.5, seed)
        one = problem(graph, oracle)
        reduce_nodes(one, Evidence(suspects=list(range(4, 21))))
        assert set(one.best) >= NEEDED
        exact += set(one.best) == NEEDED
        calls.append(one.journal.calls)
    assert exact >= 22
    assert sum(calls) / len(calls) < 300


def test_a_verdict_ends_with_the_first_run_that_fails(graph: Graph) -> None:
    oracle = Instance(NEEDED)
    one = problem(graph, oracle)
    one.interesting(range(3, 22))
    one.trials.add(1, 4)
    assert one.repeats > 2
    before = len(oracle.asked)
    assert one.interesting(range(4, 22))
    assert len(oracle.asked) == before + 2
    assert not one.interesting(range(5, 22))
    assert len(oracle.asked) == before + 2 + one.repeats


def test_a_good_instance_is_checked_now_and_then(graph: Graph) -> None:
    oracle = Instance(NEEDED)
    one = problem(graph, oracle)
    ask_others(one, 2 * CHECK_EVERY)
    assert one.contamination_checks == 0, "the whole model is dear, and the only best there is"
    assert one.interesting(range(3, 22))
    ask_others(one, 3 * CHECK_EVERY)
    assert one.contamination_checks == 3
    assert (one.contaminated, one.repeats) == (0, 1)


def test_a_spoilt_instance_is_found_out_and_its_answers_are_asked_again(graph: Graph, tmp_path: Path) -> None:
    oracle = Instance(NEEDED, spoil_at=20)
    one = problem(graph, oracle)
    one.journal.keep_in(tmp_path / JOURNAL)
    assert one.interesting(range(3, 22))
    ask_others(one, 20)
    assert oracle.spoilt
    assert not one.interesting(range(4, 22)), "the spoilt instance says so"
    ask_others(one, CHECK_EVERY)
    assert (one.contamination_checks, one.contaminated) == (1, 1)
    assert not oracle.spoilt
    assert one.interesting(range(4, 22))
    one.journal.close()
    lines = [json.loads(line) for line in (tmp_path / JOURNAL).read_text().splitlines()]
    assert [line["fresh"] for line in lines if line.get("what") == "check"] == [False, True]
    assert [line["note"] for line in lines if "note" in line] == [
        "a used instance was spoilt: what it judged since the last check is asked again"
    ]


def test_a_fault_that_went_away_counts_against_its_reliability(graph: Graph) -> None:
    oracle = Instance(NEEDED)
    one = problem(graph, oracle)
    assert one.interesting(range(3, 22))
    oracle.p = 0.0
    ask_others(one, CHECK_EVERY)
    assert (one.contamination_checks, one.contaminated) == (1, 0)
    assert one.trials.unreliable
    assert one.repeats > 1


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_the_summary_tells(tmp_path: Path, p: float) -> None:
    proto, feeds = faults.hosted(2, 2)
    oracle = Instance(frozenset({5}), p, seed=3)
    done = onnxreduce.reduce(proto, oracle, feeds, output=tmp_path / "out", shrinks=Shrinks(passes=()))
    kept = json.loads((tmp_path / "out" / "summary.json").read_text())
    for key in ("reliability", "reliability_p", "reliability_confidence", "contamination_checks", "contaminated"):
        assert kept[key] == done.summary[key]
    if p == 1:
        assert (kept["reliability_p"], kept["repeats"]) == (1.0, 1)
        assert 0.7 < kept["reliability_confidence"] < 1
    else:
        assert 0.2 < kept["reliability_p"] < 0.9
        assert kept["repeats"] > 1
        assert 0.8 < kept["reliability_confidence"] < 1
