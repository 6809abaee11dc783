"""What the golden run says about the place of the fault, at no further cost.

The idea of the output spectrum is that of spectrum-based fault localisation (Jones and Harrold 2005), with graph
outputs as the tests and ancestor nodes as the statements they cover.
"""

from __future__ import annotations

import re

from onnxreduce.graph.index import GraphIndex
from onnxreduce.oracle.verdict import Verdict
from onnxreduce.reduction.paths import upstream_of_all
from onnxreduce.reduction.search import Evidence

_SHORTEST_NAME = 3
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def evidence(index: GraphIndex, verdict: Verdict) -> Evidence:
    """Nodes that the message names, nodes of the operators that it names, and the output spectrum."""
    named = _named(index, verdict.message)
    return Evidence(named, [] if named else _alike(index, verdict.message), suspects(index, verdict))


def suspects(index: GraphIndex, verdict: Verdict) -> list[int]:
    """Nodes that are ancestors of every wrong output and of no right one, in file order.

    Where there are none (more than one fault), the ancestors of the wrong output produced first, less those of right
    ones.
    """
    wrong = [d.output for d in verdict.differences if d.kind is not None and d.output in index.producer]
    right = [d.output for d in verdict.differences if d.kind is None]
    if not wrong:
        return []
    healthy = index.ancestors(right)
    reads = {at: [index.producer[v] for v in values if v in index.producer] for at, values in enumerate(index.reads)}
    common = upstream_of_all(reads, [index.producer[output] for output in wrong]) - healthy
    if not common:
        first = min(wrong, key=lambda output: index.producer[output])
        common = index.ancestors([first]) - healthy
    return sorted(common)


def _named(index: GraphIndex, message: str) -> list[int]:
    if not message:
        return []
    quoted = set(re.findall(r"['\"`]([^'\"`]+)['\"`]", message))
    return [
        at
        for at, node in enumerate(index.nodes)
        if (len(node.name) >= _SHORTEST_NAME and node.name in quoted)
        or any(len(value) >= _SHORTEST_NAME and value in quoted for value in index.writes[at])
    ]


def _alike(index: GraphIndex, message: str) -> list[tuple[int, ...]]:
    words = set(_WORDS.findall(message))
    by_operator: dict[str, list[int]] = {}
    for at, node in enumerate(index.nodes):
        if node.op_type in words:
            by_operator.setdefault(node.op_type, []).append(at)
    return [tuple(nodes) for nodes in by_operator.values()]
