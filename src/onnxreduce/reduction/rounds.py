"""Which passes run, and in which order: the loop over their table, until nothing more is accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from onnxreduce.graph.draft import Draft
from onnxreduce.reduction.shrink import PassCount, Shrinking

FEW_NODES = 5
"""With so many left, and none in bodies, content is shrunk first."""
ROUNDS = 20
"""More rounds than any model has needed; a bound all the same."""
TOGETHER = "together"


@dataclass(frozen=True)
class Pass:
    """A row of the table. `changes`: the kind that `--keep` forbids, if any. `structural`: it takes nodes or ends away;
    `deletes`: by the same deletions as the search before.

    `boldly` makes the most that the pass hopes for out of a draft, to be tried together with that of others.
    """

    name: str
    run: Callable[[Shrinking], None]
    help: str
    changes: str = ""
    boldly: Callable[[Shrinking, Draft], None] | None = None
    structural: bool = False
    deletes: bool = False


def shrink(problem: Shrinking, passes: Sequence[Pass]) -> None:
    """Run the passes over and over until nothing more is accepted.

    Those over the content of the model come first, to a fixpoint: then each try of those over its structure runs on a
    tiny model, and is not run again because a value or a name has changed since. Only while many nodes are left
    structure comes first.
    """
    allowed = [one for one in passes if one.changes not in problem.keep]
    content = [one for one in allowed if not one.structural]
    structural = [one for one in allowed if one.structural]
    _cut_down(problem, structural)
    for _ in range(ROUNDS):
        before, spoilt = problem.best_size, problem.contaminated
        _settle(problem, content)
        for one in structural:
            _run(problem, one)
        if problem.best_size == before and problem.contaminated == spoilt and not problem.spoilt():
            return


def _cut_down(problem: Shrinking, structural: Sequence[Pass]) -> None:
    """Bring the model down to a few nodes, if it can be. Deletion has just been tried on what there is at first."""
    begun = problem.best_size
    for _ in range(ROUNDS):
        before = problem.best_size
        for one in structural:
            if len(problem.best.nodes) == problem.best_size[0] <= FEW_NODES:
                return
            if not one.deletes or problem.best_size != begun:
                _run(problem, one)
        if problem.best_size == before:
            return


def _settle(problem: Shrinking, content: Sequence[Pass]) -> None:
    """Run passes over content to a fixpoint. They begin with all that they hope for in one draft: most often that is
    the end of the matter, at the price of one step.
    """
    bold = [partial(one.boldly, problem) for one in content if one.boldly is not None]
    for _ in range(ROUNDS):
        before = problem.best_size
        if len(bold) > 1:
            problem.current = problem.counts.setdefault(TOGETHER, PassCount(TOGETHER))
            problem.together(bold)
        for one in content:
            _run(problem, one)
        if problem.best_size == before:
            return


def _run(problem: Shrinking, one: Pass) -> None:
    problem.current = problem.counts.setdefault(one.name, PassCount(one.name))
    one.run(problem)
