"""Planted faults: oracle calls and full-model equivalents of the search beside textbook ddmin, without any runtime.

    python benchmarks/planted.py [--count 100] [--seed 1] [--ddmin-count 20]

Prints a Markdown table. What is planted, and with which evidence, is described in tests/reduction/planted.py. Every
result is checked to be exactly the planted nodes and 1-minimal.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reduction"))

from planted import KINDS, Fault, Graph, Planted, smolvla

from onnxreduce.reduction.search import Evidence, Nodes, reduce_nodes

Search = Callable[[Planted, Evidence], Nodes]


def ddmin(problem: Planted, evidence: Evidence) -> Nodes:
    """Zeller and Hildebrandt 2002, figure 4: subsets, complements, finer; knows no evidence."""
    nodes, parts = tuple(range(problem.size)), 2
    while len(nodes) >= 2:
        cuts = [len(nodes) * at // parts for at in range(parts + 1)]
        subsets = [nodes[low:high] for low, high in itertools.pairwise(cuts)]
        for subset in subsets:
            if problem.interesting(subset):
                nodes, parts = subset, 2
                break
        else:
            for subset in subsets:
                complement = tuple(sorted(set(nodes) - set(subset)))
                if problem.interesting(complement):
                    nodes, parts = complement, max(parts - 1, 2)
                    break
            else:
                if parts == len(nodes):
                    break
                parts = min(2 * parts, len(nodes))
    return nodes


def reduced(search: Search, graph: Graph, fault: Fault) -> Planted:
    """The problem after the search, its result checked."""
    problem = fault.problem(graph)
    found = frozenset(search(problem, fault.evidence))
    assert found == fault.needed, (sorted(found), sorted(fault.needed))
    assert all(len(found) == 1 or problem.asked[found - {node}] is False for node in found)
    return problem


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, 90 % and largest."""
    ordered = sorted(values)
    return " / ".join(f"{ordered[at]:.{digits}f}" for at in (len(ordered) // 2, int(len(ordered) * 0.9), -1))


def row(kind: str, search: Search, graph: Graph, faults: Sequence[Fault]) -> str:
    begun = time.process_time()
    problems = [reduced(search, graph, fault) for fault in faults]
    cells = [
        kind,
        search.__name__,
        str(KINDS[kind].budget) if search is reduce_nodes else "",
        spread([problem.calls for problem in problems]),
        spread([problem.calls + problem.accepted for problem in problems]),
        spread([problem.full_models for problem in problems], 1),
        f"{(time.process_time() - begun) / len(faults):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=100, help="faults of each kind")
    arguments.add_argument("--ddmin-count", type=int, default=20, help="of these, how many ddmin reduces too")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    graph = smolvla()
    print(f"{graph.size} nodes, {chosen.count} faults of each kind; median / 90 % / largest, the golden run included\n")
    print("| fault | search | budget | calls | with confirmations | full-model equivalents | seconds of its own |")
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        faults = KINDS[kind].faults(graph, chosen.count, chosen.seed)
        print(row(kind, reduce_nodes, graph, faults), flush=True)
        print(row(kind, ddmin, graph, faults[: chosen.ddmin_count]), flush=True)


if __name__ == "__main__":
    main()
