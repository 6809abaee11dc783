"""The door to the oracle, behind which sits a real oracle object of its own: unreliable, deceiving, or dear."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import faults
import pytest

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.evidence import Evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import MORE_TRIALS, TRIALS, Budget, Problem, RetractedError, StoppedError
from onnxreduce.reduction.search import reduce_nodes
from onnxreduce.runtimes.recording import Recording, record


@dataclass
class Coin:
    """Fails with probability `p` on each candidate that holds all needed nodes."""

    needed: frozenset[int]
    p: float = 1.0
    seed: int = 0
    signature: Signature = field(default_factory=lambda: Signature(Kind.NUMERIC))
    only_warm: bool = False
    seconds: float = 0.0
    name: str = "coin"

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.asked: list[tuple[tuple[int, ...], bool]] = []

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        differences = [Difference(name, Kind.NUMERIC) for name in candidate.outputs]
        return Golden(Verdict(Outcome.FAILS, Signature(Kind.NUMERIC), differences, seconds=self.seconds))

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        self.asked.append((candidate.nodes, fresh))
        shows = self.needed <= set(candidate.nodes) and self.random.random() < self.p
        if not shows or (fresh and self.only_warm):
            return Verdict(Outcome.PASSES, seconds=self.seconds)
        return Verdict(Outcome.FAILS, self.signature, seconds=self.seconds)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def graph() -> Iterator[tuple[GraphIndex, Recording]]:
    proto, arrays = faults.hosted(3, 2)
    feeds = {name: StoredTensor.from_array(array) for name, array in arrays.items()}
    index = GraphIndex(normalise(load(proto)), feeds)
    recording = record(index, feeds, timeout=60)
    yield index, recording
    recording.close()


Graph = tuple[GraphIndex, Recording]
NEEDED = frozenset({4, 20})


def problem(graph: Graph, oracle: Coin, budget: Budget | None = None) -> Problem:
    index, recording = graph
    golden = oracle.golden(Candidate(index.model, {}, ["out"]))
    return Problem(index, recording, oracle, golden, Journal(), budget)


def test_an_answer_is_asked_for_once(graph: Graph) -> None:
    coin = Coin(NEEDED)
    one = problem(graph, coin)
    assert one.interesting(range(4, 21))
    assert not one.interesting(range(4, 20))
    calls = one.journal.calls
    assert one.interesting(range(20, 3, -1))
    assert not one.interesting(range(4, 20))
    assert one.interesting(one.index.every_node)
    assert one.journal.calls == calls == len(coin.asked)


def test_the_best_is_the_smallest_that_was_found(graph: Graph) -> None:
    one = problem(graph, Coin(NEEDED))
    assert one.best == one.index.every_node
    one.interesting(range(4, 21))
    one.interesting(range(4, 25))
    assert one.best == tuple(range(4, 21))
    assert one.candidate().nodes == one.best


def test_a_fault_that_shows_only_in_a_used_runtime_is_not_accepted(graph: Graph) -> None:
    coin = Coin(NEEDED, only_warm=True)
    one = problem(graph, coin)
    assert not one.interesting(range(4, 21))
    assert [fresh for _, fresh in coin.asked] == [False, True]
    assert one.best == one.index.every_node


def test_another_signature_is_not_followed(graph: Graph) -> None:
    one = problem(graph, Coin(NEEDED, signature=Signature(Kind.RUN_ERROR, "it broke")))
    assert not one.interesting(range(4, 21))


def test_wrong_values_of_another_kind_are_the_same_fault(graph: Graph) -> None:
    assert problem(graph, Coin(NEEDED, signature=Signature(Kind.NAN))).interesting(range(4, 21))


def test_a_reliable_fault_costs_three_runs_once(graph: Graph) -> None:
    one = problem(graph, Coin(NEEDED))
    one.interesting(range(4, 21))
    assert (one.reliability, one.repeats) == ((TRIALS, TRIALS), 1)
    assert one.journal.calls == 1 + TRIALS
    one.interesting((4, *range(6, 21)))
    assert one.journal.calls == 1 + TRIALS + 1, "a warm run; its confirmation waits"


def test_candidates_wait_for_one_confirmation(graph: Graph) -> None:
    coin = Coin(NEEDED)
    one = problem(graph, coin)
    one.interesting(range(3, 22))
    before, best = len(coin.asked), one.best
    for first in (4,):
        assert one.interesting(range(first, 22))
    assert one.interesting(range(4, 21))
    assert (one.best, one.reached) == (best, tuple(range(4, 21))), "what is not confirmed is not the best yet"
    assert [fresh for _, fresh in coin.asked[before:]] == [False, False]
    one.settle()
    assert [fresh for _, fresh in coin.asked[before:]] == [False, False, True]
    assert one.best == one.reached == tuple(range(4, 21))


def test_what_a_fresh_instance_does_not_bear_out_is_asked_again(graph: Graph) -> None:
    class Deceiving(Coin):
        """A warm instance in which, from some call on, less seems to suffice."""

        def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
            verdict = super().judge(candidate, fresh=fresh, alone=alone)
            if not fresh and len(self.asked) > 8 and max(self.needed) in candidate.nodes:
                return Verdict(Outcome.FAILS, self.signature)
            return verdict

    one = problem(graph, Deceiving(NEEDED))
    evidence, rounds = Evidence(suspects=list(range(4, 21))), 0
    while True:
        rounds += 1
        try:
            reduce_nodes(one, evidence)
            one.settle()
            break
        except RetractedError:
            continue
    assert rounds == 2
    assert set(one.best) == NEEDED


@pytest.mark.parametrize("p", [0.8, 0.5, 0.3])
def test_an_unreliable_fault_is_measured_and_repeated(graph: Graph, p: float) -> None:
    found = []
    for seed in range(60):
        one = problem(graph, Coin(NEEDED, p, seed))
        if one.interesting(range(4, 21)) and one.reliability[0] < one.reliability[1]:
            failed, runs = one.reliability
            assert runs == MORE_TRIALS
            assert (1 - failed / runs) ** one.repeats <= 0.05 < (1 - failed / runs) ** (one.repeats - 1)
            found.append(failed / runs)
    assert len(found) > 3
    assert abs(sum(found) / len(found) - p) < 0.15


def test_an_unreliable_fault_is_reduced_all_the_same(graph: Graph) -> None:
    exact = measured = 0
    for seed in range(30):
        one = problem(graph, Coin(NEEDED, 0.6, seed))
        reduce_nodes(one, Evidence(suspects=list(range(4, 21))))
        assert set(one.best) >= NEEDED
        measured += one.repeats > 1
        exact += set(one.best) == NEEDED
    assert measured > 15
    assert exact > 15


def test_a_dear_candidate_is_judged_once_in_a_fresh_runtime(graph: Graph) -> None:
    coin = Coin(NEEDED, seconds=60)
    one = problem(graph, coin)
    assert one.interesting(range(4, 21))
    assert coin.asked == [(tuple(range(4, 21)), True)]


def test_the_budget_of_calls_is_kept(graph: Graph) -> None:
    for calls in range(12):
        coin = Coin(NEEDED)
        one = problem(graph, coin, Budget(calls=calls))
        with pytest.raises(StoppedError):
            reduce_nodes(one, Evidence(suspects=list(range(4, 21))))
        assert len(coin.asked) == calls
        assert set(one.best) >= NEEDED


def test_what_was_confirmed_before_the_budget_ended_is_kept(graph: Graph) -> None:
    one = problem(graph, Coin(NEEDED), Budget(calls=2))
    with pytest.raises(StoppedError):
        one.interesting(range(4, 21))
    assert one.best == tuple(range(4, 21))


def test_the_budget_of_seconds_counts_from_the_start(graph: Graph) -> None:
    coin = Coin(NEEDED)
    with pytest.raises(StoppedError):
        problem(graph, coin, Budget(seconds=0)).interesting(range(4, 21))
    assert coin.asked == []


def test_a_value_that_was_not_recorded_makes_a_candidate_uninteresting(graph: Graph) -> None:
    index, recording = graph
    lacking = {name: tensor for name, tensor in recording.items() if name not in index.writes[3]}
    coin = Coin(NEEDED)
    one = problem((index, lacking), coin)  # type: ignore[arg-type]
    assert not one.interesting(range(4, 21))
    assert list(one.wrong_nodes(range(4, 21))) == []
    assert coin.asked == []
    assert one.interesting(range(21))


def test_one_minimal_is_claimed_only_where_it_was_asked(graph: Graph) -> None:
    one = problem(graph, Coin(NEEDED))
    assert not one.one_minimal()
    one.interesting(sorted(NEEDED))
    assert not one.one_minimal()
    for node in NEEDED:
        assert not one.one_minimal()
        assert not one.interesting([node])
    assert one.one_minimal()
    alone = problem(graph, Coin(frozenset({4})))
    assert alone.interesting([4])
    assert alone.one_minimal()


def test_the_journal_is_written_as_it_goes(graph: Graph, tmp_path: Path) -> None:
    one = problem(graph, Coin(NEEDED))
    one.journal.header({"model": "m"})
    one.interesting(range(4, 21))
    one.journal.keep_in(tmp_path / "journal.jsonl")
    held = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert len(held) == 1 + one.journal.calls + one.journal.steps
    one.interesting(range(4, 20))
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) == len(held) + 2, "a question and its verdict"
    one.journal.close()
