"""Other sizes of the axes that the graph holds equal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnxreduce.explain.neighbours.proposal import Proposal
from onnxreduce.graph.order import weights
from onnxreduce.reduction.passes.dims import Axis, groups, resized
from onnxreduce.reduction.shrink import Shrinking

NAMED = 2
"""So many axes are named; of more, the first tensors."""
TENSORS = 3
LARGEST = 1 << 24
"""Elements that a tensor may grow to."""


def dims(problem: Shrinking) -> Iterator[Proposal]:
    """Each group of axes at the sizes around its own: one step, half, double, powers of two, 1 and 2."""
    known = {**problem.values, **weights(problem.best)}
    options = []
    for found in groups(problem, shortest=1):
        name, axis = min(found)
        old = known[name].shape[axis]
        # initializers of length 1 are broadcast: they stay as they are where inputs of length 1 grow
        group = frozenset(each for each in found if old > 1 or each[0] in problem.best.feeds)
        if not group or any(known[value].shape[at] != old for value, at in group):
            continue
        largest = max(known[value].size for value, _ in group)
        for rank, new in enumerate(nearest_sizes(old)):
            if largest // old * new <= LARGEST:
                options.append((rank, group, old, new))
    options.sort(key=lambda option: option[0])  # the nearest sizes of all groups before the farther ones
    for _, group, old, new in options:
        yield Proposal(
            "dimension", _words(group), f"{old} → {new}", resized(problem, group, old, new), abs(math.log2(new / old))
        )


def _words(group: frozenset[Axis]) -> str:
    if len(group) <= NAMED:
        return " and ".join(f"axis {axis} of {name}" for name, axis in sorted(group))
    names = sorted({name for name, _ in group})
    more = f" and {len(names) - TENSORS} more" if len(names) > TENSORS else ""
    return f"{len(group)} axes of {', '.join(names[:TENSORS])}{more}"


def nearest_sizes(old: int) -> list[int]:
    """Sizes to try in place of one, by their ratio to it, the nearest first."""
    above = 1 << old.bit_length()
    found = {old - 1, old + 1, old // 2, 2 * old, above, 2 * above, 1, 2} - {0, old}
    return sorted(found, key=lambda new: (abs(math.log2(new / old)), new))
