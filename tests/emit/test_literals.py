"""Arrays as source: every bit comes back, and short forms are found."""

from __future__ import annotations

import ast

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from onnx import TensorProto

from onnxreduce.emit.layout import render
from onnxreduce.emit.literals import array_expression, float_text, quoted, quoted_bytes
from onnxreduce.graph.tensors import Blob, StoredTensor

NATIVE = [
    number
    for name, number in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING") and onnx.helper.tensor_dtype_to_np_dtype(number).isbuiltin == 1
]


def text_of(array: np.ndarray) -> str:
    expression = array_expression(StoredTensor.from_array(array))
    assert expression is not None
    return render(expression)


@st.composite
def raw_tensors(draw: st.DrawFn) -> StoredTensor:
    """Tensors of any bits, not only those that arithmetic makes: odd NaNs, denormals, bools that are neither."""
    elem_type = draw(st.sampled_from(NATIVE))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    itemsize = onnx.helper.tensor_dtype_to_np_dtype(elem_type).itemsize
    size = int(np.prod(shape)) * itemsize
    content = draw(st.binary(min_size=size, max_size=size) | st.binary(min_size=itemsize, max_size=itemsize))
    return StoredTensor(elem_type, shape, Blob.from_bytes((content * size)[:size]))


@given(raw_tensors())
def test_every_bit_comes_back(tensor: StoredTensor) -> None:
    expression = array_expression(tensor)
    if expression is None:
        assert tensor.size > 64
        return
    made = eval(render(expression), {"np": np})
    assert (made.shape, made.dtype) == (tensor.shape, tensor.array.dtype)
    assert made.tobytes() == bytes(tensor.blob.view())


@given(st.floats(width=32))
def test_floats_come_back(value: float) -> None:
    made = np.float32(eval(float_text(value), {"np": np}))
    assert made.tobytes() == np.float32(value).tobytes() or value != value


@given(st.text() | st.binary())
def test_strings_are_one_literal_on_one_line(text: str | bytes) -> None:
    source = quoted(text)
    assert ast.literal_eval(source) == text and len(source.splitlines()) == 1


@given(st.binary() | st.text().map(str.encode))
def test_bytes_of_attributes_are_one_literal(content: bytes) -> None:
    value = ast.literal_eval(quoted_bytes(content))
    assert (value.encode() if isinstance(value, str) else value) == content


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array(2.0, np.float32), "np.array(2.0, np.float32)"),
        (np.array([-1]), "np.array([-1], np.int64)"),
        (np.zeros((2, 3), np.float32), "np.zeros((2, 3), np.float32)"),
        (np.zeros((0, 3), np.float16), "np.zeros((0, 3), np.float16)"),
        (np.ones(7, np.int32), "np.ones(7, np.int32)"),
        (np.full((3, 3), 0.1, np.float32), "np.full((3, 3), 0.1, np.float32)"),
        (np.arange(194).reshape(1, 194, 1), "np.arange(194, dtype=np.int64).reshape(1, 194, 1)"),
        (np.arange(1, 195), "np.arange(1, 195, dtype=np.int64)"),
        (np.arange(10, 0, -2, dtype=np.float32), "np.arange(10, 0, -2, dtype=np.float32)"),
        (np.array([[1, np.nan], [np.inf, -np.inf]], np.float16), None),
    ],
)
def test_short_forms(array: np.ndarray, text: str | None) -> None:
    assert text_of(array) == (text or "np.array([1.0, np.nan, np.inf, -np.inf], np.float16).reshape(2, 2)")


def test_what_is_too_long_has_no_literal() -> None:
    noise = np.random.default_rng(0).uniform(size=65).astype(np.float32)
    assert array_expression(StoredTensor.from_array(noise)) is None
