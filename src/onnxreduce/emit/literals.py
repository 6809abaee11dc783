"""Python source for values that come from models: nothing but inert literals, and every bit of a number survives.

Model strings only ever enter source through `quoted`, which goes through `repr`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

import numpy as np
from onnx import TensorProto

from onnxreduce.emit.layout import Expression, Group, listing
from onnxreduce.graph.formulas import formula
from onnxreduce.graph.tensors import StoredTensor

MAX_LITERAL_SIZE = 64
"""Most elements that are written out as numbers: six lines or so, still pleasant to read."""

_SPECIAL = {"nan": "np.nan", "inf": "np.inf", "-inf": "-np.inf"}
_SPECIAL_VALUES = {"np.nan": np.nan, "np.inf": np.inf, "-np.inf": -np.inf}
_UNSIGNED: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def quoted(text: str | bytes) -> str:
    """A string or bytes literal on one line, in double quotes where that needs no escape."""
    if isinstance(text, str) and text.isprintable() and not set(text) & set('"\\'):
        return f'"{text}"'
    return repr(text)


def quoted_bytes(content: bytes) -> str:
    """A literal for bytes that are usually text: a string literal where they are printable UTF-8, else bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return repr(content)
    return quoted(text) if text.isprintable() else repr(content)


def float_text(value: float) -> str:
    """The shortest literal for a float32 value that Python's float and a cast give back bit for bit."""
    text = str(np.float32(value))
    return _SPECIAL.get(text) or (text if np.float32(ast.literal_eval(text)) == np.float32(value) else repr(value))


def strings(values: Iterable[str]) -> str:
    """A list literal of names on one line."""
    return "[" + ", ".join(map(quoted, values)) + "]"


def element_type(number: int) -> str:
    """ONNX element type as it is written in the script, such as `TP.FLOAT`; the bare number where it has no name."""
    try:
        return f"TP.{TensorProto.DataType.Name(number)}"
    except ValueError:
        return str(number)


def identifier(text: str) -> str:
    """`text` cut down to what is safe in a file name everywhere: letters, digits, `_` and `-`, at most 40."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)[-40:].strip("_") or "tensor"


def numpy_native(elem_type: int) -> bool:
    """Whether plain numpy, without ml_dtypes, has this element type."""
    return elem_type in _NATIVE


_NATIVE: dict[int, str] = {
    TensorProto.FLOAT: "np.float32",
    TensorProto.UINT8: "np.uint8",
    TensorProto.INT8: "np.int8",
    TensorProto.UINT16: "np.uint16",
    TensorProto.INT16: "np.int16",
    TensorProto.INT32: "np.int32",
    TensorProto.INT64: "np.int64",
    TensorProto.BOOL: "bool",
    TensorProto.FLOAT16: "np.float16",
    TensorProto.DOUBLE: "np.float64",
    TensorProto.UINT32: "np.uint32",
    TensorProto.UINT64: "np.uint64",
    TensorProto.COMPLEX64: "np.complex64",
    TensorProto.COMPLEX128: "np.complex128",
}


def array_expression(tensor: StoredTensor) -> Expression | None:
    """A numpy expression with exactly the tensor's dtype, shape and bits, or None when it would not be readable.

    Constant fills and ranges of any size, other tensors up to `MAX_LITERAL_SIZE` elements; only numpy's own dtypes.
    """
    dtype = _NATIVE.get(tensor.elem_type)
    if dtype is None:
        return None
    array = tensor.array
    flat = array.reshape(-1)
    if tensor.size == 0:
        return f"np.zeros({_shape(tensor.shape)}, {dtype})"
    if (tensor.size > 4 or (tensor.size == 1 and len(tensor.shape) > 1)) and (
        fill := _fill(flat, _shape(tensor.shape), dtype)
    ):
        return fill
    reshape = _reshape(tensor.shape)
    if tensor.size > 4 and (steps := _range(flat, dtype)):
        return steps + reshape
    if tensor.size > 4 and (found := formula(tensor)):
        return found.code
    if tensor.size > MAX_LITERAL_SIZE:
        return None
    numbers = _numbers(flat)
    if numbers is not None:
        if not tensor.shape:
            return f"np.array({numbers[0]}, {dtype})"
        return Group("np.array([", tuple(numbers), f"], {dtype}){reshape}", filled=True)
    unsigned = _UNSIGNED[min(flat.dtype.itemsize, 8)]
    words = [f"0x{word:0{2 * unsigned().itemsize}x}" for word in flat.view(unsigned).tolist()]
    view = f"], np.{unsigned.__name__}).view({dtype})" + (reshape if tensor.shape else ".reshape(())")
    return Group("np.array([", tuple(words), view, filled=True)


def number_list(tensor: StoredTensor) -> Expression | None:
    """The elements in order as a list of numbers that `helper.make_tensor` stores exactly; None when there is none."""
    if tensor.elem_type not in _NATIVE or not 0 < tensor.size <= MAX_LITERAL_SIZE or tensor.array.dtype.kind == "c":
        return None
    numbers = _numbers(tensor.array.reshape(-1))
    return None if numbers is None else listing(numbers, filled=True)


def string_array(texts: Sequence[str], shape: tuple[int, ...], dtype: str) -> Expression:
    """A numpy expression for strings; `dtype` is the second argument of `np.array` as text."""
    if not texts:
        return f"np.zeros({_shape(shape)}, {dtype})"
    if not shape:
        return f"np.array({quoted(texts[0])}, {dtype})"
    return Group("np.array([", tuple(map(quoted, texts)), f"], {dtype}){_reshape(shape)}", filled=True)


def _shape(shape: tuple[int, ...]) -> str:
    return str(shape[0]) if len(shape) == 1 else str(shape)


def _reshape(shape: tuple[int, ...]) -> str:
    return f".reshape({', '.join(map(str, shape))})" if len(shape) > 1 else ""


def _numbers(flat: np.ndarray) -> list[str] | None:
    """One literal an element, or None when some bit (a NaN's payload or sign) would be lost."""
    if flat.dtype.kind == "c":
        parts = _numbers(flat.view(np.float32 if flat.dtype.itemsize == 8 else np.float64))
        return parts and [f"complex({re}, {im})" for re, im in zip(parts[::2], parts[1::2], strict=True)]
    texts = [_SPECIAL.get(text, text) for text in map(str, flat)]
    values = [_SPECIAL_VALUES[text] if text in _SPECIAL_VALUES else ast.literal_eval(text) for text in texts]
    return texts if np.array(values, flat.dtype).tobytes() == flat.tobytes() else None


def _fill(flat: np.ndarray, shape: str, dtype: str) -> str | None:
    """`np.zeros`, `np.ones` or `np.full` where all elements have the same bits."""
    words = flat.view(np.uint8).reshape(flat.size, -1)
    if not (words == words[0]).all():
        return None
    if not words[0].any():
        return f"np.zeros({shape}, {dtype})"
    if flat.dtype.kind != "b" and flat[0] == 1:
        return f"np.ones({shape}, {dtype})"
    numbers = _numbers(flat[:1])
    return None if numbers is None else f"np.full({shape}, {numbers[0]}, {dtype})"


def _range(flat: np.ndarray, dtype: str) -> str | None:
    """`np.arange` for evenly spaced whole numbers."""
    if flat.dtype.kind not in "iuf":
        return None
    start, step = float(flat[0]), float(flat[1]) - float(flat[0])
    if not (start.is_integer() and step.is_integer() and step and abs(start) < 2**31 and abs(step) < 2**31):
        return None
    first, stride = int(start), int(step)
    stop = first + stride * flat.size
    try:
        made = np.arange(first, stop, stride, dtype=flat.dtype)
    except (OverflowError, ValueError):
        return None
    if made.tobytes() != flat.tobytes():
        return None
    head = f"{first}, {stop}" if stride != 1 or first else f"{stop}"
    return f"np.arange({head}{f', {stride}' if stride != 1 else ''}, dtype={dtype})"
