"""Load a model and bring it into the one form that everything else works on.

Weights are taken out of the protobuf at once: each large initializer becomes a reference by content digest, so that a
candidate carries names, never bytes. Then functions are inlined, constants become initializers, what has no name is
named and, only where needed, nodes are sorted: their order in the file is part of many faults and is otherwise kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.collector import collector_paused
from onnxreduce.graph.normal import hoist_weights, lift_constants, list_initializers, rewritten
from onnxreduce.graph.tensors import Blob
from onnxreduce.graph.validity import check
from onnxreduce.graph.weights import (
    EXTERNAL_FROM_BYTES,
    densify,
    external_location,
    put_inside,
    refer,
    take_weights_out,
)

__all__ = ["EXTERNAL_FROM_BYTES", "Model", "external_location", "load", "normalise", "refer"]

_PROTOBUF_LIMIT = 1 << 31


@dataclass(frozen=True)
class Model:
    """A model whose large weights are outside its protobuf.

    `proto`: each initializer with external data has the digest of its content as location, a key of `external`.
    `path`: the file it came from, for messages.
    """

    proto: ModelProto
    external: Mapping[str, Blob] = field(default_factory=dict)
    path: Path | None = None

    @property
    def name(self) -> str:
        """File name, or the graph's name for a model from memory."""
        return self.path.name if self.path else self.proto.graph.name or "model"

    def with_weights_inside(self) -> ModelProto:
        """A self-contained copy; raises ValueError past protobuf's limit of 2 GiB."""
        size = self.proto.ByteSize() + sum(blob.length for blob in self.external.values())
        if size >= _PROTOBUF_LIMIT:
            raise ValueError(f"{self.name} has {size} bytes with its weights inside; protobuf holds less than 2 GiB")
        copy = ModelProto()
        copy.CopyFrom(self.proto)
        for tensor in copy.graph.initializer:
            location = external_location(tensor)
            if location is not None and location in self.external:
                put_inside(tensor, self.external[location])
        return copy


@collector_paused()
def load(source: Path | str | ModelProto) -> Model:
    """Load a model as it is, with large weights outside. Raises BadInputError with the reason when it is not usable."""
    if isinstance(source, ModelProto):
        proto, path = ModelProto(), None
        proto.CopyFrom(source)
    else:
        path = Path(source)
        proto = _parse(path)
    name = path.name if path else "the model"
    if not proto.graph.node:
        raise BadInputError(f"{name} holds no graph with nodes: it is not an ONNX model, or it is truncated")
    if not proto.ir_version or not proto.opset_import:
        raise BadInputError(f"{name} is not an ONNX model, or it is truncated: it has no IR version or no opset")
    try:
        densify(proto)
        check(proto)
        external = take_weights_out(proto, path)
    except BadInputError as error:
        raise BadInputError(f"{name}: {error}") from error
    except RecursionError as error:
        raise BadInputError(f"{name}: its subgraphs are nested too deeply") from error
    return Model(proto, external, path)


@collector_paused()
def normalise(model: Model) -> Model:
    """Inline functions, lift constants, name every node and value, drop metadata, sort only if unsorted.

    Weights of subgraphs move to the main graph, so that they are held by reference too. Raises BadInputError when
    onnx-ir cannot read the model.
    """
    proto = rewritten(model.proto, model.name)
    lift_constants(proto.graph)
    hoist_weights(proto.graph)
    list_initializers(proto)
    lifted = take_weights_out(proto, None, model.external)
    return Model(proto, {**model.external, **lifted}, model.path)


def _parse(path: Path) -> ModelProto:
    shown = str(path) if str(path).isprintable() else repr(str(path))
    try:
        if not path.exists():
            raise BadInputError(f"{shown}: no such file")
        if path.is_dir():
            raise BadInputError(f"{shown} is a folder; give the .onnx file in it")
        if not path.is_file():
            raise BadInputError(f"{shown} is no regular file")
        size = path.stat().st_size
        if size >= _PROTOBUF_LIMIT:
            raise BadInputError(f"{shown} has {size} bytes; an ONNX file with its weights outside has less than 2 GiB")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{shown} cannot be read: {reason}") from error
    if not data:
        raise BadInputError(f"{shown} is empty")
    try:
        return onnx.load_model_from_string(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"{shown} is not an ONNX model, or it is truncated (protobuf cannot be parsed)") from error
