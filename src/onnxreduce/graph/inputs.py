"""Prepare what a model is fed: check what was given, make the rest so that the model can run, and say how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_dims import Dimensions
from onnxreduce.graph.input_expressions import parse_assignments, parse_dims, parse_expression
from onnxreduce.graph.input_files import Given, check_known, ordered_inputs, read_inputs, read_npy, required_inputs
from onnxreduce.graph.input_hints import Hint, ModelHints
from onnxreduce.graph.input_values import (
    INTEGER_RANGES,
    evaluate,
    filled,
    generator,
    kind_of,
    uniform,
    words,
)
from onnxreduce.graph.tensors import StoredTensor

__all__ = [
    "Given",
    "PreparedInputs",
    "named_inputs",
    "ordered_inputs",
    "parse_assignments",
    "parse_dims",
    "prepare_inputs",
    "read_inputs",
    "required_inputs",
]

SMALL_INTEGERS = (1, 5)
"""Range of integers whose meaning is not known: they may be sizes or divisors, so they are small and never zero."""


@dataclass(frozen=True)
class PreparedInputs:
    """`feeds` holds a tensor for each required input and each given one, in the model's order.

    `notes` are lines for the user about dimensions and values that were chosen for them.
    """

    feeds: dict[str, StoredTensor]
    notes: list[str] = field(default_factory=list)


def prepare_inputs(
    graph_inputs: Sequence[onnx.ValueInfoProto],
    given: Mapping[str | int, StoredTensor],
    expressions: Mapping[str, str],
    dims: Mapping[str, int],
    seed: int,
    model: onnx.ModelProto,
) -> PreparedInputs:
    """Check the given tensors and make the others.

    `given` comes from `read_inputs`, `expressions` and `dims` from `parse_assignments` and `parse_dims`; an expression
    takes the place of a given tensor. Inputs with an initializer in `model` are fed only when given. Made values
    depend on `seed` and the input's name alone. Raises BadInputError for unknown names, wrong dtypes and shapes, and
    inputs that cannot be made.
    """
    values = {each.name: each for each in graph_inputs}
    needed = {each.name for each in required_inputs(model)}
    feeds = _by_name(given, ordered_inputs(model))
    parsed = {name: parse_expression(text) for name, text in expressions.items()}
    for name, expression in parsed.items():
        check_known(name, values)
        feeds.pop(name, None)
        if expression.path is not None:
            feeds[name] = read_npy(expression.path, values[name])
    dimensions = Dimensions(graph_inputs, dims)
    _check(feeds, values, dimensions)
    hints, notes = ModelHints(model), []
    for value in graph_inputs:
        if value.name in feeds or (value.name not in needed and value.name not in parsed):
            continue
        elem_type, shape = _tensor_type(value), dimensions.shape(value)
        rng = generator(seed, value.name)
        try:
            if value.name in parsed:
                tensor, how = evaluate(parsed[value.name], elem_type, shape, rng), parsed[value.name].text
            else:
                tensor, how = _made(elem_type, shape, hints.hint(value.name, elem_type), rng)
        except BadInputError as error:
            raise BadInputError(f"input {value.name!r}: {error}") from error
        feeds[value.name] = tensor
        notes.append(f"{value.name}: {tensor.dtype_name} {_shape_text(shape)} generated as {how}")
    return PreparedInputs({name: feeds[name] for name in values if name in feeds}, dimensions.notes + notes)


def named_inputs(model: onnx.ModelProto, given: Mapping[str | int, StoredTensor]) -> dict[str, StoredTensor]:
    """Given tensors by input name, checked against the model like in `prepare_inputs`; none is made."""
    feeds = _by_name(given, ordered_inputs(model))
    _check(feeds, {each.name: each for each in model.graph.input}, Dimensions(model.graph.input, {}))
    return feeds


def _by_name(
    given: Mapping[str | int, StoredTensor], ordered: Sequence[onnx.ValueInfoProto]
) -> dict[str, StoredTensor]:
    feeds: dict[str, StoredTensor] = {}
    known: list[str | int] = [*(each.name for each in ordered), *range(len(ordered))]
    for key, tensor in given.items():
        check_known(key, known)
        name = ordered[key].name if isinstance(key, int) else key
        if name in feeds:
            raise BadInputError(f"input {name!r} is given twice, by name and by position")
        feeds[name] = tensor
    return feeds


def _check(
    feeds: Mapping[str, StoredTensor], values: Mapping[str, onnx.ValueInfoProto], dimensions: Dimensions
) -> None:
    for name, tensor in feeds.items():
        _check_type(values[name], tensor)
        dimensions.take(values[name], tensor)


def _check_type(value: onnx.ValueInfoProto, tensor: StoredTensor) -> None:
    elem_type = _tensor_type(value)
    if tensor.elem_type == elem_type:
        return
    wanted = TensorProto.DataType.Name(elem_type).lower()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    module = "numpy" if dtype.isbuiltin == 1 else "ml_dtypes"
    cast = "" if elem_type == TensorProto.STRING else f"; cast it with array.astype({module}.{dtype})"
    raise BadInputError(f"input {value.name!r} is {wanted}, but the given tensor is {tensor.dtype_name}{cast}")


def _tensor_type(value: onnx.ValueInfoProto) -> int:
    """The element type of an input that is a tensor."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "an unknown type").removesuffix("_type")
        raise BadInputError(f"input {value.name!r} is not a tensor but {what}; such inputs are not supported")
    elem_type = value.type.tensor_type.elem_type
    if elem_type not in TensorProto.DataType.values() or elem_type == TensorProto.UNDEFINED:
        raise BadInputError(
            f"input {value.name!r} has element type {elem_type}, which the installed onnx does not know"
        )
    return int(elem_type)


def _made(elem_type: int, shape: tuple[int, ...], hint: Hint, rng: np.random.Generator) -> tuple[StoredTensor, str]:
    """A tensor for an input that nobody gave, and how it was made."""
    kind = kind_of(elem_type)
    reason = f" ({hint.reason})" if hint.reason else ""
    if hint.kind == "mask" and kind in ("bool", "integer", "float"):
        value = True if kind == "bool" else 1
        return filled(elem_type, shape, value), f"{'true' if value is True else 'ones'} (mask, {hint.reason})"
    if kind == "integer":
        return _made_integers(elem_type, shape, hint, rng)
    if kind == "string":
        return words(shape, rng), "short words"
    if TensorProto.DataType.Name(elem_type) == "FLOAT8E8M0":  # powers of two alone: neither zero nor negative numbers
        return uniform(elem_type, shape, 0.25, 4, rng), "uniform(0.25,4)"
    return uniform(elem_type, shape, -1, 1, rng), f"uniform(-1,1){reason}"


def _made_integers(
    elem_type: int, shape: tuple[int, ...], hint: Hint, rng: np.random.Generator
) -> tuple[StoredTensor, str]:
    least, largest = INTEGER_RANGES[elem_type]
    if hint.kind == "positions" and shape:
        period = min(shape[-1], hint.limit or shape[-1], largest + 1)
        row = np.arange(shape[-1], dtype=np.int64) % max(period, 1)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
        return StoredTensor.from_array(
            np.broadcast_to(row.astype(dtype), shape)
        ), "0, 1, 2, ... along the last axis (positions)"
    if hint.kind in ("positions", "token types"):
        return filled(elem_type, shape, 0), f"zeros ({hint.kind})"
    if hint.kind == "indices":
        rows = min(hint.limit or 1, largest + 1)
        unknown = "" if hint.limit else ", rows not known"
        return uniform(elem_type, shape, 0, rows, rng), f"integers in [0, {rows}) ({hint.reason}{unknown})"
    low, high = (least, largest + 1) if largest - least < 256 else SMALL_INTEGERS
    return uniform(elem_type, shape, low, high, rng), f"integers in [{low}, {high})"


def _shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
