"""An index over a normalised graph: who produces and who reads each value.

Built once; then every candidate is cheap.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence

import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from onnxreduce.graph.collector import collector_paused
from onnxreduce.graph.model import Model
from onnxreduce.graph.walk import read_names, subgraphs_of


class GraphIndex:
    """Nodes by position in the file, with the values they read and write.

    `fed` names graph inputs that get a value; an initializer that is also a graph input and is fed counts as a graph
    input, otherwise as an initializer.
    """

    @collector_paused()
    def __init__(self, model: Model, fed: Collection[str] = ()) -> None:
        graph = model.proto.graph
        self.model = model
        self.nodes: Sequence[NodeProto] = list(graph.node)
        self.reads: list[list[str]] = [read_names(node) for node in self.nodes]
        self.writes: list[list[str]] = [[name for name in node.output if name] for node in self.nodes]
        self.graph_inputs: dict[str, ValueInfoProto] = {value.name: value for value in graph.input}
        self.graph_outputs: dict[str, ValueInfoProto] = {value.name: value for value in graph.output}
        self.initializers: dict[str, TensorProto] = {
            tensor.name: tensor for tensor in graph.initializer if tensor.name not in fed
        }
        self.producer: dict[str, int] = {name: at for at, names in enumerate(self.writes) for name in names}
        self.consumers: dict[str, list[int]] = {}
        for at, names in enumerate(self.reads):
            for name in names:
                self.consumers.setdefault(name, []).append(at)
        self.declared = declared_types(model.proto)
        self.with_bodies: set[int] = {at for at, node in enumerate(self.nodes) if any(subgraphs_of(node))}
        self._no_tensors: set[str] = {value for value in self.producer if not _may_be_tensor(self.declared.get(value))}
        self._group = self._groups()

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def every_node(self) -> tuple[int, ...]:
        """All positions, in file order."""
        return tuple(range(len(self.nodes)))

    def promotable(self, value: str) -> bool:
        """Whether a value can become a graph input: it is a tensor, or nothing is known against it."""
        return value not in self._no_tensors

    def hold(self, values: Iterable[str]) -> None:
        """Learn from the recording that values are no tensors: what writes and reads them stays together now."""
        new = set(values) - self._no_tensors
        if new:
            self._no_tensors |= new
            self._group = self._groups()

    def ancestors(self, values: Iterable[str]) -> set[int]:
        """Positions of all nodes that the given values depend on."""
        found: set[int] = set()
        stack = [self.producer[value] for value in values if value in self.producer]
        while stack:
            at = stack.pop()
            if at not in found:
                found.add(at)
                stack.extend(self.producer[value] for value in self.reads[at] if value in self.producer)
        return found

    def neighbours(self, at: int) -> set[int]:
        """Positions of the producers and consumers next to a node."""
        near = {self.producer[value] for value in self.reads[at] if value in self.producer}
        near.update(reader for value in self.writes[at] for reader in self.consumers.get(value, ()))
        near.discard(at)
        return near

    def closed(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """The given positions and every node that must stay with one of them, in file order.

        Nodes that share a value which cannot be promoted (a sequence, an optional, a map) stay together.
        """
        kept = set(nodes)
        if self._group:
            for group in {id(group): group for at in kept if (group := self._group.get(at))}.values():
                kept.update(group)
        return tuple(sorted(kept))

    def together(self, at: int) -> tuple[int, ...]:
        """The nodes that stay or go with one node, itself included, in file order."""
        return self._group.get(at, (at,))

    def _groups(self) -> dict[int, tuple[int, ...]]:
        """Nodes by position, each with those that it shares such a value with, directly or through others."""
        members: dict[int, list[int]] = {}
        for value in self._no_tensors & self.producer.keys():
            for at in (self.producer[value], *self.consumers.get(value, ())):
                large, small = members.setdefault(self.producer[value], [self.producer[value]]), members.get(at, [at])
                if large is not small:
                    if len(large) < len(small):
                        large, small = small, large
                    large.extend(small)  # the smaller to the larger: each node moves log n times at most
                    members.update(dict.fromkeys(small, large))
        once = {id(group): group for group in members.values()}
        return {at: whole for group in once.values() for whole in [tuple(sorted(group))] for at in whole}


def _may_be_tensor(declared: ValueInfoProto | None) -> bool:
    return declared is None or declared.type.WhichOneof("value") in (None, "tensor_type")


def declared_types(proto: ModelProto) -> dict[str, ValueInfoProto]:
    """Types by value name: what the file declares, completed by onnx's shape inference where that works."""
    with contextlib.suppress(Exception):  # inference is a help, not a condition: operators may be unknown to onnx
        proto = onnx.shape_inference.infer_shapes(proto)
    graph = proto.graph
    return {value.name: value for values in (graph.value_info, graph.input, graph.output) for value in values}
