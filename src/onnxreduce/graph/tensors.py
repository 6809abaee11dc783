"""Tensors kept by reference: bytes in memory or a range of a file, named by their content digest.

Weights, recorded values and model inputs are all held this way, so that a candidate never copies them and a runtime
can ask for bytes that it has not seen yet.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper


@dataclass(frozen=True, eq=False)
class Blob:
    """Immutable bytes, either `data` in memory or `length` bytes at `offset` of the file `path`.

    `digest` is a hex BLAKE2b digest of the content (16 bytes) and identifies the blob everywhere.
    """

    digest: str
    length: int
    data: bytes | None = None
    path: Path | None = None
    offset: int = 0

    @classmethod
    def from_bytes(cls, data: bytes) -> Blob:
        """Hold `data` in memory."""
        return cls(hashlib.blake2b(data, digest_size=16).hexdigest(), len(data), data=data)

    @classmethod
    def from_file(cls, path: Path, offset: int = 0, length: int | None = None) -> Blob:
        """Refer to a range of a file; reads it once, in pieces, for the digest.

        Raises OSError when the file cannot be read, ValueError when the range lies outside of it.
        """
        size = path.stat().st_size
        length = size - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > size:
            raise ValueError(f"{path} has {size} bytes; bytes {offset} to {offset + length} were asked for")
        hasher = hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            file.seek(offset)
            left = length
            while left:
                piece = file.read(min(left, 1 << 22))
                if not piece:
                    raise OSError(f"{path} ended while it was read")
                hasher.update(piece)
                left -= len(piece)
        return cls(hasher.hexdigest(), length, path=path, offset=offset)

    def view(self) -> memoryview:
        """The content, without a copy (file ranges are memory-mapped)."""
        if self.data is not None:
            return memoryview(self.data)
        if self.length == 0 or self.path is None:
            return memoryview(b"")
        start = self.offset - self.offset % mmap.ALLOCATIONGRANULARITY
        with self.path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), self.offset - start + self.length, access=mmap.ACCESS_READ, offset=start)
        return memoryview(mapped)[self.offset - start :]


_PACKED_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}


def raw_length(elem_type: int, shape: Sequence[int]) -> int:
    """Bytes of a tensor in ONNX `raw_data` layout. `elem_type` is known to onnx and not STRING."""
    elements = math.prod(shape)
    bits = _PACKED_BITS.get(TensorProto.DataType.Name(elem_type))
    if bits is not None:
        return -(-elements * bits // 8)
    return elements * int(onnx.helper.tensor_dtype_to_np_dtype(elem_type).itemsize)


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor whose content is a `Blob` in ONNX `raw_data` layout (little-endian, types below a byte packed).

    `elem_type` is an `onnx.TensorProto` data type number. Strings are held as a JSON list; bytes
    that are not UTF-8 become lone surrogates there (Python's `surrogateescape`), so that none is lost. `code` is an
    expression over numpy that gives exactly this content, where it was made by one.
    """

    elem_type: int
    shape: tuple[int, ...]
    blob: Blob
    code: str | None = None

    @classmethod
    def from_array(cls, array: np.ndarray) -> StoredTensor:
        """Hold a numpy array (any ONNX dtype, ml_dtypes ones and strings included) in memory.

        Raises TypeError when numpy's dtype has no ONNX counterpart.
        """
        if array.dtype.kind in "OSU":
            return cls(TensorProto.STRING, array.shape, _strings(array.ravel().tolist()))
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        try:
            proto = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        except (KeyError, ValueError) as error:
            raise TypeError(f"numpy dtype {array.dtype} has no ONNX counterpart") from error
        return cls(proto.data_type, array.shape, Blob.from_bytes(proto.raw_data))

    @cached_property
    def array(self) -> np.ndarray:
        """The tensor as a read-only numpy array; strings come as dtype object."""
        if self.elem_type == TensorProto.STRING:
            texts = np.empty(self.size, dtype=object)
            texts[:] = json.loads(bytes(self.blob.view()))
            return texts.reshape(self.shape)
        if TensorProto.DataType.Name(self.elem_type) in _PACKED_BITS:
            return numpy_helper.to_array(self.to_proto(""))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self.elem_type)
        return np.frombuffer(self.blob.view(), dtype=dtype).reshape(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype_name(self) -> str:
        """ONNX's name of the element type in lower case, such as `float` or `int64`."""
        return TensorProto.DataType.Name(self.elem_type).lower()

    def to_proto(self, name: str) -> TensorProto:
        """A `TensorProto` with the content inline."""
        proto = TensorProto(name=name, data_type=self.elem_type, dims=self.shape)
        if self.elem_type == TensorProto.STRING:
            texts = json.loads(bytes(self.blob.view()))
            proto.string_data.extend(text.encode("utf-8", "surrogateescape") for text in texts)
        else:
            proto.raw_data = bytes(self.blob.view())
        return proto

    @classmethod
    def from_proto(cls, proto: TensorProto) -> StoredTensor:
        """Hold the content of a `TensorProto` whose data is inline, whichever of its fields carries it."""
        if proto.data_type == TensorProto.STRING:
            return cls(proto.data_type, tuple(proto.dims), _strings(proto.string_data))
        raw = (
            proto.raw_data
            if proto.HasField("raw_data")
            else numpy_helper.from_array(numpy_helper.to_array(proto)).raw_data
        )
        return cls(proto.data_type, tuple(proto.dims), Blob.from_bytes(raw))


def _strings(texts: Iterable[bytes | str]) -> Blob:
    decoded = [t.decode("utf-8", "surrogateescape") if isinstance(t, bytes) else str(t) for t in texts]
    return Blob.from_bytes(json.dumps(decoded).encode())
