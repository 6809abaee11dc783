"""Any subset of nodes as a model of its own: what is missing is promoted to a graph input with its recorded value."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import ModelProto, ValueInfoProto, helper

from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, external_location
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.graph.walk import functions_of


@dataclass(frozen=True)
class Candidate:
    """A model with its graph inputs, ready to be judged.

    `nodes`: positions in the graph that it was cut from. `expected`: recorded values of its outputs where they are
    known and still valid, so that the reference need not run again.
    """

    model: Model
    feeds: Mapping[str, StoredTensor]
    outputs: Sequence[str]
    nodes: tuple[int, ...] = ()
    expected: Mapping[str, StoredTensor] | None = None

    @property
    def external(self) -> Mapping[str, Blob]:
        """The weights that this candidate's own initializers refer to."""
        return self.model.external

    def digest(self) -> str:
        """Hex BLAKE2b digest (16 bytes) of the model, weights by their own digests, and of its inputs."""
        hasher = hashlib.blake2b(self.model.proto.SerializeToString(deterministic=True), digest_size=16)
        for name, tensor in sorted(self.feeds.items()):
            hasher.update(f"{name} {tensor.elem_type} {tensor.shape} {tensor.blob.digest}\n".encode())
        return hasher.hexdigest()


def whole(model: Model, feeds: Mapping[str, StoredTensor]) -> Candidate:
    """The model itself with its own graph outputs."""
    return Candidate(
        model, feeds, [value.name for value in model.proto.graph.output], tuple(range(len(model.proto.graph.node)))
    )


def leaves(index: GraphIndex, nodes: Collection[int]) -> list[str]:
    """Outputs of a candidate, in file order: values of the kept nodes that none of them reads, and graph outputs.

    A graph output stays one although a kept node reads it: so a candidate is the original less the deleted nodes, with
    the same barriers to fusion, and a fault that shows only there is not lost with the first deletion. Values that
    nothing read in the original either (unused outputs of an operator) are left out, unless a kept node would end with
    no output at all. Values that are no tensors are outputs only when there is no other.
    """
    kept = sorted(set(nodes))
    read_inside = {value for at in kept for value in index.reads[at]}
    found: list[str] = []
    others: list[str] = []
    for at in kept:
        read = read_inside.intersection(index.writes[at])
        free = [value for value in index.writes[at] if value not in read]
        wanted = [
            value
            for value in index.writes[at]
            if value in index.graph_outputs or (value in index.consumers and value not in read)
        ]
        wanted = wanted or ([] if read else free[:1])
        found.extend(value for value in wanted if index.promotable(value))
        others.extend(value for value in wanted if not index.promotable(value))
    return found or others[-1:]


def cut(
    index: GraphIndex,
    nodes: Iterable[int],
    recorded: Mapping[str, StoredTensor],
    *,
    outputs: Sequence[str] | None = None,
) -> Candidate:
    """A candidate of the given nodes, in file order, with as few outputs as possible (or the `outputs` asked for).

    Values read but not produced become graph inputs fed from `recorded`, which also holds the values of the model's
    own graph inputs. Weights stay references. Raises KeyError when a value that is needed was not recorded.
    """
    kept = index.closed(nodes)
    outputs = leaves(index, kept) if outputs is None else list(outputs)
    candidate = part(index, kept, recorded)
    for value in outputs:
        candidate.model.proto.graph.output.append(_output_info(index, value, recorded.get(value)))
    expected = {value: recorded[value] for value in outputs if value in recorded}
    return replace(candidate, outputs=outputs, expected=expected if len(expected) == len(outputs) else None)


def part(index: GraphIndex, kept: Sequence[int], recorded: Mapping[str, StoredTensor]) -> Candidate:
    """The given nodes without an output, as `cut` makes them. The caller sees to it that groups are whole."""
    produced = {value for at in kept for value in index.writes[at]}
    needed = dict.fromkeys(value for at in kept for value in index.reads[at] if value not in produced)
    vague = any(at in index.with_bodies for at in kept)
    proto = _frame(index, kept)
    graph = proto.graph
    graph.node.extend(index.nodes[at] for at in kept)
    feeds: dict[str, StoredTensor] = {}
    external: dict[str, Blob] = {}
    for value in needed:
        if value in index.initializers:
            tensor = index.initializers[value]
            graph.initializer.append(tensor)
            location = external_location(tensor)
            if location is not None:
                external[location] = index.model.external[location]
            if value in index.graph_inputs:  # overridable, and required to be listed before IR version 4
                graph.input.append(index.graph_inputs[value])
        else:
            feeds[value] = recorded[value]
            graph.input.append(_input_info(index, value, recorded[value], vague))
    return Candidate(Model(proto, external, index.model.path), feeds, [], tuple(kept))


def value_info(name: str, tensor: StoredTensor) -> ValueInfoProto:
    """The type of a recorded value, with its whole shape."""
    return helper.make_tensor_value_info(name, tensor.elem_type, tensor.shape)


def _input_info(index: GraphIndex, value: str, tensor: StoredTensor, vague: bool) -> ValueInfoProto:
    """The type of a promoted value. With `vague`, dimensions that the model leaves open stay open.

    Where a body is near, a whole shape can make type inference refuse the branch that is not taken.
    """
    known = index.graph_inputs.get(value)
    if known is not None and _fits(known, tensor):
        return known
    declared = index.declared.get(value)
    if not vague:
        return value_info(value, tensor)
    if declared is not None and _fits(declared, tensor):
        return declared
    return helper.make_tensor_value_info(value, tensor.elem_type, [None] * len(tensor.shape))


def _output_info(index: GraphIndex, value: str, tensor: StoredTensor | None) -> ValueInfoProto:
    known = index.graph_outputs.get(value)
    if tensor is None:
        return known or index.declared.get(value) or ValueInfoProto(name=value)
    return known if known is not None and _fits(known, tensor) else value_info(value, tensor)


def _fits(known: ValueInfoProto, tensor: StoredTensor) -> bool:
    """Whether a declaration is complete and true: files declare shapes that runtimes only warn of."""
    kind = known.type.tensor_type
    return (
        kind.elem_type == tensor.elem_type
        and kind.HasField("shape")
        and len(kind.shape.dim) == len(tensor.shape)
        and all(
            not dim.HasField("dim_value") or dim.dim_value == size
            for dim, size in zip(kind.shape.dim, tensor.shape, strict=True)
        )
    )


def _frame(index: GraphIndex, kept: Sequence[int]) -> ModelProto:
    proto = index.model.proto
    frame = ModelProto(ir_version=proto.ir_version, producer_name="onnxreduce")
    frame.opset_import.extend(proto.opset_import)
    if proto.functions:
        frame.functions.extend(functions_of(proto, (index.nodes[at] for at in kept)))
    frame.graph.name = "reduced"
    return frame
