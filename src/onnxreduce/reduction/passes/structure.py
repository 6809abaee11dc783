"""Fewer outputs, and fewer or plainer nodes in between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

from onnx import NodeProto, defs, helper

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.order import PLAIN, operator_rank
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.shrink import Edit, Shrinking

UNARY = ("Neg", "Abs", "Relu", "Identity")
BINARY = ("Add", "Sub", "Mul")
INPUTS_TRIED = 2
"""Of an operator with many inputs, the first that fit the output are tried as inputs of a plainer one."""


def outputs(problem: Shrinking) -> None:
    """Drop each graph output, and what only it needed."""
    at = len(problem.best.outputs) - 1
    while at >= 0 and len(problem.best.outputs) > 1:
        draft = problem.draft()
        del draft.proto.graph.output[at]
        problem.attempt(draft)
        at = min(at, len(problem.best.outputs)) - 1


def optional(problem: Shrinking) -> None:
    """Leave out inputs and outputs that operators do not ask for: all at once, or those that can go."""
    draft = problem.draft()
    version = next((each.version for each in draft.proto.opset_import if not each.domain), 1)
    edits: list[Edit] = []
    for at, node in enumerate(draft.nodes):
        try:
            schema = defs.get_schema(node.op_type, version, node.domain)
        except defs.SchemaError:
            continue
        for position, (name, formal) in enumerate(zip(node.input, schema.inputs, strict=False)):
            if name and formal.option == defs.OpSchema.FormalParameterOption.Optional:
                edits.append(partial(_leave_out, at, position))
    problem.together(edits)


def bypass(problem: Shrinking) -> None:
    """Let readers of a node read its inputs of the same shape and dtype; the node goes.

    Outputs that have no such input become graph inputs.
    """
    for at in reversed(range(len(problem.best.nodes))):
        if at >= len(problem.best.nodes):
            continue
        draft = problem.draft()
        node = draft.nodes[at]
        used = [name for name in node.output if name and (draft.readers(name) or draft.is_output(name))]
        fitting = [[name for name in read_names(node) if same_type(problem, output, name)] for output in used]
        choices = itertools.product(*(names or [""] for names in fitting))
        if any(fitting):
            any(_bypassed(problem, at, dict(zip(used, chosen, strict=True))) for chosen in choices)


def merge(problem: Shrinking) -> None:
    """Make one of two nodes in a row: the second reads what the first read, or the first writes what it wrote."""
    for at in reversed(range(len(problem.best.nodes))):
        if at >= len(problem.best.nodes):
            continue
        for draft in _merged(problem, at):
            if problem.attempt(draft):
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
    """Replace operators by plainer ones on some of their inputs: all at once, then one by one."""
    plainest = [next(_plainer(problem, node), None) for node in problem.draft().nodes]
    problem.together([partial(_put, made) for made in plainest if made is not None])
    for at in range(len(problem.best.nodes)):
        if at >= len(problem.best.nodes):
            return
        for made in _plainer(problem, problem.draft().nodes[at]):
            draft = problem.draft()
            _put(made, draft)
            if problem.attempt(draft):
                break


def same_type(problem: Shrinking, left: str, right: str, *, shape: bool = True) -> bool:
    """Whether two values have the same dtype, and shape."""
    known = {**problem.values, **problem.draft().weights}
    first, second = known.get(left), known.get(right)
    if first is None or second is None or first.elem_type != second.elem_type:
        return False
    return not shape or first.shape == second.shape


def _leave_out(at: int, position: int, draft: Draft) -> None:
    node = draft.nodes[at]
    if position < len(node.input):
        node.input[position] = ""
    while node.input and not node.input[-1]:
        node.input.pop()


def _bypassed(problem: Shrinking, at: int, instead: dict[str, str]) -> bool:
    """Without the node, each of its outputs replaced by another value, or promoted where there is none."""
    draft = problem.draft()
    draft.drop(draft.nodes[at])
    produced = {value for node in draft.nodes for value in node.output}
    for output, name in instead.items():
        for value in [value for value in draft.proto.graph.output if value.name == output]:
            if name in produced and not draft.is_output(name):
                value.name = name
            else:
                draft.proto.graph.output.remove(value)
        if name:
            draft.read_instead(output, name)
        elif draft.readers(output):
            if output not in problem.values:
                return False
            draft.promote(output, problem.values[output])
    return problem.attempt(draft)


def _merged(problem: Shrinking, at: int) -> Iterator[Draft]:
    """Drafts where a node and the one that alone feeds it have become one."""
    draft = problem.draft()
    node = draft.nodes[at]
    writer = {name: first for first, other in enumerate(draft.nodes) for name in other.output if name}
    for value in dict.fromkeys(name for name in node.input if name in writer):
        first = draft.nodes[writer[value]]
        if len(draft.readers(value)) > 1 or draft.is_output(value):
            continue
        for name in read_names(first):
            other = problem.draft()
            other.read_instead(value, name)
            yield other
        if len([name for name in node.output if name]) == 1:
            other = problem.draft()
            other.drop(other.nodes[at])
            writing = other.nodes[writer[value]]
            for position, name in enumerate(writing.output):
                if name == value:
                    writing.output[position] = next(name for name in node.output if name)
            yield other


def _put(made: NodeProto, draft: Draft) -> None:
    """Put a node in the place of the one that writes the same value."""
    nodes = [made if set(made.output) & set(node.output) else node for node in draft.nodes]
    draft.order(nodes)


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
    fitting = fitting[:INPUTS_TRIED]
    for op_type in PLAIN:
        if operator_rank(op_type) >= rank and not (len(fitting) > 1 and op_type == UNARY[0]):
            continue
        if op_type in UNARY:
            for name in fitting:
                yield helper.make_node(op_type, [name], named, name=node.name)
        elif op_type in BINARY and operator_rank(op_type) < rank:
            for pair in itertools.combinations(fitting, 2):
                yield helper.make_node(op_type, list(pair), named, name=node.name)
