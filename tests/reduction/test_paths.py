"""Upstream sets and paths are those of the plain definitions, on random graphs."""

from __future__ import annotations

import random

import pytest
from planted import Graph

from onnxreduce.reduction import paths
from onnxreduce.reduction.paths import longest_paths, upstream, upstream_of_all

Reads = dict[int, list[int]]


def drawn(rng: random.Random) -> Reads:
    """Part of a random graph."""
    graph = Graph.random(rng.randint(2, 60), rng)
    kept = set(rng.sample(range(graph.size), rng.randint(1, graph.size)))
    return {node: [each for each in graph.producers[node] if each in kept] for node in sorted(kept)}


@pytest.mark.parametrize("at_once", [1, 3, 4096])
def test_upstream_of_all(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_ENDS_AT_ONCE", at_once)
    rng = random.Random(0)
    for _ in range(150):
        reads = drawn(rng)
        ends = rng.sample(sorted(reads), rng.randint(1, min(len(reads), 8)))
        assert upstream_of_all(reads, ends) == set.intersection(*(upstream(reads, [end]) for end in ends))
    assert upstream_of_all({0: [], 1: [0]}, []) == set()


def test_longest_paths() -> None:
    rng = random.Random(0)
    for _ in range(150):
        reads = drawn(rng)
        assert list(longest_paths(reads)) == plainly(reads)


def plainly(reads: Reads) -> list[int]:
    """Measures everything that is left anew for each path."""
    left, order = set(reads), list[int]()
    while left:
        depth, before = dict[int, int](), dict[int, int]()
        for node in sorted(left):
            depth[node] = 1
            for producer in reads[node]:
                if depth.get(producer, 0) >= depth[node]:
                    depth[node], before[node] = depth[producer] + 1, producer
        path = [max(left, key=lambda node: (depth[node], node))]
        while path[-1] in before:
            path.append(before[path[-1]])
        order += path
        left -= set(path)
    return order[::-1]
