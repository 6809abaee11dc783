"""`neighbourhood.json`: the kept nodes where they stood in the original, so that a report can draw them there.

The original itself does not lie in the folder; what is drawn of it is small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from onnxreduce.emit.folder import write_atomically
from onnxreduce.graph.index import GraphIndex

NEIGHBOURHOOD = "neighbourhood.json"
MOST = 150
"""Nodes; a drawing of more is a wall."""
HOPS, EACH = 4, 5
"""How far from the kept nodes, and how many neighbours of each node."""


def write_neighbourhood(folder: Path, index: GraphIndex, kept: Iterable[int]) -> None:
    """Write the kept nodes and those around them, `MOST` in all, in file order.

    `total`: nodes of the original. Of each node: `at` (its position in the original), `op`, `name`, `reads` and
    `writes` (names of values, initializers left out), `kept`.
    """
    marked = set(kept)
    nodes = [
        {
            "at": at,
            "op": index.nodes[at].op_type,
            "name": index.nodes[at].name,
            "reads": [value for value in index.reads[at] if value not in index.initializers],
            "writes": index.writes[at],
            "kept": at in marked,
        }
        for at in around(index, sorted(marked))
    ]
    text = json.dumps({"total": len(index), "nodes": nodes}, indent=1, ensure_ascii=False)
    write_atomically(folder / NEIGHBOURHOOD, text.encode("utf-8", "replace"))


def around(index: GraphIndex, kept: Iterable[int]) -> list[int]:
    """Positions of the given nodes and of those nearest to them over producers and consumers, in file order.

    Of a node that many read only the readers nearest in the file are taken: the others say nothing of the place.
    """
    found = dict.fromkeys(kept)
    ring = list(found)
    for _ in range(HOPS):
        near = (sorted(index.neighbours(at), key=partial(_distance, at))[:EACH] for at in ring)
        ring = sorted({at for each in near for at in each if at not in found})
        found.update(dict.fromkeys(ring))
    return sorted(list(found)[:MOST])


def _distance(one: int, other: int) -> int:
    return abs(one - other)
