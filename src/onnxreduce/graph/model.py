"""Load a model and bring it into the one form that everything else works on.

Weights are taken out of the protobuf at once: each large initializer becomes a reference by content digest, so that a
candidate carries names, never bytes. onnx-ir's passes inline functions, lift constants to initializers, name what has
no name and, only where needed, sort: the order of nodes in the file is part of many faults and is otherwise kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper
from onnx_ir.passes.common import (
    ClearMetadataAndDocStringPass,
    InlinePass,
    LiftConstantsToInitializersPass,
    NameFixPass,
    TopologicalSortPass,
)

from onnxreduce.errors import BadInputError
from onnxreduce.graph.tensors import Blob
from onnxreduce.graph.walk import defined_names, graphs_of, read_names

EXTERNAL_FROM_BYTES = 4096
"""Initializers of at least this many bytes are held outside the protobuf. Small ones stay inside: shape tensors must be
known at load (facts measured on onnxruntime-web: external shape tensors make Split and others fail to load)."""


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
        copy = ModelProto()
        copy.CopyFrom(self.proto)
        for tensor in _all_initializers(copy):
            blob = self.external.get(_location(tensor)) if _is_external(tensor) else None
            if blob is not None:
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
                tensor.raw_data = bytes(blob.view())
        return copy


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
    _densify_sparse(proto)
    external = _take_weights_out(proto, path, name)
    _check_names(proto, name)
    return Model(proto, external, path)


def normalise(model: Model) -> Model:
    """Inline functions, lift constants, name every node and value, drop metadata, sort only if unsorted.

    Raises BadInputError when onnx-ir cannot read the model.
    """
    try:
        graph_model = ir.from_proto(model.proto)
        passes = [
            InlinePass(),
            LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
            NameFixPass(),
            ClearMetadataAndDocStringPass(),  # exporters leave kilobytes of stack trace on each node
        ]
        if not _is_sorted(model.proto):
            passes.append(TopologicalSortPass())
        for one in passes:
            graph_model = one(graph_model).model
        proto = ir.to_proto(graph_model)
    except Exception as error:
        reason = str(error.__cause__ or error).strip().splitlines()
        raise BadInputError(f"{model.name} cannot be normalised: {reason[0] if reason else type(error).__name__}") from error
    lifted = _take_weights_out(proto, None, model.name, model.external)
    return Model(proto, {**model.external, **lifted}, model.path)


def refer(tensor: TensorProto, blob: Blob) -> None:
    """Make an initializer refer to `blob` by digest instead of holding its data."""
    keep = (tensor.name, tensor.data_type, list(tensor.dims))
    tensor.Clear()
    tensor.name, tensor.data_type = keep[0], keep[1]
    tensor.dims.extend(keep[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=blob.digest)
    tensor.external_data.add(key="offset", value="0")
    tensor.external_data.add(key="length", value=str(blob.length))


def external_location(tensor: TensorProto) -> str | None:
    """The location of an initializer's external data, or None when its data is inside."""
    return _location(tensor) if _is_external(tensor) else None


def _parse(path: Path) -> ModelProto:
    if not path.exists():
        raise BadInputError(f"{path}: no such file")
    if path.is_dir():
        raise BadInputError(f"{path} is a folder; give the .onnx file in it")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from error
    if not data:
        raise BadInputError(f"{path} is empty")
    try:
        proto = onnx.load_model_from_string(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"{path} is not an ONNX model, or it is truncated (protobuf cannot be parsed)") from error
    if not proto.ir_version or not proto.opset_import:
        raise BadInputError(f"{path} is not an ONNX model: it has no IR version or no opset")
    return proto


def _take_weights_out(
    proto: ModelProto, path: Path | None, name: str, known: Mapping[str, Blob] | None = None
) -> dict[str, Blob]:
    external: dict[str, Blob] = {}
    for tensor in _all_initializers(proto):
        if _is_external(tensor):
            if known and _location(tensor) in known:
                continue
            blob = _external_blob(tensor, path)
        elif tensor.data_type == TensorProto.STRING or tensor.ByteSize() < EXTERNAL_FROM_BYTES:
            continue
        else:
            blob = Blob.from_bytes(_raw_data(tensor, name))
        external[blob.digest] = blob
        refer(tensor, blob)
    return external


def _all_initializers(proto: ModelProto) -> Iterable[TensorProto]:
    for graph in graphs_of(proto.graph):
        yield from graph.initializer


def _is_external(tensor: TensorProto) -> bool:
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def _location(tensor: TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def _raw_data(tensor: TensorProto, name: str) -> bytes:
    if tensor.HasField("raw_data"):
        return bytes(tensor.raw_data)
    try:
        return bytes(numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data)
    except Exception as error:
        raise BadInputError(f"{name}: initializer {tensor.name!r} cannot be read: {error}") from error


def _external_blob(tensor: TensorProto, path: Path | None) -> Blob:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"external data of initializer {tensor.name!r}"
    if path is None:
        raise BadInputError(f"{what} cannot be found for a model given in memory; give the path of its file")
    folder = path.resolve().parent
    file = folder / location
    if not location or Path(location).is_absolute() or not file.resolve().is_relative_to(folder):
        raise BadInputError(f"{what}: location {location!r} leaves the model's folder; put the file beside the model")
    if not file.is_file():
        raise BadInputError(f"{what} is missing: {location!r} is not beside {path.name}")
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else None
        blob = Blob.from_file(file, offset, length)
    except (ValueError, OSError) as error:
        raise BadInputError(f"{what} in {location!r} is truncated or malformed: {error}") from error
    _check_size(tensor, blob.length, what)
    return blob


def _check_size(tensor: TensorProto, length: int, what: str) -> None:
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, ValueError) as error:
        raise BadInputError(f"{what}: unknown element type {tensor.data_type}") from error
    if min(tensor.dims, default=0) < 0:
        raise BadInputError(f"{what}: negative dimension in {list(tensor.dims)}")
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    packed = TensorProto.DataType.Name(tensor.data_type) in ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
    if not packed and length != elements * dtype.itemsize:
        raise BadInputError(f"{what} has {length} bytes, its shape {list(tensor.dims)} needs {elements * dtype.itemsize}")


def _densify_sparse(proto: ModelProto) -> None:
    """Turn sparse initializers into dense ones (onnx-ir does not carry them). COO format as ONNX IR defines it."""
    for sparse in proto.graph.sparse_initializer:
        values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dense.shape)
        dense.reshape(-1)[flat] = values
        proto.graph.initializer.append(numpy_helper.from_array(dense, sparse.values.name))
    proto.graph.ClearField("sparse_initializer")


def _check_names(proto: ModelProto, name: str) -> None:
    known = defined_names(proto.graph)
    known.update(output for node in proto.graph.node for output in node.output)
    for position, node in enumerate(proto.graph.node):
        for value in read_names(node):
            if value not in known:
                raise BadInputError(
                    f"{name}: node {node.name or position} ({node.op_type}) reads {value!r}, which nothing produces"
                )


def _is_sorted(proto: ModelProto) -> bool:
    known = defined_names(proto.graph)
    for node in proto.graph.node:
        if any(value not in known for value in read_names(node)):
            return False
        known.update(node.output)
    return True
