"""Any subset of nodes as a model of its own: what is missing is promoted to a graph input with its recorded value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx import ModelProto, ValueInfoProto, helper

from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, external_location
from onnxreduce.graph.tensors import Blob, StoredTensor


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


def whole(model: Model, feeds: Mapping[str, StoredTensor]) -> Candidate:
    """The model itself with its own graph outputs."""
    return Candidate(model, feeds, [value.name for value in model.proto.graph.output], tuple(range(len(model.proto.graph.node))))


def leaves(index: GraphIndex, nodes: Collection[int]) -> list[str]:
    """Values that the kept nodes produce and none of them reads, in file order.

    Values that nothing read in the original either (unused outputs of an operator) are left out, unless a kept node
    would end with no output at all.
    """
    kept = set(nodes)
    found: list[str] = []
    for at in sorted(kept):
        unread = [v for v in index.writes[at] if index.promotable(v) and not any(r in kept for r in index.consumers.get(v, ()))]
        wanted = [v for v in unread if v in index.consumers or v in index.graph_outputs]
        used = any(r in kept for v in index.writes[at] for r in index.consumers.get(v, ()))
        found.extend(wanted or ([] if used else unread[:1]))
    return found


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
    produced = {value for at in kept for value in index.writes[at]}
    needed = dict.fromkeys(value for at in kept for value in index.reads[at] if value not in produced)
    proto = _frame(index.model.proto)
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
            graph.input.append(index.graph_inputs.get(value) or value_info(value, recorded[value]))
    for value in outputs:
        known = index.graph_outputs.get(value)
        graph.output.append(known if known is not None else value_info(value, recorded[value]))
    expected = {value: recorded[value] for value in outputs}
    return Candidate(Model(proto, external, index.model.path), feeds, outputs, kept, expected)


def value_info(name: str, tensor: StoredTensor) -> ValueInfoProto:
    """The type of a recorded value, with its whole shape."""
    return helper.make_tensor_value_info(name, tensor.elem_type, tensor.shape)


def _frame(proto: ModelProto) -> ModelProto:
    frame = ModelProto(ir_version=proto.ir_version, producer_name="onnxreduce")
    frame.opset_import.extend(proto.opset_import)
    frame.functions.extend(proto.functions)
    frame.graph.name = "reduced"
    return frame
