"""The only door to the oracle: owns the best so far, the answers, the journal and the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxreduce.graph.candidate import Candidate, cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Golden, Oracle, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.nodes import Nodes
from onnxreduce.reduction.reliability import Reliability

DEAR_SECONDS = 1.0
"""A candidate that is expected to take longer is judged in a fresh instance at once, not twice."""
EXPOSED_BYTES = 256 << 20
"""Most bytes of values that are exposed in one call."""
TRIALS = 3
"""Runs of the first small candidate that fails, its confirmation counted."""
MORE_TRIALS = 10
"""Runs to estimate how often an unreliable fault shows."""
DOUBTS = 3
"""How often a candidate that fails in a used runtime only is run `MORE_TRIALS` times in all."""
CHECK_EVERY = 50
"""Oracle calls from one run of the best so far, whose verdict is known, to the next."""


MOST_WAITING = 8
"""Candidates in a row that wait for their confirmation: a fresh instance compiles all its kernels again, which takes
ten times what a run in a warm one does."""
DEAR_TO_EXPOSE = 5.0
"""Seconds of a full model from which on many windows are tried before all its values are exposed."""


class StoppedError(Exception):
    """The budget is used up; the best so far stands."""


class RetractedError(Exception):
    """A fresh instance does not bear out what the search went on from: it begins again, all other answers known."""


@dataclass(frozen=True)
class Budget:
    """When to stop: oracle calls, and seconds from the start."""

    calls: float = math.inf
    seconds: float = math.inf


class Problem:
    """Deletion of nodes from one model under one oracle, as a `NodeProblem` for the search.

    A candidate is interesting when it fails with the signature of the original in a warm instance of the runtime. It is
    accepted as the best so far when it does so, with the reference run again, in a fresh one. The search may go on from
    some that wait for that; `settle` has the last of them confirmed, and where one is not, they are all asked again and
    none waits any more. Where the fault is unreliable, each of the two takes `repeats` runs, and ends with the first
    that fails.

    `contamination_checks`: runs of the best so far in a warm instance that has run others; `contaminated`: how many of
    them did not fail while a fresh instance did.
    """

    def __init__(
        self,
        index: GraphIndex,
        recorded: Mapping[str, StoredTensor],
        oracle: Oracle,
        golden: Golden,
        journal: Journal,
        budget: Budget | None = None,
        progress: Callable[[Problem], None] | None = None,
    ) -> None:
        assert golden.verdict.signature is not None
        self.index = index
        self.size = len(index)
        self.signature: Signature = golden.verdict.signature
        self.best: tuple[int, ...] = index.every_node
        self.journal = journal
        self.reliability = (0, 0)
        self.trials = Reliability()
        self.contamination_checks = 0
        self.contaminated = 0
        self._recorded = recorded
        self._oracle = oracle
        self._budget = budget or Budget()
        self._progress = progress
        self._seconds_per_node = golden.verdict.seconds / max(self.size, 1)
        self._answers: dict[tuple[int, ...], bool] = {self.best: True}
        self._wrong: dict[tuple[int, ...], list[int]] = {self.best: self._producers_of(golden.verdict)}
        self._if_interesting: Iterable[Nodes] = ()
        self._waiting: list[Nodes] = []
        self._waits_no_more = False
        self._doubts = 0
        self._checked_at = 0
        self._unchecked: list[tuple[int, ...]] = []

    @property
    def repeats(self) -> int:
        """Runs that a verdict takes."""
        return self.trials.repeats

    def interesting(self, nodes: Collection[int]) -> bool:
        """See `NodeProblem`. Raises StoppedError when the budget is used up."""
        key = self.index.closed(nodes)
        if key in self._answers:
            return self._answers[key]
        candidate = self._cut(key)
        verdict = self._fails(candidate) if candidate else None
        self._answers[key] = verdict is not None
        if verdict is not None:
            self._wrong[key] = self._producers_of(verdict)
            if candidate and not self._waiting:
                self._accept(candidate)
            if candidate and self.reliability[1] == 0 and not self._is_dear(candidate):
                self._learn_reliability(candidate)
        else:
            self._unchecked.append(key)
        self._check()
        if self._progress:
            self._progress(self)
        return verdict is not None

    @property
    def reached(self) -> Nodes:
        """Where the search is: the best so far, or what waits for its confirmation."""
        return self._waiting[-1] if self._waiting else self.best

    def settle(self) -> None:
        """Have the last candidate that waits confirmed. Raises RetractedError when it is not."""
        if self._waiting:
            candidate = self.candidate(self._waiting[-1])
            if self._confirm(candidate) is not None:
                self._accept(candidate)

    @property
    def dear(self) -> bool:
        """See `NodeProblem`."""
        return self._seconds_per_node * self.size > DEAR_TO_EXPOSE

    def foresee(self, sets: Iterable[Nodes], if_interesting: Iterable[Nodes] = ()) -> None:
        """See `NodeProblem`: an oracle with several workers judges them ahead."""
        foresee = getattr(self._oracle, "foresee", None)
        if foresee is not None:
            foresee(self._unanswered(sets), None if self._may_wait() else self.signature)
            self._if_interesting = if_interesting

    def _unanswered(self, sets: Iterable[Nodes]) -> Iterator[tuple[Candidate, bool]]:
        """Candidates of these sets, each with whether it is asked of a fresh instance at once."""
        for nodes in sets:
            key = self.index.closed(nodes)
            candidate = self._cut(key) if key and key not in self._answers else None
            if candidate is not None and candidate.outputs:
                dear = self._is_dear(candidate)
                if not self.journal.knows(candidate, fresh=dear, alone=not dear):
                    yield candidate, dear

    def wrong_nodes(self, nodes: Collection[int]) -> Sequence[int]:
        """See `NodeProblem`: one call with the values of these nodes exposed, evenly thinned out if they are large."""
        key = self.index.closed(nodes)
        values = [v for at in key for v in self.index.writes[at] if self.index.promotable(v) and v in self._recorded]
        size = sum(self._recorded[value].blob.length for value in values)
        values = values[:: max(1, math.ceil(size / EXPOSED_BYTES))]
        if not values:
            return []
        candidate = self._cut(key, values)
        if candidate is None:
            return []
        verdict = self._judge("exposed", candidate, alone=True)
        if verdict.signature is None or not self.signature.matches(verdict.signature):
            return []
        return self._producers_of(verdict)

    def wrong_ends(self, nodes: Collection[int]) -> Collection[int]:
        """See `NodeProblem`."""
        return self._wrong.get(self.index.closed(nodes), ())

    def together(self, node: int) -> tuple[int, ...]:
        """See `NodeProblem`."""
        return self.index.together(node)

    def producers(self, node: int) -> Collection[int]:
        """See `NodeProblem`."""
        return {self.index.producer[value] for value in self.index.reads[node] if value in self.index.producer}

    def candidate(self, nodes: Collection[int] | None = None) -> Candidate:
        """The best so far, or other nodes, as a candidate."""
        return cut(self.index, self.index.closed(self.best if nodes is None else nodes), self._recorded)

    def one_minimal(self) -> bool:
        """Whether every single deletion from the best so far was asked and is not interesting."""
        if len(self.best) == 1:
            return True
        for node in self.best:
            smaller = tuple(at for at in self.best if at not in self.index.together(node))
            if smaller and self._answers.get(smaller, True):
                return False
        return True

    def _cut(self, key: tuple[int, ...], outputs: Sequence[str] | None = None) -> Candidate | None:
        """The candidate of these nodes; None when one of the values that it needs could not be recorded."""
        try:
            return cut(self.index, key, self._recorded, outputs=outputs)
        except KeyError:
            return None

    def _fails(self, candidate: Candidate) -> Verdict | None:
        """The verdict of a candidate that is interesting, confirmed in a fresh instance; otherwise None."""
        if not candidate.outputs:
            return None
        if self._is_dear(candidate):
            return self._shows("candidate", candidate, fresh=True)
        verdict = self._shows("candidate", candidate, alone=True)
        if verdict is None:
            return None
        if self._may_wait():
            self._waiting.append(candidate.nodes)
            return verdict
        self.foresee(self._if_interesting)
        return self._confirm(candidate)

    def _may_wait(self) -> bool:
        """Whether the next interesting candidate may wait: not the first small one, whose reliability is learnt."""
        reliable = self.reliability[1] > 0 and not self.trials.unreliable
        return reliable and not self._waits_no_more and len(self._waiting) < MOST_WAITING

    def _accept(self, candidate: Candidate) -> None:
        self._waiting.clear()
        if len(candidate.nodes) < len(self.best):
            self.best = candidate.nodes
            self.journal.step("deletion", candidate)

    def _confirm(self, candidate: Candidate) -> Verdict | None:
        """The verdict of a fresh instance. Raises RetractedError when it is another and candidates wait on it."""
        verdict = self._in_fresh(candidate)
        if verdict is None and self._waiting:
            self.journal.note("a fresh instance does not fail: what the search went on from is asked again")
            for key in self._waiting:
                self._answers.pop(key, None)
            self._waiting.clear()
            self._waits_no_more = True
            raise RetractedError
        self._waiting.clear()
        return verdict

    def _in_fresh(self, candidate: Candidate) -> Verdict | None:
        before = self.journal.calls
        verdict = self._shows("confirm", candidate, fresh=True)
        if self.reliability[1] == 0:
            return verdict
        if verdict is None:
            return self._doubt(candidate)
        self._count(1, self.journal.calls - before)
        return verdict

    def _shows(self, what: str, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict | None:
        """The first verdict that is the original's, in as many runs as its reliability asks for."""
        for _ in range(self.repeats):
            verdict = self._judge(what, candidate, fresh=fresh, alone=alone)
            if verdict.shows(self.signature):
                return verdict
        return None

    def _doubt(self, candidate: Candidate) -> Verdict | None:
        """It failed in a used instance only: is that instance to blame, or does the fault show rarely?"""
        if self._doubts >= DOUBTS:
            return None
        self._doubts += 1
        passed = self.repeats
        for run in range(1, MORE_TRIALS):
            verdict = self._judge("doubt", candidate, fresh=True)
            if verdict.shows(self.signature):
                self._count(1, passed + run)
                return verdict
        return None

    def _count(self, failed: int, runs: int) -> None:
        """Count runs of a candidate that shows the fault. Answers that came too easily are asked for again."""
        before = self.repeats
        self.trials.add(failed, runs)
        if self.trials.unreliable:
            self.reliability = (self.trials.failed, self.trials.runs)
        if before == 1 < self.repeats:
            self._answers = {key: answer for key, answer in self._answers.items() if answer}

    def _check(self) -> None:
        """Now and then run the best so far, whose verdict is known, in the instance that has run so many others."""
        if self.journal.calls - self._checked_at < CHECK_EVERY:
            return
        self._checked_at = self.journal.calls
        candidate = self.candidate()
        if len(self.best) == self.size or self._is_dear(candidate):
            return
        self.contamination_checks += 1
        before = self.journal.calls
        if self._shows("check", candidate, alone=True) is not None:
            self._count(1, self.journal.calls - before)
        elif self._shows("check", candidate, fresh=True) is None:
            self._count(0, self.journal.calls - before)
            return
        else:
            self.contaminated += 1
            self.journal.note("a used instance was spoilt: what it judged since the last check is asked again")
            for key in self._unchecked:
                self._answers.pop(key, None)
        self._unchecked.clear()

    def _is_dear(self, candidate: Candidate) -> bool:
        return len(candidate.nodes) * self._seconds_per_node > DEAR_SECONDS

    def _learn_reliability(self, candidate: Candidate) -> None:
        """How often does it show? Its confirmation counts as the first run."""
        failed = runs = 1
        while runs < (TRIALS if failed == runs else MORE_TRIALS):
            runs += 1
            failed += self._judge("reliability", candidate, fresh=True, alone=True).shows(self.signature)
        self.reliability = (failed, runs)
        self._count(failed, runs)

    def _judge(self, what: str, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        if self.journal.calls >= self._budget.calls or self.journal.elapsed > self._budget.seconds:
            raise StoppedError
        return self.journal.ask(self._oracle, what, candidate, fresh=fresh, alone=alone)

    def _producers_of(self, verdict: Verdict) -> list[int]:
        return sorted({self.index.producer[name] for name in verdict.wrong_outputs if name in self.index.producer})
