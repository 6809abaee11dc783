"""Inlining a model's functions, by onnx's own inliner, once it is sure that the result is of a sensible size."""

from __future__ import annotations

import contextlib
import graphlib
import math
from collections import Counter
from collections.abc import Iterable

import onnx.inliner
from onnx import ModelProto, NodeProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.walk import bodies_of, every_node, functions_of, keep_only

MOST_NODES = 2_000_000
"""Nodes after inlining: 30 functions that each call the next one twice would make a thousand million."""

Key = tuple[str, str, str]


def inlined(proto: ModelProto) -> ModelProto:
    """The model with the calls of its functions replaced by their nodes, and without functions that nothing calls.

    Functions that onnx cannot inline (another opset than the model's, graphs as attributes) stay functions. Raises
    BadInputError where functions call each other in a circle, or would become more than `MOST_NODES` nodes.
    """
    if not proto.functions:
        return proto
    nodes = nodes_inlined(proto)
    if nodes > MOST_NODES:
        raise BadInputError(
            f"its functions make {'' if math.isfinite(nodes) else 'endlessly '}many nodes when they are inlined, "
            f"{nodes:.3g}; at most {MOST_NODES} are taken"
        )
    result = ModelProto()
    result.CopyFrom(proto)
    _spell_out_defaults(result)
    with contextlib.suppress(Exception):  # RuntimeErrors and ValidationErrors of C++ have no common base
        result = onnx.inliner.inline_local_functions(result)
    called = {_key(function) for function in functions_of(result, result.graph.node)}
    keep_only(result.functions, [_key(function) in called for function in result.functions])
    return result


def nodes_inlined(proto: ModelProto) -> float:
    """Nodes of a model, bodies included, once its functions are inlined. Raises BadInputError where they go in circles.

    Counted without inlining anything; a float, since it may pass any bound.
    """
    calls = {_key(function): Counter(_keys(function.node)) for function in proto.functions}
    sorter = graphlib.TopologicalSorter(
        {key: [each for each in inside if each in calls] for key, inside in calls.items()}
    )
    try:
        order = list(sorter.static_order())
    except graphlib.CycleError as error:
        names = " → ".join(name for _, name, _ in error.args[1])
        raise BadInputError(f"its functions call each other in a circle: {names}") from error
    size: dict[Key, float] = {}
    for key in order:
        size[key] = _sum(calls[key], size)
    return _sum(Counter(_keys(proto.graph.node)), size)


def _spell_out_defaults(proto: ModelProto) -> None:
    """Give each call the attributes that its function has defaults for: onnx's inliner knows of none."""
    defaults = {_key(function): function.attribute_proto for function in proto.functions if function.attribute_proto}
    for node in every_node(proto) if defaults else ():
        given = {attribute.name for attribute in node.attribute}
        for attribute in defaults.get((node.domain, node.op_type, node.overload), ()):
            if attribute.name not in given:
                node.attribute.append(attribute)


def _sum(nodes: Counter[Key], size: dict[Key, float]) -> float:
    try:
        return float(sum(count * size.get(key, 1.0) for key, count in nodes.items()))
    except OverflowError:
        return math.inf


def _key(function: onnx.FunctionProto) -> Key:
    return function.domain, function.name, function.overload


def _keys(nodes: Iterable[NodeProto]) -> Iterable[Key]:
    for node in nodes:
        yield node.domain, node.op_type, node.overload
        if node.attribute:
            for body in bodies_of(node):
                yield from ((inner.domain, inner.op_type, inner.overload) for inner in body.node)
