"""Our own work grows with the nodes that it is about, and never with their square.

Counted are steps of the interpreter, in every Python frame: unlike seconds they do not depend on the machine.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper

sys.path[:0] = [str(Path(__file__).parents[1] / "benchmarks"), str(Path(__file__).parent / "reduction")]

from growth import Anything, PlantedOracle, layers  # noqa: E402
from planted import KINDS, Fault, Graph, Planted  # noqa: E402

from onnxreduce.graph.candidate import Candidate, cut  # noqa: E402
from onnxreduce.graph.index import GraphIndex  # noqa: E402
from onnxreduce.graph.model import load, normalise  # noqa: E402
from onnxreduce.reduction.evidence import suspects  # noqa: E402
from onnxreduce.reduction.nodes import by_paths  # noqa: E402
from onnxreduce.reduction.search import reduce_nodes  # noqa: E402

node = helper.make_node
SMALL, LARGE = 200, 800
SLACK = 1.3
"""How much more than four times as much four times the nodes may take: numbers get longer, heaps deeper."""


class Steps:
    """How many steps the interpreter took, and in which file most of them."""

    def __init__(self) -> None:
        self.by_file: dict[str, int] = {}

    @property
    def total(self) -> int:
        return sum(self.by_file.values())


@contextmanager
def counted() -> Iterator[Steps]:
    steps = Steps()
    count = steps.by_file

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call":
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "opcode":
            name = frame.f_code.co_filename
            count[name] = count.get(name, 0) + 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


def steps_of(work: Callable[[], object]) -> Steps:
    work()  # caches of modules and regular expressions
    with counted() as steps:
        work()
    return steps


def assert_linear(of: Callable[[int], Callable[[], object]]) -> None:
    small, large = steps_of(of(SMALL)), steps_of(of(LARGE))
    growth = large.total / small.total / (LARGE / SMALL)
    worst = max(large.by_file, key=lambda name: large.by_file[name] - 4 * small.by_file.get(name, 0))
    assert growth < SLACK, f"{growth:.2f} times as many steps for each node, most of them in {worst}"


def model(nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str]) -> ModelProto:
    floats = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in n] for n in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *floats)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(count: int, name: str = "n{at}", shown: bool = False) -> ModelProto:
    nodes = [node("Neg", [f"v{at}"], [f"v{at + 1}"], name=name.format(at=at)) for at in range(count)]
    return model(nodes, ["v0"], [f"v{at}" for at in range(1, count + 1)] if shown else [f"v{count}"])


def shared(count: int) -> ModelProto:
    nodes = [node("Neg", ["x"], ["mask"])]
    nodes += [node("Add", [f"v{at}", "mask"], [f"v{at + 1}"]) for at in range(count - 1)]
    return model(nodes, ["x", "v0"], [f"v{count - 1}"])


def star(count: int) -> ModelProto:
    return model([node("Neg", ["x"], [f"v{at}"]) for at in range(count)], ["x"], [f"v{at}" for at in range(count)])


def unsorted(count: int) -> ModelProto:
    proto = chain(count)
    nodes = [NodeProto.FromString(each.SerializeToString()) for each in reversed(proto.graph.node)]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


def constants(count: int) -> ModelProto:
    nodes = []
    for at in range(count // 2):
        nodes.append(node("Constant", [], [f"c{at}"], value_floats=[1.0, 2.0]))
        nodes.append(node("Add", [f"v{at}", f"c{at}"], [f"v{at + 1}"]))
    return model(nodes, ["v0"], [f"v{count // 2}"])


def calls(count: int) -> ModelProto:
    """Each call brings a value of the same name along."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    body = [node("Neg", ["a"], ["inner"]), node("Abs", ["inner"], ["b"])]
    nodes = [node("F", [f"v{at}"], [f"v{at + 1}"], domain="my") for at in range(count // 2)]
    proto = model(nodes, ["v0"], [f"v{count // 2}"])
    proto.opset_import.append(imports[1])
    proto.functions.append(helper.make_function("my", "F", ["a"], ["b"], body, imports))
    return proto


def sequences(count: int) -> ModelProto:
    """All nodes are held together by values that are no tensors."""
    nodes = [node("SequenceEmpty", [], ["s0"])]
    nodes += [node("SequenceInsert", [f"s{at}", "x"], [f"s{at + 1}"]) for at in range(count - 2)]
    nodes.append(node("ConcatFromSequence", [f"s{count - 2}"], ["y"], axis=0))
    return model(nodes, ["x"], ["y"])


def bodies(count: int) -> ModelProto:
    """Weights of one name in every body; all move to the main graph."""
    nodes = []
    for at in range(count // 4):
        large = helper.make_tensor("w", TensorProto.FLOAT, [1100], b"\0" * 4400, raw=True)
        ends = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
        then = helper.make_graph([node("Add", [f"v{at}", "w"], ["o"])], "b", [], ends, [large])
        other = helper.make_graph([node("Neg", [f"v{at}"], ["o"])], "b", [], ends)
        nodes.append(node("If", ["c"], [f"v{at + 1}"], then_branch=then, else_branch=other))
    proto = model(nodes, ["v0"], [f"v{count // 4}"])
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return proto


SHAPES: dict[str, Callable[[int], ModelProto]] = {
    "layers": layers,
    "chain": chain,
    "without names": lambda count: chain(count, ""),
    "all of one name": lambda count: chain(count, "same"),
    "every value an output": lambda count: chain(count, shown=True),
    "one value that all read": shared,
    "all beside each other": star,
    "in reverse order": unsorted,
    "constants": constants,
    "calls of one function": calls,
    "sequences": sequences,
    "weights in bodies": bodies,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_model_is_loaded_normalised_and_indexed_in_linear_time(shape: str) -> None:
    def of(count: int) -> Callable[[], object]:
        proto = SHAPES[shape](count)
        return lambda: GraphIndex(normalise(load(proto)))

    assert_linear(of)


@pytest.mark.parametrize("shape", SHAPES)
def test_large_candidates_take_linear_time(shape: str) -> None:
    def of(count: int) -> Callable[[], object]:
        index = GraphIndex(normalise(load(SHAPES[shape](count))))
        return lambda: [cut(index, range(0, len(index), step), Anything()) for step in (1, 2)]

    assert_linear(of)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "sequences"])
def test_small_candidates_cost_the_same_whatever_the_model(shape: str) -> None:
    taken = []
    for count in (SMALL, LARGE):
        index = GraphIndex(normalise(load(SHAPES[shape](count))))
        taken.append(steps_of(lambda index=index: [cut(index, range(at, at + 8), Anything()) for at in (0, 20)]).total)  # type: ignore[misc]
    assert taken[1] < 1.05 * taken[0]


@pytest.mark.parametrize("kind", ["chains of 4 and 3, far apart", "one node"])
def test_the_search_takes_time_for_what_it_judges(kind: str) -> None:
    """Steps for each node of the judged candidates, at the two sizes, whatever the number of calls."""
    each = []
    for count in (SMALL, LARGE):
        graph = Graph.of(GraphIndex(normalise(load(layers(count)))))
        faults = KINDS[kind].faults(graph, 1, 5)
        total = judged = 0
        for fault in faults:
            problem = fault.problem(graph)
            with counted() as steps:
                reduce_nodes(problem, fault.evidence)
            total, judged = total + steps.total, judged + problem.work + graph.size
        each.append(total / judged)
    assert each[1] < SLACK * each[0]


def test_many_wrong_outputs_are_followed_at_once() -> None:
    def of(count: int) -> Callable[[], object]:
        index = GraphIndex(normalise(load(layers_with_all_outputs(count))))
        graph = Graph.of(index)
        oracle = PlantedOracle(
            Fault(frozenset([3]), 3, KINDS["one node"].faults(graph, 1, 0)[0].evidence), graph, index
        )
        verdict = oracle.judge(Candidate(index.model, {}, list(index.graph_outputs), index.every_node))
        assert len(verdict.wrong_outputs) > count // 2
        return lambda: suspects(index, verdict)

    assert_linear(of)


def layers_with_all_outputs(count: int) -> ModelProto:
    proto = layers(count)
    del proto.graph.output[:]
    for each in proto.graph.node:
        proto.graph.output.add(name=each.output[0])
    return proto


@pytest.mark.parametrize("near", [1, 12, 10_000])
def test_paths_of_random_graphs(near: int) -> None:
    """From one chain over many short ones to none: single nodes."""

    def of(count: int) -> Callable[[], object]:
        rng = random.Random(0)
        graph = Graph([[at - rng.randint(1, near)] if at >= near else [] for at in range(count)], [count - 1])
        problem = Planted(graph, frozenset([0]), 0)
        return lambda: by_paths(problem, tuple(range(count)))

    assert_linear(of)
