"""How the time of our own code grows with the model: graphs of 2,000, 20,000 and 100,000 nodes, no runtime, no weights.

    python benchmarks/growth.py [--nodes 2000,20000,100000] [--seed 1]

Prints two Markdown tables: what is done once a model and for single candidates, and whole deletions of nodes, each with
a planted fault (tests/reduction/planted.py describes them). Times are CPU time of this process, less that of the
planted oracle; what should stay the same from row to row is microseconds for each node that a judged candidate holds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto, TensorProto, helper

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reduction"))

from candidates import Anything
from planted import KINDS, Fault, Graph

from onnxreduce.graph.candidate import Candidate, cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.evidence import evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import Problem
from onnxreduce.reduction.search import reduce_nodes
from onnxreduce.runtimes.base import request

SIZES = (2_000, 20_000, 100_000)
DRAWS = 20
LAYER = (
    ("Mul", "{x}", "{x}"),
    ("Sqrt", "{0}"),
    ("Div", "{x}", "{1}"),
    ("Neg", "{2}"),
    ("Abs", "{2}"),
    ("Mul", "{3}", "cosine"),
    ("Mul", "{4}", "sine"),
    ("Add", "{5}", "{6}"),
    ("Tanh", "{2}"),
    ("Mul", "{7}", "{8}"),
    ("Add", "{9}", "mask"),
    ("Relu", "{10}"),
    ("Exp", "{11}"),
    ("Div", "{11}", "{12}"),
    ("Mul", "{13}", "{8}"),
    ("Neg", "{14}"),
    ("Add", "{15}", "{x}"),
    ("Sigmoid", "{16}"),
    ("Mul", "{17}", "{16}"),
    ("Add", "{18}", "{x}"),
)
"""One layer: operators with what they read, where {x} is what the layer before gave and {n} the layer's own node n."""


def layers(nodes: int) -> ModelProto:
    """A model of at least three values that every layer reads, and of one output for every tenth layer."""
    made = [helper.make_node(op, ["angles"], [name]) for op, name in (("Cos", "cosine"), ("Sin", "sine"))]
    made.append(helper.make_node("Neg", ["padding"], ["mask"]))
    outputs, last = list[str](), "embedded"
    for layer in range((nodes - len(made)) // len(LAYER)):
        names = [f"/layers.{layer}/{op}_{at}_output_0" for at, (op, *_) in enumerate(LAYER)]
        for at, (op, *reads) in enumerate(LAYER):
            read = [text.format(*names, x=last) for text in reads]
            made.append(helper.make_node(op, read, [names[at]], name=f"/layers.{layer}/{op}_{at}"))
        last = names[-1]
        if layer % 10 == 0:
            outputs.append(names[8])
    made += [helper.make_node("Neg", [last], [f"end{at}"], name=f"/end{at}") for at in range(nodes - len(made))]
    graph = helper.make_graph(
        made,
        "layers",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in ("embedded", "angles", "padding")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*outputs, made[-1].output[0])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@dataclass
class PlantedOracle:
    """Fails on every candidate that holds all nodes of a fault; wrong is what lies downstream of the faulty one.

    `seconds`: CPU time that its answers took.
    """

    fault: Fault
    graph: Graph
    index: GraphIndex
    name: str = "planted"
    seconds: float = 0.0
    signature: Signature = field(default_factory=lambda: Signature(Kind.NUMERIC))

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        """Judge the original."""
        return Golden(self.judge(candidate))

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        """Judge a candidate."""
        begun = time.process_time()
        kept = set(candidate.nodes)
        fails, below = self.fault.needed <= kept, set[int]()
        if fails:
            for at in sorted(kept):
                if at == self.fault.faulty or not below.isdisjoint(self.graph.producers[at]):
                    below.add(at)
        wrong = {name: fails and self.index.producer[name] in below for name in candidate.outputs}
        differences = [Difference(name, Kind.NUMERIC if bad else None) for name, bad in wrong.items()]
        self.seconds += time.process_time() - begun
        if not fails:
            return Verdict(Outcome.PASSES, None, differences)
        return Verdict(Outcome.FAILS, self.signature, differences)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """No facts."""
        return {}

    def close(self) -> None:
        """Nothing to release."""


def milliseconds(index: GraphIndex, nodes: list[int]) -> float:
    begun = time.process_time()
    request(cut(index, nodes, Anything()))
    return 1e3 * (time.process_time() - begun)


def once(nodes: int) -> GraphIndex:
    """Load, normalise and index a model, cut some candidates, and print a row on it."""
    proto = layers(nodes)
    times = list[float]()
    begun = time.process_time()
    loaded = load(proto)
    times.append(time.process_time() - begun)
    begun = time.process_time()
    model = normalise(loaded)
    times.append(time.process_time() - begun)
    begun = time.process_time()
    index = GraphIndex(model)
    times.append(time.process_time() - begun)
    rng, total = random.Random(0), len(index)
    kinds: list[Callable[[], list[int]]] = [
        lambda: list(range((start := rng.randrange(total - 16)), start + 16)),
        lambda: [at for at in range(total) if rng.random() < 0.5],
        lambda: list(range(total)),
    ]
    cells = [f"{each:.2f}" for each in (*times, sum(times))]
    for draw in kinds:
        chosen = [draw() for _ in range(DRAWS)]
        spent = statistics.median(milliseconds(index, nodes) for nodes in chosen)
        cells.append(f"{spent:.2f} ({1e3 * spent / len(chosen[0]):.1f})")
    print(f"| {total} | {' | '.join(cells)} |", flush=True)
    return index


def deletion(index: GraphIndex, kind: str, seed: int) -> tuple[list[str], float]:
    """A whole deletion of nodes: cells of a row, and microseconds of our own for each node judged."""
    graph = Graph.of(index)
    (fault,) = KINDS[kind].faults(graph, 1, seed)
    oracle = PlantedOracle(fault, graph, index)
    golden = oracle.golden(Candidate(index.model, {}, list(index.graph_outputs), index.every_node))
    journal = Journal()
    oracle.seconds = 0.0
    begun = time.process_time()
    problem = Problem(index, Anything(), oracle, golden, journal)
    found = reduce_nodes(problem, evidence(index, golden.verdict))
    spent = time.process_time() - begun - oracle.seconds
    assert set(found) == fault.needed, (found, fault)
    touched = journal.nodes_judged + len(index)
    full = f"{journal.nodes_judged / len(index):.1f}"
    return [str(len(index)), kind, str(journal.calls), full, f"{spent:.2f}"], 1e6 * spent / touched


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", default=",".join(map(str, SIZES)), help="sizes, each 2,000 or more")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    print("| nodes | load s | normalise s | index s | together s | 16 nodes: ms (µs a node) | random half | all |")
    print("|---|---|---|---|---|---|---|---|")
    indexes = [once(int(nodes)) for nodes in chosen.nodes.split(",")]
    print(
        "\n| nodes | fault | calls | full-model equivalents | own seconds | µs for each node judged | of the smallest |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in KINDS:
        smallest = 0.0
        for index in indexes:
            cells, each = deletion(index, kind, chosen.seed)
            smallest = smallest or each
            print(f"| {' | '.join(cells)} | {each:.1f} | {each / smallest:.1f} |", flush=True)


if __name__ == "__main__":
    main()
