"""If, Loop and Scan: their bodies in their place, fewer iterations, and less inside of what must stay.

Values inside a body are not recorded. The state at the start of an iteration is: it is what the loop ends with when it
is run that many times.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, helper, numpy_helper

from onnxreduce.graph.draft import Draft, rename_reads
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import every_graph, every_node, graphs_of, read_names, subgraphs_of
from onnxreduce.reduction.shrink import Shrinking

ITERATIONS = 8
"""The first iterations that are tried alone; the last one is tried too."""
AXES_ARE_INPUTS = 13
"""Unsqueeze takes its axes as an input from this opset on."""


def control(problem: Shrinking) -> None:
    """The taken branch in place of an If, one iteration in place of a Loop or Scan, or fewer iterations."""
    again = True
    while again:
        again = any(problem.attempt(draft) for draft in _in_place(problem))
    for at, node in enumerate(problem.draft().nodes):
        if node.op_type == "Loop":
            any(problem.attempt(draft) for draft in _shorter(problem, at))


def bodies(problem: Shrinking) -> None:
    """Less inside of bodies: branches not taken, nodes that can be passed by, and outputs that nothing reads."""
    for make in (_untaken, _without_output, _passed_by):
        again = True
        while again:
            again = any(problem.attempt(draft) for draft in make(problem))


def _in_place(problem: Shrinking) -> Iterator[Draft]:
    start = problem.draft()
    for scope, graph in enumerate(every_graph(start.proto)):
        for at, node in enumerate(graph.node):
            if node.op_type == "If":
                for name in _branches(problem, node):
                    draft = problem.draft()
                    inside = list(every_graph(draft.proto))[scope]
                    body = next(each.g for each in inside.node[at].attribute if each.name == name)
                    _inline(draft, inside, at, body, [], list(node.output))
                    yield draft
            elif node.op_type == "Loop" and graph is start.proto.graph:
                yield from _iterations_of_loop(problem, at)
            elif node.op_type == "Scan" and graph is start.proto.graph:
                yield from _iterations_of_scan(problem, at)


def _branches(problem: Shrinking, node: NodeProto) -> Sequence[str]:
    """The branch that is taken first, where that is known."""
    known = {**problem.values, **problem.draft().weights}.get(node.input[0])
    taken = known is None or bool(known.array.ravel()[0])
    return ("then_branch", "else_branch") if taken else ("else_branch", "then_branch")


def _iterations_of_loop(problem: Shrinking, at: int) -> Iterator[Draft]:
    node = problem.draft().nodes[at]
    count = _trip_count(problem, node)
    states = len(node.input) - 2
    for k in _tried(count):
        draft = problem.draft()
        given = list(node.input)[2:]
        if k:
            recorded = _state_after(problem, at, k)
            if recorded is None or any(name not in recorded for name in list(node.output)[:states]):
                return
            given = [_feed(draft, f"{name}_at_{k}", recorded[name]) for name in list(node.output)[:states]]
        iteration = _weight(draft, "iteration", np.array(k, np.int64))
        going = _weight(draft, "going", np.array(True))
        body = next(subgraphs_of(draft.nodes[at]))
        outputs = ["", *node.output]
        _inline(
            draft,
            draft.proto.graph,
            at,
            body,
            [iteration, going, *given],
            outputs,
            stacked=dict.fromkeys(range(1 + states, len(outputs)), 0),
        )
        yield draft


def _state_after(problem: Shrinking, at: int, k: int) -> dict[str, StoredTensor] | None:
    """What a loop's values are after so many iterations."""
    draft = problem.draft()
    draft.nodes[at].input[0] = _weight(draft, "trips", np.array(k, np.int64))
    return problem.recorded(draft)


def _shorter(problem: Shrinking, at: int) -> Iterator[Draft]:
    """The loop with fewer iterations, the fewest first."""
    count = _trip_count(problem, problem.draft().nodes[at])
    for k in itertools.takewhile(lambda k: k < count, (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)):
        draft = problem.draft()
        node = draft.nodes[at]
        name = node.input[0]
        if name in draft.feeds and draft.readers(name) == [node]:
            draft.feeds[name] = StoredTensor.from_array(np.full(draft.feeds[name].shape, k, np.int64))
        else:
            node.input[0] = _weight(draft, "trips", np.array(k, np.int64))
        yield draft


def _trip_count(problem: Shrinking, node: NodeProto) -> int:
    """The count that a loop is given; its condition may end it before."""
    known = {**problem.values, **problem.draft().weights}.get(node.input[0])
    return ITERATIONS if known is None else int(known.array.ravel()[0])


def _iterations_of_scan(problem: Shrinking, at: int) -> Iterator[Draft]:
    node = problem.draft().nodes[at]
    options = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    scans = options["num_scan_inputs"]
    states = len(node.input) - scans
    known = {**problem.values, **problem.draft().weights}
    if any(name not in known for name in node.input):
        return
    axes = options.get("scan_input_axes", [0] * scans)
    back = options.get("scan_input_directions", [0] * scans)
    arrays = [
        np.moveaxis(known[name].array, axis, 0) for name, axis in zip(list(node.input)[states:], axes, strict=True)
    ]
    arrays = [array[::-1] if reverse else array for array, reverse in zip(arrays, back, strict=True)]
    out_axes = options.get("scan_output_axes", [0] * (len(node.output) - states))
    for k in _tried(len(arrays[0])):
        draft = problem.draft()
        given = list(node.input)[:states]
        if k:
            recorded = _scanned(problem, at, [array[:k] for array in arrays], axes, back)
            if recorded is None or any(name not in recorded for name in list(node.output)[:states]):
                return
            given = [_feed(draft, f"{name}_at_{k}", recorded[name]) for name in list(node.output)[:states]]
        for name, array in zip(list(node.input)[states:], arrays, strict=True):
            given.append(_feed(draft, f"{name}_{k}", StoredTensor.from_array(np.ascontiguousarray(array[k]))))
        body = next(subgraphs_of(draft.nodes[at]))
        stacked = {states + position: axis for position, axis in enumerate(out_axes)}
        _inline(draft, draft.proto.graph, at, body, given, list(node.output), stacked=stacked)
        yield draft


def _scanned(
    problem: Shrinking, at: int, arrays: list[np.ndarray], axes: Sequence[int], back: Sequence[int]
) -> dict[str, StoredTensor] | None:
    draft = problem.draft()
    node = draft.nodes[at]
    states = len(node.input) - len(arrays)
    for position, (array, axis, reverse) in enumerate(zip(arrays, axes, back, strict=True)):
        whole = np.moveaxis(array[::-1] if reverse else array, 0, axis)
        tensor = StoredTensor.from_array(np.ascontiguousarray(whole))
        node.input[states + position] = _feed(draft, f"scanned_{position}", tensor)
    return problem.recorded(draft)


def _tried(count: int) -> list[int]:
    return sorted({*range(min(count, ITERATIONS)), max(count - 1, 0)}) if count > 0 else []


def _inline(
    draft: Draft,
    scope: GraphProto,
    at: int,
    body: GraphProto,
    inputs: Sequence[str],
    outputs: Sequence[str],
    stacked: dict[int, int] | None = None,
) -> None:
    """Put a body's nodes in the place of a node. `stacked`: positions of outputs that gain an axis, and which."""
    made = GraphProto()
    made.CopyFrom(body)
    rest = [NodeProto.FromString(node.SerializeToString()) for node in scope.node]
    del scope.node[:]
    scope.node.extend(rest[:at] + rest[at + 1 :])
    taken = {*_all_names(draft), *outputs}
    new = {value.name: name for value, name in zip(made.input, inputs, strict=False)}
    written = {name for node in made.node for name in node.output if name}
    after: list[NodeProto] = []
    for position, (value, output) in enumerate(zip(made.output, outputs, strict=True)):
        axis = (stacked or {}).get(position)
        if not output:
            continue
        if axis is not None:
            after.append(_unsqueeze(draft, scope, value.name, output, axis))
        elif value.name in written and value.name not in new:
            new[value.name] = output
        else:
            after.append(helper.make_node("Identity", [value.name], [output]))
    for name in sorted(written | {tensor.name for tensor in made.initializer}):
        if name not in new:
            new[name] = _fresh(taken, name)
    for node in (*made.node, *after):
        rename_reads(node, new)
    names = {node.name for node in every_node(draft.proto)}
    for node in made.node:
        node.name = "" if node.name in names else node.name
        node.output[:] = [new.get(name, name) for name in node.output]
    for tensor in made.initializer:
        tensor.name = new[tensor.name]
        if scope is draft.proto.graph:
            draft.weights[tensor.name] = StoredTensor.from_proto(tensor)
        else:
            scope.initializer.append(tensor)
    del scope.node[:]
    scope.node.extend([*rest[:at], *made.node, *after, *rest[at + 1 :]])


def _unsqueeze(draft: Draft, scope: GraphProto, name: str, output: str, axis: int) -> NodeProto:
    version = next((each.version for each in draft.proto.opset_import if not each.domain), 0)
    if version < AXES_ARE_INPUTS or scope is not draft.proto.graph:
        return helper.make_node("Unsqueeze", [name], [output], axes=[axis])
    return helper.make_node("Unsqueeze", [name, _weight(draft, "axes", np.array([axis], np.int64))], [output])


def _untaken(problem: Shrinking) -> Iterator[Draft]:
    """An If whose other branch holds nothing but constants of the right type."""
    for at, node in enumerate(problem.draft().nodes):
        if node.op_type != "If" or any(name not in problem.values for name in node.output if name):
            continue
        draft = problem.draft()
        name = _branches(problem, node)[1]
        body = next(each.g for each in draft.nodes[at].attribute if each.name == name)
        del body.node[:]
        del body.initializer[:]
        for value, output in zip(body.output, node.output, strict=True):
            kept = problem.values[output]
            zero = numpy_helper.from_array(np.zeros_like(kept.array))
            body.node.append(helper.make_node("Constant", [], [value.name], value=zero))
        yield draft


def _without_output(problem: Shrinking) -> Iterator[Draft]:
    """Outputs of If and scanned outputs of Loop that nothing reads; carried state of Loop that can stay as it began."""
    start = problem.draft()
    for at, node in enumerate(start.nodes):
        if node.op_type not in ("If", "Loop"):
            continue
        for position, output in enumerate(node.output):
            if len(node.output) == 1 or (output and (start.readers(output) or start.is_output(output))):
                continue
            draft = problem.draft()
            other = draft.nodes[at]
            del other.output[position]
            first = 0 if node.op_type == "If" else 1
            for body in subgraphs_of(other):
                del body.output[first + position]
            if node.op_type == "Loop" and position < len(node.input) - 2:
                body = next(subgraphs_of(other))
                carried = body.input[2 + position].name
                del body.input[2 + position]
                initial = other.input[2 + position]
                del other.input[2 + position]
                for inner in body.node:
                    rename_reads(inner, {carried: initial})
                for value in body.output:
                    value.name = initial if value.name == carried else value.name
            yield draft


def _passed_by(problem: Shrinking) -> Iterator[Draft]:
    """A node of a body less: what read it reads one of its inputs."""
    start = problem.draft()
    graphs = list(every_graph(start.proto))
    for scope, graph in enumerate(graphs):
        if graph is start.proto.graph:
            continue
        for at in reversed(range(len(graph.node))):
            node = graph.node[at]
            for output, name in itertools.product(node.output, read_names(node)):
                draft = problem.draft()
                inside = list(every_graph(draft.proto))[scope]
                del inside.node[at]
                for inner in inside.node:
                    rename_reads(inner, {output: name})
                for value in inside.output:
                    value.name = name if value.name == output else value.name
                yield draft


def _feed(draft: Draft, name: str, tensor: StoredTensor) -> str:
    made = _fresh(_all_names(draft), name)
    draft.promote(made, tensor)
    return made


def _weight(draft: Draft, name: str, array: np.ndarray) -> str:
    made = _fresh(_all_names(draft), name)
    draft.weights[made] = StoredTensor.from_array(array)
    return made


def _fresh(taken: set[str], name: str) -> str:
    made = next(text for text in (name, *(f"{name}_{at}" for at in range(len(taken) + 1))) if text not in taken)
    taken.add(made)
    return made


def _all_names(draft: Draft) -> set[str]:
    names = {*draft.feeds, *draft.weights}
    for node in every_node(draft.proto):
        names.update((*node.input, *node.output))
    for graph in graphs_of(draft.proto.graph):
        names.update(value.name for value in (*graph.input, *graph.output))
        names.update(tensor.name for tensor in graph.initializer)
    return names
