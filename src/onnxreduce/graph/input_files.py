"""Read model inputs from files that may come from anyone: `.npz` archives and ONNX test data folders.

Nothing is unpickled, and nothing is unpacked far beyond what the model's input could need.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.tensors import StoredTensor

Given = dict[str | int, StoredTensor]
"""Tensors by input name, or by position in `ordered_inputs` where the file tells no name."""

MAX_BYTES = (1 << 31) - 1
"""Most bytes read for an input whose size the model leaves open: an ArrayBuffer in Chrome ends just below 2 GiB."""

_HARMLESS_BYTES = 1 << 24
"""Content up to here is read whatever the model says, so that a wrong shape or dtype is told as just that."""

_WIDEST = 16
"""Bytes of the widest element type (complex128): a wrong dtype may take that much for each element."""

_HEADER_BYTES = 1 << 16
"""Bytes in which a `.npy` header must end; numpy itself refuses texts above 10,000 characters."""

_BITS: dict[int, int] = {
    **dict.fromkeys((TensorProto.UINT4, TensorProto.INT4, TensorProto.FLOAT4E2M1), 4),
    **dict.fromkeys((getattr(TensorProto, name, -1) for name in ("UINT2", "INT2")), 2),
    **dict.fromkeys((getattr(TensorProto, name, -1) for name in ("FLOAT6E2M3", "FLOAT6E3M2")), 6),
}


def required_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Graph inputs without an initializer that serves as default, in order."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    defaults |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    return [each for each in model.graph.input if each.name not in defaults]


def ordered_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """All graph inputs in the order in which files and positions count them: those with a default come last."""
    required = required_inputs(model)
    names = {each.name for each in required}
    return [*required, *(each for each in model.graph.input if each.name not in names)]


def feed_names(model: onnx.ModelProto, names: Iterable[str]) -> list[str]:
    """The given input names in the order of `ordered_inputs`, which is that of `input_N.pb`.

    Raises ValueError for a name that is no graph input.
    """
    given = set(names)
    order = [each.name for each in ordered_inputs(model)]
    if given - set(order):
        raise ValueError(f"no graph input is named {sorted(given - set(order))}")
    return [name for name in order if name in given]


def read_inputs(path: Path, wanted: Sequence[onnx.ValueInfoProto] = ()) -> Given:
    """Read the tensors in `FILE.npz`, in a folder with `input_0.pb`, ..., or in a folder that holds `test_data_set_0`.

    `wanted` are the model's inputs, from `ordered_inputs`. With them sizes are limited to what each input could need,
    names that the model does not know give way to positions (those of `.pb` files, and numpy's own `arr_0`, `arr_1`,
    ...), and raw bytes without a dtype, as numpy saves bfloat16, take the input's type. Raises BadInputError for
    anything that cannot be read whole and without unpickling.
    """
    try:
        if path.is_dir():
            return _read_folder(path, wanted)
        if path.suffix == ".npz":
            return _read_npz(path, wanted)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise BadInputError(f"{path}: cannot be read: {error}") from error
    if not path.exists():
        raise BadInputError(f"{path}: no such file or folder")
    raise BadInputError(f"{path}: inputs are read from FILE.npz or from a folder with input_0.pb, input_1.pb, ...")


def read_npy(path: Path, wanted: onnx.ValueInfoProto | None = None) -> StoredTensor:
    """Read one array from a `.npy` file; limits and errors as in `read_inputs`."""
    try:
        with path.open("rb") as file:
            return _read_array(file, str(path), wanted)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error}") from error


def check_known(key: str | int, known: Collection[str | int]) -> None:
    """Raise BadInputError, with a list of the known names, unless an input of this name (or position) is known."""
    if key not in known:
        names = ", ".join(repr(name) for name in known if isinstance(name, str))
        raise BadInputError(f"the model has no input {key!r}; its inputs are {names or 'none'}")


def checked_tensor(proto: TensorProto, where: str) -> StoredTensor:
    """Hold the content of a `TensorProto`; raises BadInputError when it does not fit its type and shape."""
    if proto.data_location == TensorProto.EXTERNAL:
        raise BadInputError(
            f"{where}: has its content in another file; only tensors with their content inside are read"
        )
    dims, count = list(proto.dims), math.prod(proto.dims)
    try:
        bits = _BITS.get(proto.data_type) or onnx.helper.tensor_dtype_to_np_dtype(proto.data_type).itemsize * 8
    except KeyError as error:
        raise BadInputError(f"{where}: is not a tensor (element type {proto.data_type})") from error
    if min(dims, default=0) < 0:
        raise BadInputError(f"{where}: has a negative dimension in its shape {dims}")
    have, need, what = len(proto.string_data), count, "strings"
    if proto.data_type != TensorProto.STRING:
        have, need, what = len(proto.raw_data), -(-count * bits // 8), "bytes"
    if (proto.HasField("raw_data") or proto.data_type == TensorProto.STRING) and have != need:
        raise BadInputError(f"{where}: shape {dims} needs {need} {what}, but there are {have}")
    try:
        return StoredTensor.from_proto(proto)
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(f"{where}: its content does not fit its shape {dims}: {error}") from error


def _read_folder(folder: Path, wanted: Sequence[onnx.ValueInfoProto]) -> Given:
    found = {int(m[1]): file for file in folder.iterdir() if (m := re.fullmatch(r"input_(\d{1,6})\.pb", file.name))}
    if not found and (folder / "test_data_set_0").is_dir():
        return _read_folder(folder / "test_data_set_0", wanted)
    if not found:
        raise BadInputError(f"{folder}: holds neither input_0.pb, input_1.pb, ... nor a folder test_data_set_0")
    names = {each.name for each in wanted}
    given: Given = {}
    for position, file in sorted(found.items()):
        if file.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{file}: is larger than {MAX_BYTES} bytes, the most that is read for an input")
        if position < len(wanted) and not wanted[position].type.HasField("tensor_type"):
            raise BadInputError(f"{file}: input {wanted[position].name!r} is not a tensor, and only tensors are read")
        proto = TensorProto()
        try:
            proto.ParseFromString(file.read_bytes())
        except DecodeError as error:
            raise BadInputError(f"{file}: is not a TensorProto, or it is truncated") from error
        known = proto.name in names if wanted else bool(proto.name)
        key = proto.name if known else position
        if key in given:
            raise BadInputError(f"{file}: another file holds {key!r} too")
        given[key] = checked_tensor(proto, str(file))
    return given


def _read_npz(path: Path, wanted: Sequence[onnx.ValueInfoProto]) -> Given:
    given: Given = {}
    known: dict[str | int, onnx.ValueInfoProto] = {each.name: each for each in wanted}
    known.update(enumerate(wanted))
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            key: str | int = name
            if wanted and name not in known and (match := re.fullmatch(r"arr_(\d{1,6})", name)):
                key = int(match[1])
            if key in given:
                raise BadInputError(f"{path}: holds {name!r} twice")
            if wanted:
                check_known(key, known)
            with archive.open(entry) as file:
                given[key] = _read_array(file, f"{path}: {name!r}", known.get(key))
    return given


def _read_array(file: IO[bytes], where: str, wanted: onnx.ValueInfoProto | None) -> StoredTensor:
    """One array in `.npy` format, without a look at what the container says of its size."""
    head = io.BytesIO(file.read(_HEADER_BYTES))
    try:
        version = np.lib.format.read_magic(head)
        if version not in _HEADER_READERS:
            raise ValueError(f"format version {version[0]}.{version[1]}")
        shape, fortran, dtype = _HEADER_READERS[version](head)
    except (ValueError, TypeError, SyntaxError, TokenError, MemoryError, RecursionError) as error:
        reason = (str(error).splitlines() or ["unreadable header"])[0]
        raise BadInputError(f"{where}: is not an array in .npy format: {reason}") from error
    if dtype.hasobject:
        raise BadInputError(
            f"{where}: holds pickled Python objects, which are never loaded (save strings as dtype str)"
        )
    if dtype.itemsize == 0 or dtype.names is not None or dtype.subdtype is not None or min(shape, default=0) < 0:
        raise BadInputError(f"{where}: dtype {dtype} with shape {shape} is not a tensor")
    declared = math.prod(shape) * dtype.itemsize
    limit = max(_HARMLESS_BYTES, 0 if dtype.kind in "US" else _most_bytes(wanted))
    if declared > limit:
        need = f"input {wanted.name!r} can need" if wanted is not None else "is read"
        raise BadInputError(f"{where}: declares {declared} bytes of content, more than {need} (at most {limit})")
    content = head.read(declared)
    content += file.read(declared - len(content))
    if len(content) < declared:
        raise BadInputError(f"{where}: is truncated: {len(content)} of {declared} bytes of content")
    array = np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "V":
        array = _typed(array, where, wanted)
    try:
        return StoredTensor.from_array(array.astype(array.dtype.newbyteorder("=")) if dtype.byteorder == ">" else array)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"{where}: dtype {dtype} cannot be an ONNX tensor: {error}") from error


_HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _most_bytes(wanted: onnx.ValueInfoProto | None) -> int:
    """Most bytes that content for an input can take, in any dtype."""
    tensor = wanted.type.tensor_type if wanted is not None else onnx.TypeProto.Tensor()
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return MAX_BYTES
    return min(MAX_BYTES, _WIDEST * math.prod(int(dim.dim_value) for dim in tensor.shape.dim))


def _typed(array: np.ndarray, where: str, wanted: onnx.ValueInfoProto | None) -> np.ndarray:
    """Raw bytes as the type that the model wants, if that is one which numpy itself cannot name."""
    elem_type = wanted.type.tensor_type.elem_type if wanted is not None else TensorProto.UNDEFINED
    if elem_type != TensorProto.UNDEFINED:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        if dtype.isbuiltin != 1 and dtype.itemsize == array.dtype.itemsize:
            return array.view(dtype)
    raise BadInputError(f"{where}: holds raw {array.dtype.itemsize}-byte values, and no model input tells their type")
