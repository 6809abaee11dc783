"""Guess from a model what an input means, by where its values go and by its name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import NodeProto, TensorProto

from onnxreduce.graph.input_values import INTEGER_RANGES
from onnxreduce.graph.walk import graphs_of

_KEEPS_VALUES: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Cast", "CastLike", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand"), (0,)),
    **dict.fromkeys(("Slice", "Flatten", "Tile", "Split", "Gather", "Clip", "Pad"), (0,)),
    "Where": (1, 2),
    "Concat": None,
}
"""Operators whose output holds values of these inputs (None: of all) and nothing outside their range."""

_CALCULATES: dict[str, tuple[int, ...] | None] = dict.fromkeys(("Add", "Sub", "Mul", "Mod", "Max", "Min"), (0, 1))
"""Operators looked behind for indices only when nothing was found without: wrapped or shifted indices."""

_INDEXES = {"Gather": (1, 0), "GatherElements": (1, 0), "ScatterElements": (1, 0), "GatherBlockQuantized": (1, 0)}
_INDEXES |= {"GatherND": (1, 0), "ScatterND": (1, 0)}
"""Operators that index an axis: position of the indices and of the data."""

_EMBEDDINGS = {0: 2, 1: 4, 7: 3}
"""EmbedLayerNormalization (com.microsoft): positions of ids and of the tables they index."""


@dataclass(frozen=True)
class Hint:
    """What an input seems to be: `indices` (below `limit`), `mask`, `positions`, `token types` or `values`.

    `reason` says where that was seen. `limit` is also set for positions and token types that index a table.
    """

    kind: str
    limit: int | None = None
    reason: str = ""


class ModelHints:
    """Where the values of a model go."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._consumers: dict[str, list[tuple[NodeProto, int]]] = defaultdict(list)
        self._producers: dict[str, NodeProto] = {}
        self._shapes: dict[str, list[int]] = {}
        for graph in graphs_of(model.graph):
            for node in graph.node:
                for position, name in enumerate(node.input):
                    self._consumers[name].append((node, position))
                self._producers.update(dict.fromkeys(node.output, node))
            for value in (*graph.input, *graph.value_info):
                if value.type.tensor_type.HasField("shape"):
                    dims = value.type.tensor_type.shape.dim
                    self._shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]
            self._shapes.update({tensor.name: list(tensor.dims) for tensor in graph.initializer})

    def hint(self, name: str, elem_type: int) -> Hint:
        """What the graph input `name` seems to be."""
        lower, integer = name.lower(), elem_type in INTEGER_RANGES
        if "mask" in lower or elem_type == TensorProto.BOOL:
            return Hint("mask", reason="by name" if "mask" in lower else "bool")
        if not integer:
            return Hint("values")
        uses = list(self._uses(name, _KEEPS_VALUES))
        for node, position in uses:
            if _is_condition(node, position):
                return Hint("mask", reason=f"condition of {node.op_type}")
        limits = [limit for use in uses for limit in self._limits(*use)]
        if not limits:
            uses = list(self._uses(name, _KEEPS_VALUES | _CALCULATES))
            limits = [limit for use in uses for limit in self._limits(*use)]
        known = [(limit, reason) for limit, reason in limits if limit is not None]
        limit, reason = min(known, key=lambda each: each[0], default=limits[0] if limits else (None, ""))
        if re.search(r"position|(^|[^a-z])pos_?ids?", lower):
            return Hint("positions", limit, "by name")
        if re.search(r"token_?type|segment_?id", lower):
            return Hint("token types", limit, "by name")
        return Hint("indices", limit, reason) if limits else Hint("values")

    def _uses(self, name: str, followed: Mapping[str, tuple[int, ...] | None]) -> Iterator[tuple[NodeProto, int]]:
        """Every node that reads the value of `name`, directly or behind operators in `followed`."""
        seen, todo = {name}, [name]
        while todo:
            for node, position in self._consumers[todo.pop(0)]:
                yield node, position
                kept = followed.get(node.op_type, ())
                if kept is None or position in kept:
                    todo += [output for output in node.output if output and output not in seen]
                    seen.update(node.output)

    def _limits(self, node: NodeProto, position: int) -> Iterator[tuple[int | None, str]]:
        """What the node indexes with the input at `position`: number of rows (None: not known) and a reason."""
        indices, data = _INDEXES.get(node.op_type, (-1, -1))
        table, axis = node.input[data] if position == indices else "", _axis(node)
        if node.op_type == "EmbedLayerNormalization" and position in _EMBEDDINGS and len(node.input) > 4:
            table, axis = node.input[_EMBEDDINGS[position]], 0
        if table:
            shape = self._shape(table) or []
            axes = [axis]
            if node.op_type.endswith("ND"):
                axes = self._indexed_axes(node)
            rows = min((shape[axis] if -len(shape) <= axis < len(shape) else -1 for axis in axes), default=-1)
            yield (rows if rows > 0 else None), f"indices of {node.op_type} {table!r}"

    def _indexed_axes(self, node: NodeProto) -> list[int]:
        """The axes of the data that a GatherND or ScatterND indexes."""
        tuples = (self._shape(node.input[1]) or [-1])[-1]
        first = next((attribute.i for attribute in node.attribute if attribute.name == "batch_dims"), 0)
        return list(range(first, first + tuples))

    def _shape(self, name: str) -> list[int] | None:
        """The shape of a value as far as it is written down, also behind operators that keep it."""
        for _ in range(8):
            if name in self._shapes:
                return self._shapes[name]
            producer = self._producers.get(name)
            if (
                producer is None
                or not producer.input
                or producer.op_type not in ("Cast", "Identity", "DequantizeLinear")
            ):
                return None
            name = producer.input[0]
        return None


def _axis(node: NodeProto) -> int:
    names = ("axis", "gather_axis")
    return next((attribute.i for attribute in node.attribute if attribute.name in names), 0)  # ONNX's default for all


def _is_condition(node: NodeProto, position: int) -> bool:
    if node.op_type == "Cast":
        return any(each.name == "to" and each.i == TensorProto.BOOL for each in node.attribute)
    return node.op_type == "Where" and position == 0
