"""Deletion of nodes once more: what shrinks elsewhere frees nodes."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.shrink import Shrinking

PAIRS_UP_TO = 6
"""Pairs are tried for at most this many nodes."""


def nodes(problem: Shrinking) -> None:
    """Delete each node, then each pair of the few that are left; values still read become graph inputs."""
    at = len(problem.best.nodes) - 1
    while at >= 0:
        delete_one(problem, problem.draft(), at)
        at = min(at, len(problem.best.nodes)) - 1
    count = len(problem.best.nodes)
    if 2 < count <= PAIRS_UP_TO:
        for pair in itertools.combinations(range(count), 2):
            if problem.attempt(without(problem, problem.draft(), pair, expose=True)):
                return


def delete_one(problem: Shrinking, start: Draft, at: int) -> bool:
    """Offer `start` without one node: with what only that node needed gone too, then with it kept as outputs."""
    return any(
        problem.attempt(without(problem, Draft(start.candidate()), (at,), expose=expose)) for expose in (False, True)
    )


def without(problem: Shrinking, draft: Draft, positions: Collection[int], *, expose: bool) -> Draft:
    """A draft without some nodes. `expose`: values that nothing reads any more become graph outputs."""
    gone = [node for at, node in enumerate(draft.nodes) if at in positions]
    for node in gone:
        draft.drop(node)
    for node in gone:
        for value in node.output:
            if value and value in problem.values and draft.readers(value):
                draft.promote(value, problem.values[value])
    if expose:
        produced = {name for node in draft.nodes for name in node.output}
        for node in gone:
            for value in read_names(node):
                if value in produced and not draft.readers(value) and not draft.is_output(value):
                    draft.proto.graph.output.add().name = value
    return draft
