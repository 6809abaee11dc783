"""Which nodes lie upstream of others, and which make up paths: in time that grows with the edges, not their square.

`reads` gives for each node, by its position in the file, the positions of the nodes that it reads: they come before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence

Reads = Mapping[int, Collection[int]]

_ENDS_AT_ONCE = 4096
"""Ends that one pass over the nodes follows, a bit each."""


def upstream(reads: Reads, ends: Iterable[int]) -> set[int]:
    """The given nodes and all that they depend on."""
    found, stack = set[int](), list(ends)
    while stack:
        node = stack.pop()
        if node in reads and node not in found:
            found.add(node)
            stack.extend(reads[node])
    return found


def upstream_of_all(reads: Reads, ends: Iterable[int]) -> set[int]:
    """Nodes that every one of the given nodes depends on, or is. Of no ends: none."""
    wanted = sorted(_first(reads, set(ends)))
    common = upstream(reads, wanted[:1])
    for low in range(1, len(wanted), _ENDS_AT_ONCE):
        common &= _common(reads, wanted[low : low + _ENDS_AT_ONCE])
    return common


def longest_paths(reads: Reads) -> Sequence[int]:
    """All nodes as paths in dataflow, one after the other: the longest last, before it the longest of the rest, ...

    Where several are longest, the one that ends last in the file. After each path only what lay below it is looked at
    again.
    """
    readers: dict[int, list[int]] = {node: [] for node in reads}
    for node in reads:
        for producer in reads[node]:
            readers[producer].append(node)
    depth, before = dict[int, int](), dict[int, int]()
    for node in sorted(reads):
        _measure(node, reads, depth, before)
    longest = [(-length, -node) for node, length in depth.items()]
    heapq.heapify(longest)
    order = list[int]()
    while longest:
        length, end = -longest[0][0], -longest[0][1]
        heapq.heappop(longest)
        if depth.get(end) != length:
            continue  # it is gone, or its path has become shorter
        path = [end]
        while path[-1] in before:
            path.append(before[path[-1]])
        order.extend(path)
        for node in path:
            del depth[node]
        queued = {reader for node in path for reader in readers[node] if reader in depth}
        todo = sorted(queued)
        while todo:
            node = heapq.heappop(todo)
            if _measure(node, reads, depth, before):
                heapq.heappush(longest, (-depth[node], -node))
                for reader in readers[node]:
                    if reader in depth and reader not in queued:
                        queued.add(reader)
                        heapq.heappush(todo, reader)
    return order[::-1]


def _measure(node: int, reads: Reads, depth: dict[int, int], before: dict[int, int]) -> bool:
    """Take note of the longest path that ends at a node, from those of the nodes it reads; whether it has changed."""
    was = depth.get(node)
    before.pop(node, None)
    depth[node] = 1
    for producer in reads[node]:
        if depth.get(producer, 0) >= depth[node]:
            depth[node], before[node] = depth[producer] + 1, producer
    return depth[node] != was


def _first(reads: Reads, ends: set[int]) -> set[int]:
    """The ends that depend on no other end: what these depend on, all others do too."""
    below = set[int]()
    for node in sorted(reads):
        if not below.isdisjoint(reads[node]) or not ends.isdisjoint(reads[node]):
            below.add(node)
    return (ends - below).intersection(reads)


def _common(reads: Reads, ends: Sequence[int]) -> set[int]:
    """Nodes that all ends depend on: who is reached from which end goes from readers to what they read."""
    reached = {node: 1 << bit for bit, node in enumerate(ends)}
    everyone, found = (1 << len(ends)) - 1, set[int]()
    for node in sorted(reads, reverse=True):
        ends_of_node = reached.pop(node, 0)
        if ends_of_node == everyone:
            found.add(node)
        if ends_of_node:
            for producer in reads[node]:
                reached[producer] = reached.get(producer, 0) | ends_of_node
    return found
