"""Try the changes of a model in turn, within a number of calls and a time, and keep the nearest model that is right.

A neighbour is valid and the reference runs it and is sure of it, as in shrinking. It is judged in a warm runtime; one
that passes there is judged again in fresh ones, as often as the fault's reliability asks for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from onnxreduce.explain.explanation import Measured, Neighbour
from onnxreduce.explain.neighbours.proposal import Proposal
from onnxreduce.explain.neighbours.table import CHANGES
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.shrink import Shrinking


@dataclass(frozen=True)
class Near:
    """A neighbour with its model.

    `distance`, to be compared with `<`: the wrong outputs that it lacks, the place of its change in the table, and how
    far that goes.
    """

    neighbour: Neighbour
    candidate: Candidate
    distance: tuple[int, int, float]


def find_neighbours(problem: Shrinking, wrong: Collection[str], budget: Budget) -> Iterator[Near]:
    """The neighbours of the problem's best in turn, each kind of change getting its share of the budget.

    `problem` has been started; `wrong`: names of its outputs that are wrong. A model is not right because an output
    that was wrong is no longer asked for: such are left out, and a model without the node that writes it comes last.
    """
    end = time.monotonic() + budget.seconds
    asked: set[str] = {Draft(problem.best).candidate().digest()}
    calls = problem.journal.calls
    for place, proposal in _in_turn(problem):
        if time.monotonic() > end or problem.journal.calls - calls >= budget.calls:
            return
        for draft in proposal.drafts:
            candidate = _valid(problem, draft)
            if candidate is None:
                continue
            digest, lost = candidate.digest(), len(set(wrong) - set(candidate.outputs))
            if digest not in asked and not (lost and proposal.kind == "output"):
                asked.add(digest)
                measured = Measured.of(_judged(problem, candidate))
                neighbour = Neighbour(proposal.kind, proposal.subject, proposal.change, measured)
                yield Near(neighbour, candidate, (lost, place, proposal.distance))
            break


def _in_turn(problem: Shrinking) -> Iterator[tuple[int, Proposal]]:
    """One proposal of each change after the other, until there are none left."""
    waiting: list[tuple[int, Iterator[Proposal]]] = [
        (place, iter(change.propose(problem))) for place, change in enumerate(CHANGES)
    ]
    while waiting:
        left = []
        for place, proposals in waiting:
            proposal = next(proposals, None)
            if proposal is not None:
                yield place, proposal
                left.append((place, proposals))
        waiting = left


def _valid(problem: Shrinking, draft: Draft) -> Candidate | None:
    draft.tidy()
    if not draft.proto.graph.node or not draft.proto.graph.output:
        return None
    found = problem.sound(draft)
    if found is None:
        return None
    candidate, values = found
    return replace(candidate, expected={name: values[name] for name in candidate.outputs})


def _judged(problem: Shrinking, candidate: Candidate) -> Verdict:
    """The verdict of a warm runtime, or where that passes, of the first fresh one that does not."""
    verdict = _ask(problem, candidate, fresh=False)
    for _ in range(problem.repeats):
        if verdict.outcome is not Outcome.PASSES:
            break
        verdict = _ask(problem, candidate, fresh=True)
    return verdict


def _ask(problem: Shrinking, candidate: Candidate, *, fresh: bool) -> Verdict:
    verdict = problem.oracle.judge(candidate, fresh=fresh, alone=not fresh)
    problem.journal.add("neighbour", candidate.nodes, verdict, fresh=fresh)
    return verdict


def nearest(found: Iterable[Near]) -> list[Near]:
    """Those that are right, the nearest first."""
    return sorted((near for near in found if near.neighbour.heals), key=lambda near: near.distance)
