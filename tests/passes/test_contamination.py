"""A used instance that no longer shows the fault: shrinking finds that out, and asks again."""

from __future__ import annotations

import planted_faults
import pytest
from planted_faults import PlantedOracle, graph, holds, named, operators, shrinking

from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction import shrink as room
from onnxreduce.reduction.rounds import shrink
from onnxreduce.reduction.shrink import Shrinking

PASSES = "nodes dims"
EVERY = 8


class Spoilt(PlantedOracle):
    """From one call in the used instance on nothing fails there, until another takes its place."""

    def __init__(self, fault: planted_faults.Fault, at: int) -> None:
        super().__init__(fault)
        self.at = at
        self.used_up, self.done = False, False

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        if fresh:
            self.used_up = False
        elif self.calls >= self.at and not self.done:
            self.used_up = self.done = True
        verdict = super().judge(candidate, fresh=fresh, alone=alone)
        return Verdict(Outcome.PASSES) if self.used_up else verdict


def problem() -> Shrinking:
    chain = " ".join(f"v{at + 1} = {op} (v{at})" for at, op in enumerate(["Neg", "Abs", "Exp", "Neg", "Relu", "Neg"]))
    model = graph(f"(float[6,5,4] v0) => (float[6,5,4] v6) {{ {chain} }}")
    return shrinking(model, holds("Exp", "Relu"))


def shrunk(at: int | None) -> Shrinking:
    found = problem()
    if at is not None:
        assert isinstance(found.oracle, PlantedOracle)
        found.oracle = Spoilt(found.oracle.fault, at)
    shrink(found, named(PASSES))
    return found


@pytest.mark.parametrize("at", [1, 2, 4, 6, 9])
def test_a_spoilt_instance_changes_nothing_in_the_end(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CHECK_EVERY", EVERY)
    clean, found = shrunk(None), shrunk(at)
    assert clean.contaminated == 0
    assert found.best_size == clean.best_size
    assert operators(found.best) == operators(clean.best)
    assert found.contaminated == 1
    assert found.contamination_checks >= 1


def test_without_checks_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    monkeypatch.setattr(Shrinking, "spoilt", lambda self: False)
    assert shrunk(None).best_size < shrunk(1).best_size


def test_a_check_is_in_the_journal_and_costs_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str] = []
    add = room.Journal.add

    def spied(self: room.Journal, what: str, *args: object, **kwargs: object) -> None:
        checks.append(what)
        add(self, what, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(room.Journal, "add", spied)
    found = shrunk(None)
    assert checks.count("check") == found.contamination_checks == 1
    assert not found.spoilt()
    assert checks.count("check") == 1
