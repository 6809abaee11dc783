"""Weights by reference: large initializers leave the protobuf, and every tensor is checked before anything reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from pathlib import Path

import numpy as np
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.tensors import Blob, StoredTensor, raw_length
from onnxreduce.graph.validity import one_line
from onnxreduce.graph.walk import every_graph, every_node, tensors_inside

EXTERNAL_FROM_BYTES = 4096
"""Initializers of at least this many bytes are held outside the protobuf. Small ones stay inside: shape tensors must be
known at load (facts measured on onnxruntime-web: external shape tensors make Split and others fail to load)."""

_DENSE_LIMIT = 1 << 28
"""Most elements of a sparse tensor that is made dense."""
_KNOWN_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


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


def put_inside(tensor: TensorProto, blob: Blob) -> None:
    """Give a tensor the content of `blob` in place of its reference."""
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = bytes(blob.view())


def external_location(tensor: TensorProto) -> str | None:
    """The location of an initializer's external data, or None when its data is inside."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def take_weights_out(proto: ModelProto, path: Path | None, known: Mapping[str, Blob] | None = None) -> dict[str, Blob]:
    """Replace the content of large initializers, and all external data, by references; returns the content by digest.

    External data of subgraphs and attributes comes inside: runtimes are handed external data by the name of an
    initializer of the main graph. `known` holds the content that is referred to already.
    """
    external: dict[str, Blob] = {}
    for tensor in proto.graph.initializer:
        location = external_location(tensor)
        if location is not None:
            if known and location in known:
                continue
            blob = _external_blob(tensor, path)
        else:
            _check_shape(tensor, f"initializer {tensor.name!r}")
            _check_inside(tensor, f"initializer {tensor.name!r}")
            if tensor.data_type == TensorProto.STRING or tensor.ByteSize() < EXTERNAL_FROM_BYTES:
                continue
            blob = StoredTensor.from_proto(tensor).blob
        external[blob.digest] = blob
        refer(tensor, blob)
    for tensor in tensors_inside(proto):
        if external_location(tensor) is not None:
            put_inside(tensor, _external_blob(tensor, path))
        _check_inside(tensor, f"tensor {tensor.name!r} in a subgraph or an attribute")
    return external


def densify(proto: ModelProto) -> None:
    """Make sparse initializers and sparse constants dense, which onnx-ir does not carry."""
    for graph in every_graph(proto):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse))
        graph.ClearField("sparse_initializer")
    for node in every_node(proto):
        for attribute in node.attribute:
            if attribute.name == "sparse_value" and attribute.type == AttributeProto.SPARSE_TENSOR:
                tensor = _dense(attribute.sparse_tensor)
                attribute.Clear()
                attribute.name, attribute.type = "value", AttributeProto.TENSOR
                attribute.t.CopyFrom(tensor)


def _dense(sparse: SparseTensorProto) -> TensorProto:
    """The COO format of the ONNX IR: values, and one flat index or one tuple of indices for each."""
    what = f"sparse tensor {sparse.values.name!r}"
    if min(sparse.dims, default=0) < 0 or math.prod(sparse.dims) > _DENSE_LIMIT:
        raise BadInputError(f"{what}: shape {list(sparse.dims)} is too large to be made dense, or negative")
    try:
        values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), dense.shape)
        dense.reshape(-1)[flat] = values
        return numpy_helper.from_array(dense, sparse.values.name)
    except Exception as error:
        raise BadInputError(f"{what} cannot be read: {_line(error)}") from error


def _external_blob(tensor: TensorProto, path: Path | None) -> Blob:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"external data of {tensor.name!r}"
    if path is None:
        raise BadInputError(f"{what} cannot be found for a model given in memory; give the path of its file")
    folder = path.parent.resolve()
    file = folder / location
    try:
        inside = bool(location) and not Path(location).is_absolute() and file.resolve().is_relative_to(folder)
        found = inside and file.is_file()
    except (ValueError, OSError, RuntimeError) as error:  # NUL, too long, a loop of links
        raise BadInputError(f"{what}: location {location[:200]!r} is no file name: {_line(error)}") from error
    if not inside:
        raise BadInputError(f"{what}: location {location!r} leaves the model's folder; put the file beside the model")
    if not found:
        raise BadInputError(f"{what} is missing: {location!r} is not beside {path.name}")
    _check_shape(tensor, what)
    needed = raw_length(tensor.data_type, tensor.dims)
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries["length"]) if "length" in entries else None
        if length is None and offset + needed < file.stat().st_size:
            length = needed  # the format says: to the end of the file; writers that leave it out share files
        blob = Blob.from_file(file, offset, length)
    except (ValueError, OSError) as error:
        raise BadInputError(f"{what} in {location!r} is truncated or malformed: {_line(error)}") from error
    if blob.length != needed:
        raise BadInputError(f"{what} has {blob.length} bytes, its shape {list(tensor.dims)} needs {needed}")
    return blob


def _check_shape(tensor: TensorProto, what: str) -> None:
    if tensor.data_type not in _KNOWN_TYPES:
        raise BadInputError(f"{what}: element type {tensor.data_type} is unknown to the installed onnx")
    if min(tensor.dims, default=0) < 0:
        raise BadInputError(f"{what}: negative dimension in {list(tensor.dims)}")


def _check_inside(tensor: TensorProto, what: str) -> None:
    """Refuse a tensor whose content does not fit its shape, before anyone allocates what the shape promises."""
    if not tensor.data_type and not tensor.dims:
        return  # an attribute that is declared and left empty
    _check_shape(tensor, what)
    elements = math.prod(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        found, needed, unit = len(tensor.string_data), elements, "strings"
    elif tensor.HasField("raw_data"):
        found, needed, unit = len(tensor.raw_data), raw_length(tensor.data_type, tensor.dims), "bytes"
    else:
        fields: tuple[Sized, ...] = (
            tensor.float_data,
            tensor.int32_data,
            tensor.int64_data,
            tensor.double_data,
            tensor.uint64_data,
        )
        found, needed, unit = sum(len(values) for values in fields), elements, "elements"
        if tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
            needed *= 2
        elif raw_length(tensor.data_type, (8,)) < 8:  # packed, one byte an entry
            needed = raw_length(tensor.data_type, tensor.dims)
    if found != needed:
        raise BadInputError(f"{what} holds {found} {unit}, its shape {list(tensor.dims)} needs {needed}")


def _line(error: BaseException) -> str:
    return one_line(error) or type(error).__name__
