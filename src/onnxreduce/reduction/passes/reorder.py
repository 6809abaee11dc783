"""Another order of the same nodes, then deletion: execution order decides races and buffer reuse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from onnx import NodeProto

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.passes.nodes import delete_one
from onnxreduce.reduction.shrink import Shrinking

CHAINS_PERMUTED = 4
"""Up to this many independent chains are tried in every order; with more, each is tried first and last."""
LARGEST = 64
"""Nodes; reordering is for what is left of a reduction."""


def reorder(problem: Shrinking) -> None:
    """Bring consumers next to producers, and try independent chains in other orders; then delete again."""
    draft = problem.draft()
    if not 1 < len(draft.nodes) <= LARGEST:
        return
    tried = [[node.SerializeToString() for node in draft.nodes]]
    for order in arrangements(draft.nodes):
        text = [node.SerializeToString() for node in order]
        if text in tried:
            continue
        tried.append(text)
        other = problem.draft()
        other.order(order)
        valid = problem.still_fails(other)
        if valid is None:
            continue
        if problem.attempt(Draft(valid.candidate())):
            return
        for at in reversed(range(len(valid.nodes))):
            if delete_one(problem, valid, at):
                return


def arrangements(nodes: list[NodeProto]) -> Iterator[list[NodeProto]]:
    """Orders within the topological freedom, the most telling first."""
    parts = [_close_together(chain) for chain in chains(nodes)]
    if len(parts) <= CHAINS_PERMUTED:
        orders = list(itertools.permutations(parts))
    else:
        orders = [tuple(parts)]
        for at, chain in enumerate(parts):
            others = parts[:at] + parts[at + 1 :]
            orders += [(chain, *others), (*others, chain)]
    for order in orders:
        yield [node for chain in order for node in chain]
    for at in range(len(nodes) - 1):
        swapped = [*nodes[:at], nodes[at + 1], nodes[at], *nodes[at + 2 :]]
        if not set(nodes[at].output) & set(read_names(nodes[at + 1])):
            yield swapped


def chains(nodes: list[NodeProto]) -> list[list[NodeProto]]:
    """Nodes that are joined by values, as lists in file order."""
    chain_of: dict[str, list[NodeProto]] = {}
    found: list[list[NodeProto]] = []
    for node in nodes:
        joined: list[list[NodeProto]] = []
        for name in read_names(node):
            chain = chain_of.get(name)
            if chain is not None and not any(chain is other for other in joined):
                joined.append(chain)
        merged = [member for chain in joined for member in chain] + [node]
        merged.sort(key=lambda member: next(at for at, other in enumerate(nodes) if other is member))
        found = [chain for chain in found if not any(chain is other for other in joined)] + [merged]
        for member in merged:
            chain_of.update(dict.fromkeys(member.output, merged))
    return found


def _close_together(chain: list[NodeProto]) -> list[NodeProto]:
    """Each node as soon as what it reads is there, the newest value first."""
    order: list[NodeProto] = []
    waiting = list(chain)
    produced = {name for node in chain for name in node.output}
    ready: list[str] = []
    while waiting:
        able = [node for node in waiting if all(n not in produced or n in ready for n in read_names(node))]
        newest = max(able, key=lambda node: max((ready.index(n) for n in read_names(node) if n in ready), default=-1))
        waiting = [node for node in waiting if node is not newest]
        order.append(newest)
        ready.extend(newest.output)
    return order
