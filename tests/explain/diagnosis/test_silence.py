"""Faults that are of none of the kinds, of which nothing may be said, and corruption at random."""

from __future__ import annotations

from collections.abc import Callable

import faults
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from planted_outputs import Planted, Tools, Values, node, planted

from onnxreduce.explain.diagnosis import DiagnosisKind

Fault = Callable[[Values, np.random.Generator], np.ndarray]


@pytest.fixture(scope="module")
def network(tools: Tools) -> Planted:
    """Convolution, normalisation, attention-like product, gather and quotient: an output for each."""
    rng = np.random.default_rng(11)
    nodes = [
        node("Conv", ["image", "kernel", "bias"], ["conv"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["conv"], ["relu"]),
        node("LeakyRelu", ["conv"], ["leaky"], alpha=0.1),
        node("AveragePool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        node("MatMul", ["x", "w"], ["scores"]),
        node("Softmax", ["scores"], ["attention"], axis=-1),
        node("MatMul", ["attention", "x"], ["mixed"]),
        node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1),
        node("Sub", ["x", "mean"], ["centred"]),
        node("Mul", ["centred", "centred"], ["squares"]),
        node("ReduceMean", ["squares"], ["variance"], axes=[1], keepdims=1),
        node("Add", ["variance", "epsilon"], ["positive"]),
        node("Sqrt", ["positive"], ["deviation"]),
        node("Div", ["centred", "deviation"], ["normal"]),
        node("Gather", ["table", "indices"], ["rows"]),
        node("Sigmoid", ["x"], ["gate"]),
        node("Div", ["gate", "y"], ["quotient"]),
        node("CumSum", ["y", "axis"], ["sums"]),
        node("ReduceSum", ["y"], ["total"], axes=[1], keepdims=1),
    ]
    weights = {
        "kernel": rng.normal(size=(3, 2, 3, 3)).astype(np.float32),
        "bias": rng.normal(size=3).astype(np.float32),
        "w": rng.normal(size=(12, 12)).astype(np.float32),
        "epsilon": np.array([0.3], np.float32),
        "axis": np.array(1, np.int64),
        "table": rng.normal(size=(40, 6)).astype(np.float32),
    }
    feeds = {
        "image": rng.normal(size=(1, 2, 8, 8)).astype(np.float32),
        "x": rng.normal(size=(12, 12)).astype(np.float32),
        "y": rng.normal(size=(12, 12)).astype(np.float32),
        "indices": rng.integers(0, 39, 20),
    }
    inputs = [faults.floats("image", [1, 2, 8, 8]), faults.floats("x", [12, 12]), faults.floats("y", [12, 12])]
    inputs.append(faults.tensor_info("indices", TensorProto.INT64, [20]))
    shapes: dict[str, list[int]] = {"conv": [1, 3, 8, 8], "relu": [1, 3, 8, 8], "leaky": [1, 3, 8, 8]}
    shapes |= {"pool": [1, 3, 4, 4], "attention": [12, 12], "mixed": [12, 12], "normal": [12, 12], "rows": [20, 6]}
    shapes |= {"gate": [12, 12], "quotient": [12, 12], "sums": [12, 12], "total": [12, 1]}
    outputs = [faults.floats(name, shape) for name, shape in shapes.items()]
    return planted((faults.model(nodes, inputs, outputs, weights, opset=12), feeds), tools)


def at_random(v: np.ndarray, rng: np.random.Generator, share: float, noise: float) -> np.ndarray:
    return v + np.where(rng.random(v.shape) < share, rng.normal(size=v.shape) * noise, 0)


def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    exponents = np.exp(scores - scores.max(axis, keepdims=True))
    return exponents / exponents.sum(axis, keepdims=True)


def convolved(v: Values, image: np.ndarray, dilation: int = 1) -> np.ndarray:
    """The convolution of a padded image."""
    kernel, (height, width) = v["kernel"], v["conv"].shape[2:]
    result = np.zeros_like(v["conv"]) + v["bias"].reshape(1, 3, 1, 1)
    for row in range(3):
        for column in range(3):
            top, left = row * dilation, column * dilation
            part = image[0, :, top : top + height, left : left + width]
            result[0] += np.einsum("oc,chw->ohw", kernel[:, :, row, column], part)
    return result


def padded(v: Values, by: int, **how: str) -> np.ndarray:
    return np.pad(v["image"], ((0, 0), (0, 0), (by, by), (by, by)), **how)  # type: ignore[call-overload,no-any-return]


def swapped_rows(v: np.ndarray) -> np.ndarray:
    wrong = v.copy()
    wrong[3, 2:9] = v[4, 2:9] * 1.5
    return wrong


NOT_OF_A_KIND: dict[str, tuple[str, Fault]] = {
    "noise on some elements": ("mixed", lambda v, rng: at_random(v["mixed"], rng, 0.2, 1.0)),
    "noise on one element": ("mixed", lambda v, rng: v["mixed"] + np.eye(144)[77].reshape(12, 12) * rng.normal()),
    "noise everywhere": ("normal", lambda v, rng: at_random(v["normal"], rng, 1.0, 0.3)),
    "random garbage": ("normal", lambda v, rng: rng.normal(size=(12, 12))),
    "random bits": (
        "normal",
        lambda v, rng: np.nan_to_num(rng.integers(0, 256, 576, np.uint8).view(np.float32), posinf=1, neginf=2),
    ),
    "wrong axis of a reduction": ("total", lambda v, rng: v["y"].sum(0)),
    "wrong axis of a softmax": ("attention", lambda v, rng: softmax(v["scores"], 0)),
    "wrong axis of a sum so far": ("sums", lambda v, rng: v["y"].cumsum(0)),
    "indices off by one": ("rows", lambda v, rng: v["table"][v["indices"] + 1]),
    "epsilon outside of the root": ("normal", lambda v, rng: v["centred"] / (np.sqrt(v["variance"]) + v["epsilon"])),
    "unbiased variance of other axis": ("normal", lambda v, rng: v["centred"] / (v["x"].std(0) + 0.1)),
    "operands of Div exchanged": ("quotient", lambda v, rng: v["y"] / v["gate"]),
    "Mul for Div": ("quotient", lambda v, rng: v["gate"] * v["y"]),
    "Tanh for Sigmoid": ("gate", lambda v, rng: np.tanh(v["x"])),
    "hard Sigmoid": ("gate", lambda v, rng: np.clip(v["x"] * 0.2 + 0.5, 0, 1)),
    "another slope": ("leaky", lambda v, rng: np.where(v["conv"] > 0, v["conv"], 0.3 * v["conv"])),
    "no slope": ("leaky", lambda v, rng: np.maximum(v["conv"], 0)),
    "reflected border": ("conv", lambda v, rng: convolved(v, padded(v, 1, mode="reflect"))),
    "border of ones": ("conv", lambda v, rng: convolved(v, padded(v, 1, constant_values=1))),  # type: ignore[arg-type]
    "dilated kernel": ("conv", lambda v, rng: convolved(v, padded(v, 2), 2)),
    "transposed weight": ("attention", lambda v, rng: softmax(v["x"] @ v["w"].T, 1)),
    "maximum for mean": ("pool", lambda v, rng: v["relu"].reshape(1, 3, 4, 2, 4, 2).max((3, 5))),
    "growing error": ("sums", lambda v, rng: v["sums"] * (1 + 0.02 * np.arange(12))),
    "growing error from the middle on": (
        "sums",
        lambda v, rng: v["sums"] + 0.05 * np.maximum(0, np.arange(144) - 60).reshape(12, 12),
    ),
    "sum that loses some": ("sums", lambda v, rng: np.where(np.abs(v["y"]) > 1, v["y"], 0).cumsum(1)),
    "approximate exponential": ("gate", lambda v, rng: 1 / (1 + (1 - v["x"] / 8) ** 8)),
    "every third element doubled": (
        "mixed",
        lambda v, rng: v["mixed"] * (1 + (np.arange(144) % 3 == 0)).reshape(12, 12),
    ),
    "signs lost at random": ("mixed", lambda v, rng: np.where(rng.random((12, 12)) < 0.4, -v["mixed"], v["mixed"])),
    "NaN at random": ("mixed", lambda v, rng: np.where(rng.random((12, 12)) < 0.3, np.nan, v["mixed"])),
    "zeros at random": ("mixed", lambda v, rng: np.where(rng.random((12, 12)) < 0.3, 0, v["mixed"])),
    "a factor for each row": ("mixed", lambda v, rng: v["mixed"] * rng.uniform(0.5, 2, (12, 1))),
    "an offset for each column": ("mixed", lambda v, rng: v["mixed"] + rng.normal(size=12)),
    "a part of a row scaled": ("mixed", lambda v, rng: swapped_rows(v["mixed"])),
    "two values mixed": ("mixed", lambda v, rng: np.where(rng.random((12, 12)) < 0.5, v["x"], v["mixed"])),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_OF_A_KIND)
def test_nothing_is_said(network: Planted, name: str) -> None:
    output, fault = NOT_OF_A_KIND[name]
    rng = np.random.default_rng(len(name))
    with np.errstate(all="ignore"):
        wrong = fault(network.values, rng)
    shaped = np.asarray(wrong, np.float32).reshape(network.values[output].shape)
    assert not np.allclose(shaped, network.values[output], rtol=1e-2, atol=1e-2), "no fault"
    assert network.diagnose(output, shaped) == []


def test_a_left_out_operand_is_no_overwritten_value(network: Planted) -> None:
    """Without its epsilon, an Add hands on what it reads: that is all that can be seen, and all that is said."""
    v = network.values
    found = network.diagnose("normal", v["centred"] / np.sqrt(v["variance"]))
    assert [each.kind for each in found] == [DiagnosisKind.OTHER_VALUE]
    assert "as if Add had handed on variance" in found[0].statement
    assert "overwritten" not in found[0].statement


def corrupted(right: np.ndarray, seed: int, share: float, content: str) -> np.ndarray:
    """Some elements, chosen at random, replaced by what no kernel computes."""
    rng = np.random.default_rng(seed)
    size = right.shape
    garbage = {
        "noise": right + rng.normal(size=size) * 10.0 ** rng.integers(-2, 3),
        "normal": rng.normal(size=size) * np.abs(right).max(),
        "small integers": rng.integers(-2, 3, size).astype(np.float32),
        "bits": rng.integers(0, 256, (*size, 4), np.uint8).view(np.float32).reshape(size),
        "factors": right * rng.uniform(-2, 2, size),
    }[content]
    return np.where(rng.random(size) < share, garbage, right).astype(np.float32)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    output=st.sampled_from(["mixed", "rows", "total", "pool", "leaky"]),
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.02, 0.1, 0.5, 0.9, 1.0]),
    content=st.sampled_from(["noise", "normal", "small integers", "bits", "factors"]),
)
def test_random_corruption_is_never_explained(
    network: Planted, output: str, seed: int, share: float, content: str
) -> None:
    with np.errstate(all="ignore"):
        wrong = corrupted(network.values[output], seed, share, content)
    assert network.diagnose(output, wrong) == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_few_elements_are_never_certain(tools: Tools, size: int) -> None:
    """Ones, halves and counts of a few elements are met by chance by some value of the model."""
    feeds = {"a": np.ones(size, np.float32), "b": np.arange(size, dtype=np.float32) + 2}
    nodes = [node("Neg", ["a"], ["c"]), node("Add", ["b", "c"], ["d"]), node("Mul", ["d", "b"], ["out"])]
    ends = [faults.floats("a", [size]), faults.floats("b", [size])]
    case = planted((faults.model(nodes, ends, [faults.floats("out", [size])], opset=13), feeds), tools)
    for number in (0, 1, -1, 0.5, 2, 3, 4, 10):
        for wrong in (np.full(size, number), np.arange(size) + number, number - np.arange(size)):
            assert case.diagnose("out", wrong) == []
