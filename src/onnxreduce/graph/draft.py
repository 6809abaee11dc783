"""A small model that is being edited. Passes work on a draft; `candidate` makes a model of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from onnxreduce.graph.candidate import Candidate, value_info
from onnxreduce.graph.model import EXTERNAL_FROM_BYTES, Model, refer
from onnxreduce.graph.order import weights
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.graph.walk import captured_names, every_graph, read_names, subgraphs_of


class Draft:
    """A copy of a candidate, free to change: `proto`, `feeds` (graph inputs), and weights by name."""

    def __init__(self, candidate: Candidate) -> None:
        self.proto = ModelProto()
        self.proto.CopyFrom(candidate.model.proto)
        self.feeds: dict[str, StoredTensor] = dict(candidate.feeds)
        self.weights: dict[str, StoredTensor] = weights(candidate)
        self._path = candidate.model.path

    @property
    def nodes(self) -> list[NodeProto]:
        """The main graph's nodes, in file order; changing one changes the draft."""
        return list(self.proto.graph.node)

    def order(self, nodes: Iterable[NodeProto]) -> None:
        """Put the given nodes, in this order, in place of all nodes."""
        kept: list[NodeProto] = []
        for node in nodes:
            copy = NodeProto()
            copy.CopyFrom(node)
            kept.append(copy)
        del self.proto.graph.node[:]
        self.proto.graph.node.extend(kept)

    def drop(self, node: NodeProto) -> None:
        """Remove a node; what read its outputs must be seen to by the caller."""
        self.proto.graph.node.remove(node)

    def rename(self, new_names: Mapping[str, str]) -> None:
        """Rename values wherever they are read or written, bodies included where they capture them."""
        graph = self.proto.graph
        for node in graph.node:
            rename_reads(node, new_names)
            for at, name in enumerate(node.output):
                node.output[at] = new_names.get(name, name)
        for values in (graph.input, graph.output):
            for value in values:
                value.name = new_names.get(value.name, value.name)
        for tensor in graph.initializer:
            tensor.name = new_names.get(tensor.name, tensor.name)
        self.feeds = {new_names.get(name, name): tensor for name, tensor in self.feeds.items()}
        self.weights = {new_names.get(name, name): tensor for name, tensor in self.weights.items()}

    def read_instead(self, old: str, new: str) -> None:
        """Let every reader of a value read another one."""
        for node in self.proto.graph.node:
            rename_reads(node, {old: new})

    def promote(self, value: str, tensor: StoredTensor) -> None:
        """Make a value a graph input with the given content."""
        self.feeds[value] = tensor
        self.proto.graph.input.append(value_info(value, tensor))

    def take(self, other: Draft) -> None:
        """Become what another draft is."""
        self.proto.CopyFrom(other.proto)
        self.feeds, self.weights = dict(other.feeds), dict(other.weights)

    def is_output(self, value: str) -> bool:
        """Whether a value is a graph output."""
        return any(output.name == value for output in self.proto.graph.output)

    def readers(self, value: str) -> list[NodeProto]:
        """Nodes that read a value."""
        return [node for node in self.proto.graph.node if value in read_names(node)]

    def tidy(self) -> None:
        """Drop outputs that nothing produces, nodes that no output needs, and inputs and weights that nothing reads."""
        self._tidy_bodies()
        graph = self.proto.graph
        produced = {name for node in graph.node for name in node.output}
        _keep(graph.output, lambda value: value.name in produced)
        needed = _drop_unneeded(graph)
        self.feeds = {name: tensor for name, tensor in self.feeds.items() if name in needed}
        self.weights = {name: tensor for name, tensor in self.weights.items() if name in needed}
        _keep(graph.input, lambda value: value.name in self.feeds or value.name in self.weights)
        del graph.value_info[:]

    def _tidy_bodies(self) -> None:
        for body in every_graph(self.proto):
            if body is self.proto.graph:
                continue
            needed = _drop_unneeded(body)
            for tensor in list(body.initializer):
                if tensor.name not in needed:
                    body.initializer.remove(tensor)
            del body.value_info[:]

    def candidate(self, types: Mapping[str, StoredTensor] | None = None) -> Candidate:
        """The draft as a candidate; `types` (recorded values) give the outputs their types and whole shapes."""
        graph = self.proto.graph
        external: dict[str, Blob] = {}
        listed = {value.name for value in graph.input}
        del graph.initializer[:]
        for name, tensor in self.weights.items():
            proto = tensor.to_proto(name) if tensor.blob.length < EXTERNAL_FROM_BYTES else None
            if proto is None:
                proto = graph.initializer.add(name=name, data_type=tensor.elem_type, dims=tensor.shape)
                refer(proto, tensor.blob)
                external[tensor.blob.digest] = tensor.blob
            else:
                graph.initializer.append(proto)
        inputs = [value.name for value in graph.input if value.name in self.feeds]
        inputs += [name for name in self.feeds if name not in inputs]
        overridable = [name for name in self.weights if name in listed or self.proto.ir_version < 4]
        fed: list[ValueInfoProto] = [value_info(name, self.feeds[name]) for name in inputs]
        fed += [value_info(name, self.weights[name]) for name in overridable]
        del graph.input[:]
        graph.input.extend(fed)
        if types is not None:
            outputs = [value_info(value.name, types[value.name]) for value in graph.output]
            del graph.output[:]
            graph.output.extend(outputs)
        proto_copy = ModelProto()
        proto_copy.CopyFrom(self.proto)
        feeds = {name: self.feeds[name] for name in inputs}
        names = [value.name for value in graph.output]
        return Candidate(Model(proto_copy, external, self._path), feeds, names, tuple(range(len(graph.node))))


def rename_reads(node: NodeProto, new_names: Mapping[str, str]) -> None:
    """Let a node read other values, also where its bodies capture them."""
    for at, name in enumerate(node.input):
        if name in new_names:
            node.input[at] = new_names[name]
    for body in subgraphs_of(node):
        captured = set(captured_names(body)) & set(new_names)
        if captured:
            inner_names = {name: new_names[name] for name in captured}
            for inner in body.node:
                rename_reads(inner, inner_names)
            for value in body.output:
                value.name = inner_names.get(value.name, value.name)


def _drop_unneeded(graph: GraphProto) -> set[str]:
    """Remove the nodes that no output of the graph needs; returns the names that what is left reads or puts out."""
    needed = {value.name for value in graph.output}
    for node in reversed(list(graph.node)):
        if any(name in needed for name in node.output):
            needed.update(read_names(node))
        else:
            graph.node.remove(node)
    return needed


def _keep(values: object, wanted: Callable[[ValueInfoProto], bool]) -> None:
    kept = [value for value in values if wanted(value)]  # type: ignore[attr-defined]
    del values[:]  # type: ignore[attr-defined]
    values.extend(kept)  # type: ignore[attr-defined]
