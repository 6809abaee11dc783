"""The language of `--input` and `--dim`: what it accepts, what it refuses, and that nothing is evaluated."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_expressions import parse_assignments, parse_dims, parse_expression
from onnxreduce.graph.input_values import INTEGER_RANGES, evaluate, generator, uniform

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value_of(text: str, elem_type: int = FLOAT, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    return evaluate(parse_expression(text), elem_type, shape, generator(0, "x")).array


@pytest.mark.parametrize(
    ("text", "elem_type", "expected"),
    [
        ("zeros", FLOAT, [0] * 6),
        ("ones()", INT64, [1] * 6),
        ("ones", TensorProto.BOOL, [True] * 6),
        ("full(-1.5e-3)", TensorProto.DOUBLE, [-1.5e-3] * 6),
        ("full( 0x10 )", TensorProto.UINT8, [16] * 6),
        ("full(-inf)", TensorProto.FLOAT16, [-np.inf] * 6),
        ("full(true)", TensorProto.BOOL, [True] * 6),
        ("full('a, b')", TensorProto.STRING, ["a, b"] * 6),
        ("full(9223372036854775807)", INT64, [2**63 - 1] * 6),
        ("full(18446744073709551615)", TensorProto.UINT64, [2**64 - 1] * 6),
        ("full(-8)", TensorProto.INT4, [-8] * 6),
        ("arange(1,7)", INT64, [1, 2, 3, 4, 5, 6]),
        ("arange(-0.5, 5.5)", FLOAT, [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]),
        ("uniform(4, 5)", INT64, [4] * 6),
        ("normal(2,0)", TensorProto.BFLOAT16, [2] * 6),
    ],
)
def test_values(text: str, elem_type: int, expected: list[object]) -> None:
    made = value_of(text, elem_type)
    assert made.shape == (2, 3) and made.dtype == onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    assert made.reshape(-1).tolist() == expected


def test_random_values_lie_where_they_should() -> None:
    floats = value_of("uniform(-100,100)", FLOAT, (10_000,))
    assert -100 <= floats.min() < -99 and 99 < floats.max() <= 100
    assert set(value_of("uniform(-2,3)", INT64, (1000,)).tolist()) == {-2, -1, 0, 1, 2}
    normal = value_of("normal(10, 2)", FLOAT, (10_000,))
    assert abs(normal.mean() - 10) < 0.1 and abs(normal.std() - 2) < 0.1


@given(st.sampled_from(sorted(INTEGER_RANGES)), st.data())
def test_integers_over_the_whole_range(elem_type: int, data: st.DataObject) -> None:
    least, largest = INTEGER_RANGES[elem_type]
    value = data.draw(st.integers(least, largest))
    assert value_of(f"full({value})", elem_type, (1,)).tolist() == [value]
    assert uniform(elem_type, (4,), least, least + 1, generator(0, "x")).array.tolist() == [least] * 4
    with pytest.raises(BadInputError, match="do not fit"):
        value_of(f"full({largest + 1})", elem_type)
    with pytest.raises(BadInputError, match="do not fit"):
        value_of(f"full({least - 1})", elem_type)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uniform",
        "uniform(1)",
        "uniform(1,2,3)",
        "uniform(a,b)",
        "uniform(1,true)",
        "full()",
        "full",
        "full([1])",
        "full(1+1)",
        "full(__import__('os'))",
        "full(" + "(" * 5000 + ")" * 5000 + ")",
        "zeros(3)",
        "Zeros",
        "x.npz",
        "arange(5)",
        "eval(1,2)",
        "normal(0,1) ones",
    ],
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_expression(text)
    assert "\n" not in str(caught.value)


@given(st.text())
def test_no_text_leads_to_another_error(text: str) -> None:
    for whole in (text, f"full({text})", f"uniform({text},{text})"):
        with contextlib.suppress(BadInputError):
            parse_expression(whole)


@pytest.mark.parametrize(
    ("text", "elem_type"),
    [
        ("uniform(2,1)", FLOAT),
        ("uniform(0,inf)", FLOAT),
        ("uniform(0.2,0.8)", INT64),
        ("uniform(0,1)", TensorProto.BOOL),
        ("uniform(0,1)", TensorProto.STRING),
        ("normal(0,-1)", FLOAT),
        ("arange(0,inf)", INT64),
        ("arange(nan,1)", FLOAT),
        ("arange(0.5,6.5)", INT64),
        ("arange(2043,2049)", TensorProto.FLOAT8E4M3FN),
        ("full(nan)", INT64),
        ("full(2)", TensorProto.BOOL),
        ("full(1.0)", TensorProto.BOOL),
        ("full(true)", FLOAT),
        ("full('a')", FLOAT),
        ("zeros", TensorProto.STRING),
        ("full(300)", TensorProto.UINT8),
    ],
)
def test_values_that_do_not_fit_are_refused(text: str, elem_type: int) -> None:
    with pytest.raises(BadInputError):
        value_of(text, elem_type)


def test_assignments() -> None:
    assert parse_assignments(["a=ones", "b:0=full('x=y')"], "--input") == {"a": "ones", "b:0": "full('x=y')"}
    assert parse_assignments(["a=b=ones"], "--input", ["a=b"]) == {"a=b": "ones"}
    for wrong in (["a"], ["=ones"], ["a="], ["a=ones", "a=zeros"]):
        with pytest.raises(BadInputError, match="--input"):
            parse_assignments(wrong, "--input")


def test_dims() -> None:
    assert parse_dims(["batch=2", "x:1=3", "past + 1=4", "a=b=0"]) == {"batch": 2, "x:1": 3, "past + 1": 4, "a=b": 0}
    for wrong in (["batch"], ["batch=-1"], ["batch=x"], ["=3"], ["batch=1.5"], ["batch=99999999999"], ["b=1", "b=2"]):
        with pytest.raises(BadInputError, match="--dim"):
            parse_dims(wrong)
