"""Which subsets of nodes to try, in which order. Knows no model and no runtime: a `NodeProblem` answers.

The steps follow the project's design (docs/search.md has the reasons and the complexity):

1. `look`: cheap places first. Small sets that the evidence of the golden run points at, then windows around it.
2. `Sweep`: from the first set that is interesting, or from the whole model, remove stretches of nodes in file order,
   each chosen by how much its answer tells and saves under what is believed of the nodes so far.
3. `minimise`: the same along paths in dataflow, then single deletions until none is left that can go (1-minimal).

Nothing is ruled out for good because a larger set was not interesting: faults are not monotone. What a sweep believes
only orders its questions; the last step asks again for every node that is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onnxreduce.reduction.look import look, narrow
from onnxreduce.reduction.minimise import minimise
from onnxreduce.reduction.nodes import Evidence, NodeProblem, Nodes
from onnxreduce.reduction.sweep import Sweep

__all__ = ["Evidence", "NodeProblem", "Nodes", "reduce_nodes"]

LEAST_CHANCE = 0.2
"""What is less likely to go in file order is left to the order of paths."""


def reduce_nodes(problem: NodeProblem, evidence: Evidence) -> Nodes:
    """The fewest nodes found that are interesting; the whole model is known to be."""
    watched = Watched(problem)
    best = look(watched, evidence)
    if best is None:
        best = tuple(range(problem.size))
    elif len(best) > 1:
        best = narrow(watched, best)
    state = Sweep(watched, best, LEAST_CHANCE)
    best = state.run()
    return minimise(watched, best, state.needed, watched.monotone)


class Watched:
    """A problem that remembers which sets were not interesting."""

    def __init__(self, problem: NodeProblem) -> None:
        self.size = problem.size
        self.dear = problem.dear
        self.foresee = problem.foresee
        self.wrong_nodes = problem.wrong_nodes
        self.wrong_ends = problem.wrong_ends
        self.together = problem.together
        self.producers = problem.producers
        self._problem = problem
        self._refused: list[Collection[int]] = []

    def interesting(self, nodes: Collection[int]) -> bool:
        """See `NodeProblem`."""
        found = self._problem.interesting(nodes)
        if not found:
            self._refused.append(nodes)
        return found

    def monotone(self, nodes: Sequence[int]) -> bool:
        """Whether no larger set was refused. If one was, two nodes may go together of which neither can go alone."""
        some = set(nodes)
        return not any(some.issubset(refused) for refused in self._refused if len(refused) >= len(some))
