"""Fewer outputs, and fewer or plainer nodes in between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from onnx import NodeProto, helper

from onnxreduce.graph.order import PLAIN, operator_rank
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.shrink import Shrinking

UNARY = ("Neg", "Abs", "Relu", "Identity")
BINARY = ("Add", "Sub", "Mul")


def outputs(problem: Shrinking) -> None:
    """Drop each graph output, and what only it needed."""
    at = len(problem.best.outputs) - 1
    while at >= 0 and len(problem.best.outputs) > 1:
        draft = problem.draft()
        del draft.proto.graph.output[at]
        problem.attempt(draft)
        at = min(at, len(problem.best.outputs)) - 1


def bypass(problem: Shrinking) -> None:
    """Let readers of a node read one of its inputs of the same shape and dtype; the node goes."""
    for at in reversed(range(len(problem.best.nodes))):
        if at >= len(problem.best.nodes):
            continue
        node = problem.draft().nodes[at]
        for output, name in itertools.product(node.output, read_names(node)):
            if output and same_type(problem, output, name) and _bypassed(problem, at, output, name):
                break


def fold(problem: Shrinking) -> None:
    """Replace a node by its recorded value as an initializer."""
    for at in reversed(range(len(problem.best.nodes))):
        if at >= len(problem.best.nodes):
            continue
        draft = problem.draft()
        node = draft.nodes[at]
        values = [name for name in node.output if name and draft.readers(name)]
        if values and all(name in problem.values for name in values):
            draft.drop(node)
            draft.weights.update((name, problem.values[name]) for name in values)
            problem.attempt(draft)


def simplify(problem: Shrinking) -> None:
    """Replace a node by a plainer operator on some of its inputs."""
    for at in range(len(problem.best.nodes)):
        if at >= len(problem.best.nodes):
            return
        for made in _plainer(problem, problem.draft().nodes[at]):
            draft = problem.draft()
            nodes = draft.nodes
            nodes[at] = made
            draft.order(nodes)
            if problem.attempt(draft):
                break


def same_type(problem: Shrinking, left: str, right: str, *, shape: bool = True) -> bool:
    """Whether two values have the same dtype, and shape."""
    known = {**problem.values, **problem.draft().weights}
    first, second = known.get(left), known.get(right)
    if first is None or second is None or first.elem_type != second.elem_type:
        return False
    return not shape or first.shape == second.shape


def _bypassed(problem: Shrinking, at: int, output: str, name: str) -> bool:
    draft = problem.draft()
    draft.drop(draft.nodes[at])
    produced = {value for node in draft.nodes for value in node.output}
    if draft.is_output(output):
        if name not in produced or draft.is_output(name):
            return False
        for value in draft.proto.graph.output:
            if value.name == output:
                value.name = name
    draft.read_instead(output, name)
    return problem.attempt(draft)


def _plainer(problem: Shrinking, node: NodeProto) -> Iterator[NodeProto]:
    """Plainer nodes with the same output, the plainest first."""
    named = [name for name in node.output if name]
    if len(named) != 1:
        draft = problem.draft()
        named = [name for name in named if draft.readers(name) or draft.is_output(name)]
        if len(named) != 1:
            return
    rank = operator_rank(node.op_type, node.domain)
    fitting = [name for name in read_names(node) if same_type(problem, named[0], name, shape=False)]
    fitting.sort(key=lambda name: not same_type(problem, named[0], name))
    for op_type in PLAIN:
        if operator_rank(op_type) >= rank and not (len(fitting) > 1 and op_type in UNARY):
            continue
        if op_type in UNARY:
            for name in fitting:
                yield helper.make_node(op_type, [name], named, name=node.name)
        elif op_type in BINARY and operator_rank(op_type) < rank:
            for pair in itertools.permutations(fitting, 2):
                yield helper.make_node(op_type, list(pair), named, name=node.name)
