"""Make tensors of any ONNX element type: uniform, normal, counted or constant values, exact or refused."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import onnx
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_expressions import Expression
from onnxreduce.graph.tensors import StoredTensor

MAX_ELEMENTS = 1 << 30
"""Most elements made for one input."""

WORDS = ("", "a", "to", "be", "one", "two", "word", "onnx")
"""What generated string tensors are made of: short words, and none."""

_INTEGER_NAMES = {"INT": True, "UINT": False}
INTEGER_RANGES: dict[int, tuple[int, int]] = {
    number: ((-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1))
    for prefix, signed in _INTEGER_NAMES.items()
    for bits in (2, 4, 8, 16, 32, 64)
    if (number := dict(TensorProto.DataType.items()).get(f"{prefix}{bits}")) is not None
}
"""Least and largest value by integer element type."""


def kind_of(elem_type: int) -> str:
    """`integer`, `float`, `complex`, `bool` or `string`; raises BadInputError for a number that is no element type."""
    if elem_type in INTEGER_RANGES:
        return "integer"
    try:
        name = TensorProto.DataType.Name(elem_type)
    except ValueError:
        name = "UNDEFINED"
    for prefix, kind in (("BOOL", "bool"), ("STRING", "string"), ("COMPLEX", "complex"), ("UNDEFINED", "")):
        if name.startswith(prefix):
            if not kind:
                raise BadInputError(f"element type {elem_type} is not known to the installed onnx package")
            return kind
    return "float"


def generator(seed: int, name: str) -> np.random.Generator:
    """A random generator for one input: it depends on the seed and the input's name, not on other inputs."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, "<u4").tolist()])


def evaluate(expression: Expression, elem_type: int, shape: tuple[int, ...], rng: np.random.Generator) -> StoredTensor:
    """The tensor that an expression other than a file describes.

    Raises BadInputError when the element type cannot hold the values exactly or `arange` does not fill the shape.
    """
    arguments = expression.arguments
    if expression.function == "full":
        return filled(elem_type, shape, arguments[0])
    if expression.function in ("zeros", "ones"):
        value = int(expression.function == "ones")
        return filled(elem_type, shape, bool(value) if kind_of(elem_type) == "bool" else value)
    first, second = (float(value) if isinstance(value, str) else value for value in arguments)
    if expression.function == "uniform":
        return uniform(elem_type, shape, first, second, rng)
    if expression.function == "normal":
        return normal(elem_type, shape, first, second, rng)
    return counted(elem_type, shape, first, second)


def filled(elem_type: int, shape: tuple[int, ...], value: int | float | bool | str) -> StoredTensor:
    """Every element the same. Integers, bools and strings take only values of their kind."""
    _check_size(shape)
    kind = kind_of(elem_type)
    if not _fits(kind, value):
        raise _refused(elem_type, f"the value {value!r}")
    if isinstance(value, str):
        texts = np.empty(shape, object)
        texts[...] = value
        return StoredTensor.from_array(texts)
    if kind == "integer":
        value = int(value)
        _check_range(elem_type, value, value)
    return _stored(np.full(shape, value, _carrier(elem_type) if kind == "integer" else None), elem_type)


def uniform(elem_type: int, shape: tuple[int, ...], low: float, high: float, rng: np.random.Generator) -> StoredTensor:
    """Uniform over [low, high): numbers for float and complex types, whole numbers for integer types."""
    _check_size(shape)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadInputError(f"uniform({low},{high}) needs two finite numbers, the lower first")
    kind = kind_of(elem_type)
    if kind == "integer":
        first, last = math.ceil(low), math.ceil(high) - 1
        if first > last:
            raise BadInputError(f"uniform({low},{high}) holds no whole number")
        _check_range(elem_type, first, last)
        wide = np.uint64 if last > np.iinfo(np.int64).max else np.int64
        return _stored(rng.integers(first, last, shape, wide, endpoint=True), elem_type)
    if kind == "complex":
        return _stored(rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape), elem_type)
    if kind != "float":
        raise _refused(elem_type, f"uniform({low},{high})")
    return _stored(rng.uniform(low, high, shape), elem_type)


def normal(elem_type: int, shape: tuple[int, ...], mean: float, std: float, rng: np.random.Generator) -> StoredTensor:
    """Normally distributed numbers, for float types only."""
    _check_size(shape)
    if kind_of(elem_type) != "float":
        raise _refused(elem_type, f"normal({mean},{std})")
    if not (math.isfinite(mean) and math.isfinite(std) and std >= 0):
        raise BadInputError(f"normal({mean},{std}) needs two finite numbers, the second not negative")
    return _stored(rng.normal(mean, std, shape), elem_type)


def counted(elem_type: int, shape: tuple[int, ...], first: float, stop: float) -> StoredTensor:
    """`first`, `first + 1`, ... below `stop`, in row-major order; their number must fill the shape exactly."""
    _check_size(shape)
    size = math.prod(shape)
    if not (math.isfinite(first) and math.isfinite(stop)) or stop - first != size:
        count = max(0, math.ceil(stop - first)) if math.isfinite(stop - first) else "no"
        raise BadInputError(f"arange({first},{stop}) gives {count} values, but the shape {list(shape)} takes {size}")
    kind = kind_of(elem_type)
    if kind == "integer" and float(first).is_integer():
        _check_range(elem_type, int(first), int(first) + max(size - 1, 0))
        wide = np.uint64 if first + size > np.iinfo(np.int64).max else np.int64
        return _stored((np.arange(size, dtype=wide) + wide(int(first))).reshape(shape), elem_type)
    if kind != "float":
        raise _refused(elem_type, f"arange({first},{stop})")
    values = (np.arange(size) + first).reshape(shape)
    tensor = _stored(values, elem_type)
    if not np.array_equal(tensor.array.astype(np.float64), values) and float(first).is_integer():
        raise _refused(elem_type, f"all values of arange({first},{stop})")
    return tensor


def words(shape: tuple[int, ...], rng: np.random.Generator) -> StoredTensor:
    """Strings drawn from `WORDS`."""
    _check_size(shape)
    return StoredTensor.from_array(np.asarray(np.array(WORDS, object)[rng.integers(0, len(WORDS), shape)], object))


def _fits(kind: str, value: int | float | bool | str) -> bool:
    if kind == "string" or isinstance(value, str):
        return kind == "string" and isinstance(value, str)
    if kind == "bool":
        return isinstance(value, int) and value in (0, 1)
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return not isinstance(value, bool)


def _carrier(elem_type: int) -> np.dtype:
    """A numpy dtype that holds every value of the element type, or more."""
    return onnx.helper.tensor_dtype_to_np_dtype(elem_type)


def _stored(values: np.ndarray, elem_type: int) -> StoredTensor:
    """Round the values to the element type; whole numbers must be in its range already."""
    with np.errstate(over="ignore"):
        return StoredTensor.from_array(np.asarray(values).astype(_carrier(elem_type)))


def _check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > MAX_ELEMENTS:
        raise BadInputError(f"shape {list(shape)} has {math.prod(shape)} elements, more than {MAX_ELEMENTS}")


def _check_range(elem_type: int, first: int, last: int) -> None:
    least, largest = INTEGER_RANGES[elem_type]
    if first < least or last > largest:
        name = TensorProto.DataType.Name(elem_type).lower()
        raise BadInputError(f"values from {first} to {last} do not fit {name}, which holds {least} to {largest}")


def _refused(elem_type: int, what: str) -> BadInputError:
    return BadInputError(f"{TensorProto.DataType.Name(elem_type).lower()} cannot hold {what}")
