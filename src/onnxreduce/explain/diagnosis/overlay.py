"""What a value holds after the bytes of another one were written over its beginning."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BUCKETS = (
    64, 128, 256, 512, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576, 2097152, 4194304,
    8388608, 12582912, 16777216, 26214400, 33554432, 44236800, 58982400, 67108864, 134217728, 167772160,
)  # fmt: skip
"""Sizes in bytes of the buffers that onnxruntime-web's WebGPU providers reuse (`bucketFreelist` in its file
gpu-data-manager.ts): a value gets a buffer of the smallest size that holds it."""
BYTES = "bytes"
LOW_WORDS = "low words"
VALUES = "values"


def size_class(length: int) -> int:
    """The size in bytes of the buffer for so many bytes."""
    return next((bucket for bucket in BUCKETS if length <= bucket), -(-length // 16) * 16)


def ways(onto: np.ndarray, source: np.ndarray) -> Iterator[str]:
    """How one value's content can come to lie in another's buffer: as it is, and for integers of other widths too."""
    yield BYTES
    integers = source.dtype.kind in "iu"
    if integers and source.dtype.itemsize == 8 and onto.dtype.itemsize <= 4:
        yield LOW_WORDS  # WebGPU has no 64-bit integers
    if integers and onto.dtype.kind in "iu" and source.dtype.itemsize != onto.dtype.itemsize:
        yield VALUES


def overlaid(onto: np.ndarray, source: np.ndarray, way: str) -> tuple[np.ndarray, int]:
    """`onto` with its first bytes from `source`, as many as both have; and how many that are."""
    if way == LOW_WORDS:
        source = source.astype(np.int32)
    elif way == VALUES:
        source = source.astype(onto.dtype)
    written = min(onto.nbytes, source.nbytes)
    content = np.ascontiguousarray(onto).reshape(-1).view(np.uint8).copy()
    content[:written] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)[:written]
    return content.view(onto.dtype).reshape(onto.shape), written


def same_bytes(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape hold the same bytes (NaN like any other)."""
    return np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()
