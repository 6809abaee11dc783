"""A model as boxes and arrows, for whatever draws them: nodes, what comes in, what goes out, values on the arrows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from onnxreduce.emit.report.markdown import visible
from onnxreduce.graph.index import declared_types
from onnxreduce.graph.walk import bodies_of, read_names

LONGEST = 40
"""Characters of a line in a box."""
_ELEMENT_TYPES = {"Cast": ("to",), "RandomNormal": ("dtype",), "EyeLike": ("dtype",), "SequenceEmpty": ("dtype",)}
"""Attributes that hold the number of an element type."""


@dataclass(frozen=True)
class Box:
    """`at`: its number; `kind`: node, weight, input or output; `lines`: the text in it; `mark`: what links lead to."""

    at: int
    kind: str
    lines: tuple[str, ...]
    wrong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Edge:
    """From one box to another; `text`: the value, where it is between nodes."""

    source: int
    target: int
    text: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes in file order, and edges between them."""

    boxes: list[Box]
    edges: list[Edge]


def picture(model: ModelProto, wrong: Collection[str]) -> Picture:
    """A whole model. Outputs named in `wrong` are marked; bodies of If, Loop and Scan are told by their size."""
    graph, types = model.graph, declared_types(model)
    weights = {tensor.name: tensor for tensor in graph.initializer}
    boxes: list[Box] = []
    edges: list[Edge] = []
    source: dict[str, int] = {}

    def add(kind: str, lines: Iterator[str], bad: bool = False) -> int:
        short = tuple(visible(line, LONGEST) for line in lines if line)
        boxes.append(Box(len(boxes), kind, short, bad))
        return len(boxes) - 1

    for value in graph.input:
        source[value.name] = add("input", iter([value.name, type_text(value)]))
    for tensor in weights.values():
        if tensor.name not in source:
            source[tensor.name] = add("weight", iter([tensor.name, _weight_text(tensor)]))
    between = set(source)
    for node in graph.node:
        here = add("node", _node_lines(node))
        edges += [
            Edge(source[name], here, _arrow_text(name, between, types)) for name in read_names(node) if name in source
        ]
        source.update((name, here) for name in node.output if name)
    for value in graph.output:
        bad = value.name in wrong
        here = add("output", iter([value.name, type_text(types.get(value.name, value)), "wrong" if bad else ""]), bad)
        if value.name in source:
            edges.append(Edge(source[value.name], here))
    return Picture(boxes, edges)


def surroundings(neighbourhood: Mapping[str, object]) -> Picture:
    """The kept nodes among those around them, as `neighbourhood.json` has them."""
    nodes: list[Mapping[str, object]] = neighbourhood.get("nodes", [])  # type: ignore[assignment]
    boxes = [
        Box(
            at,
            "node",
            (visible(str(node["op"]), LONGEST), f"node {node['at']}"),
            mark=f"node-{int(str(node['at']))}" if node["kept"] else "",
        )
        for at, node in enumerate(nodes)
    ]
    writers = {name: at for at, node in enumerate(nodes) for name in node["writes"]}  # type: ignore[attr-defined]
    edges = {
        (writers[name], at): Edge(writers[name], at)
        for at, node in enumerate(nodes)
        for name in node["reads"]  # type: ignore[attr-defined]
        if name in writers and writers[name] != at
    }
    return Picture(boxes, list(edges.values()))


def type_text(value: ValueInfoProto | None) -> str:
    """An element type and a shape, such as `float [1, N]`; empty for what is no tensor or not known."""
    kind = value.type.tensor_type if value is not None else None
    if kind is None or not kind.elem_type:
        return ""
    name = _type_name(kind.elem_type)
    if not kind.HasField("shape"):
        return name
    dims = (str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim)
    return f"{name} [{', '.join(dims)}]"


def _weight_text(tensor: TensorProto) -> str:
    return f"{_type_name(tensor.data_type)} {list(tensor.dims)}"


def _type_name(number: int) -> str:
    return TensorProto.DataType.Name(number).lower() if number in TensorProto.DataType.values() else f"type {number}"


def _arrow_text(name: str, between: Collection[str], types: Mapping[str, ValueInfoProto]) -> str:
    """The value, where no box of its own tells it."""
    return "" if name in between else visible(f"{name} {type_text(types.get(name))}".strip(), LONGEST)


def _node_lines(node: NodeProto) -> Iterator[str]:
    yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    inside = sum(len(body.node) for body in bodies_of(node))
    if inside:
        yield f"{inside} {'node' if inside == 1 else 'nodes'} inside"
    for attribute in list(node.attribute)[:4]:
        if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            element_type = attribute.name in _ELEMENT_TYPES.get(node.op_type, ())
            yield f"{attribute.name} = {_type_name(attribute.i) if element_type else _attribute_text(attribute)}"


def _attribute_text(attribute: AttributeProto) -> str:
    if attribute.type in (AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO):
        return "…"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value)
