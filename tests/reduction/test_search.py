"""The search on planted faults: what is left, how many calls it takes, and what must hold whatever the answers are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import KINDS, Graph, Planted, mask, race, smolvla

from onnxreduce.reduction import belief
from onnxreduce.reduction.belief import Belief
from onnxreduce.reduction.belief import Kind as Known
from onnxreduce.reduction.minimise import minimise
from onnxreduce.reduction.nodes import by_paths, suspects_within
from onnxreduce.reduction.search import Evidence, reduce_nodes

SEEDS = {"12 scattered nodes": 3, "chains of 4 and 3, far apart": 10}
RACE = (1425, 1426, 1427, 1429, 1431, 1433, 1434, 1436)


def is_minimal(problem: Planted, nodes: tuple[int, ...]) -> bool:
    """Every single deletion was asked on exactly these nodes, and none is interesting."""
    smaller = {frozenset(nodes) - frozenset(problem.together(node)) for node in nodes}
    return all(problem.asked.get(kept) is False for kept in smaller if kept)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_faults_reduce_to_their_nodes_within_budget(kind: str) -> None:
    graph, calls = smolvla(), []
    for fault in KINDS[kind].faults(graph, SEEDS.get(kind, 20), seed=1):
        problem = fault.problem(graph)
        found = reduce_nodes(problem, fault.evidence)
        assert frozenset(found) == fault.needed
        assert is_minimal(problem, found)
        calls.append(problem.calls)
    assert sorted(calls)[len(calls) // 2] <= KINDS[kind].budget
    assert max(calls) <= KINDS[kind].budget * 1.75


@pytest.mark.parametrize("spectrum", ["wide", "narrow"])
@pytest.mark.parametrize("shift", range(0, 32, 5))
def test_a_race_reduces_in_few_calls_with_every_step_confirmed(spectrum: str, shift: int) -> None:
    graph, at = smolvla(), [node + shift for node in RACE]
    problem = Planted(graph, frozenset(at), at[2], accepts=race(at[0], at[-2]))
    suspects = range(20, at[3] + 2) if spectrum == "wide" else range(at[0] - 10, at[-1] + 6)
    found = reduce_nodes(problem, Evidence(suspects=suspects))
    assert found == tuple(at)
    assert is_minimal(problem, found)
    assert problem.calls + problem.accepted <= (50 if spectrum == "wide" else 70)
    assert problem.full_models <= 1.5


@pytest.mark.parametrize("kind", ["chains of 4 and 3, near", "chain of 20", "near, anywhere"])
def test_masked_candidates_cost_calls_but_not_minimality(kind: str) -> None:
    graph = smolvla()
    for seed, fault in enumerate(KINDS[kind].faults(graph, 8, seed=2)):
        problem = fault.problem(graph, mask(0.2, seed))
        found = reduce_nodes(problem, fault.evidence)
        assert problem.asked[frozenset(found)]
        assert is_minimal(problem, found)
        assert len(found) <= len(fault.needed) + 4
        assert problem.calls <= 160


@st.composite
def problems(draw: st.DrawFn) -> tuple[Planted, Evidence]:
    rng = random.Random(draw(st.integers(0, 2**32)))
    graph = Graph.random(draw(st.integers(1, 90)), rng)
    needed = rng.sample(range(graph.size), min(graph.size, draw(st.integers(1, 9))))
    faulty = rng.choice(needed)
    groups: dict[int, tuple[int, ...]] = {}
    if draw(st.booleans()):
        for start in range(0, graph.size - 5, 11):
            group = (start, start + 2, start + 5)
            groups.update(dict.fromkeys(group, group))
    problem = Planted(graph, frozenset(needed), faulty, draw(st.booleans()), groups=groups)
    share = draw(st.sampled_from([0.0, 0.2, 0.6]))
    if share:
        problem.accepts = mask(share, rng.randrange(1000))
    evidence = graph.evidence(faulty)
    if evidence is None or draw(st.booleans()):
        evidence = Evidence(named=[rng.randrange(graph.size)], alike=[tuple(rng.sample(range(graph.size), 1))])
    return problem, evidence


def copy(problem: Planted) -> Planted:
    return Planted(problem.graph, problem.needed, problem.faulty, problem.exposable, problem.accepts, problem.groups)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_the_result_is_interesting_minimal_deterministic_and_bounded(case: tuple[Planted, Evidence]) -> None:
    problem, evidence = case
    found = reduce_nodes(problem, evidence)
    assert problem.asked[frozenset(found)]
    assert found == tuple(sorted(found))
    assert is_minimal(problem, found)
    assert problem.calls <= problem.size**2 / 2 + 20 * problem.size + 40
    again = copy(problem)
    assert reduce_nodes(again, evidence) == found
    assert list(again.asked.items()) == list(problem.asked.items())
    if problem.accepts is None:
        assert set(found) == {member for node in problem.needed for member in problem.together(node)}


def test_nothing_but_the_whole_model_is_interesting() -> None:
    graph = Graph.random(12, random.Random(0))
    everything = tuple(range(12))
    problem = Planted(graph, frozenset(everything), 11)
    assert reduce_nodes(problem, Evidence()) == everything
    assert problem.calls <= 40


def test_a_named_node_is_tried_first() -> None:
    graph = smolvla()
    problem = Planted(graph, frozenset([700]), 700)
    assert reduce_nodes(problem, Evidence(named=[700])) == (700,)
    assert problem.calls <= 3


def test_two_that_can_only_go_together_go_as_a_pair_where_faults_are_not_monotone() -> None:
    graph = Graph([[], [0], [0], [2], [1, 3], [4]], [5])
    problem = Planted(graph, frozenset([0, 5]), 5, accepts=lambda kept: (1 in kept) == (4 in kept))
    assert problem.interesting((0, 1, 4, 5))
    found = minimise(problem, (0, 1, 4, 5), needed=(0, 1, 4, 5), monotone=lambda nodes: True)
    assert found == (0, 1, 4, 5)
    assert minimise(problem, found, needed=found, monotone=lambda nodes: False) == (0, 5)


def test_suspects_are_upstream_of_wrong_ends_only() -> None:
    graph = Graph([[], [0], [1], [1], [0]], [2, 3, 4])
    problem = Planted(graph, frozenset([1]), 1)
    assert suspects_within(problem, (0, 1, 2, 3, 4)) == {1}
    assert problem.interesting((0, 1, 2))
    assert suspects_within(problem, (0, 1, 2)) == {0, 1, 2}


def test_paths_end_with_the_longest() -> None:
    graph = Graph([[], [], [0], [1], [2], [4]], [5])
    assert by_paths(Planted(graph, frozenset([5]), 5), (0, 1, 2, 3, 4, 5)) == (1, 3, 0, 2, 4, 5)


def test_beliefs_are_those_of_bayes() -> None:
    stretches = [(Known.UNKNOWN, 2), (Known.NEEDED, 1), (Known.SOME, 3), (Known.FREE, 2), (Known.UNKNOWN, 2)]
    cuts = Belief(10).cuts(stretches)
    for at, (_, length) in enumerate(stretches):
        if at in (0, 2, 4):
            np.testing.assert_allclose(cuts[at][0], [chance(stretches, at, range(n)) for n in range(length + 1)])
            last = [chance(stretches, at, range(length - n, length)) for n in range(length + 1)]
            np.testing.assert_allclose(cuts[at][1], last)


def chance(stretches: list[tuple[Known, int]], at: int, free: range) -> float:
    """By adding up all worlds."""
    begin = sum(length for _, length in stretches[:at])
    total = hit = 0.0
    for begins in belief.RUN_BEGINS:
        for world, weight in worlds(float(begins), stretches):
            total += weight
            hit += weight * (not any(world[begin + node] for node in free))
    return hit / total


def worlds(begins: float, stretches: list[tuple[Known, int]]) -> Iterator[tuple[tuple[int, ...], float]]:
    ends = belief.RUN_ENDS
    step = {(0, 0): 1 - begins, (0, 1): begins, (1, 0): ends, (1, 1): 1 - ends}
    for world in itertools.product((0, 1), repeat=sum(length for _, length in stretches)):
        place, fits = 0, True
        for kind, length in stretches:
            part = world[place : place + length]
            fits &= {Known.FREE: not any(part), Known.UNKNOWN: True}.get(kind, any(part))
            place += length
        if fits:
            usual = (ends / (begins + ends), begins / (begins + ends))
            weight = sum(usual[before] * step[before, world[0]] for before in (0, 1))
            yield world, weight * float(np.prod([step[pair] for pair in itertools.pairwise(world)]))
