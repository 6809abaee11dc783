"""Planted faults of each kind are named: the kind, the values, how far the match reaches."""

from __future__ import annotations

from collections.abc import Callable

import faults
import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from planted_outputs import Planted, Tools, Values, node, planted, single

from onnxreduce.explain.diagnosis import Diagnosis, DiagnosisKind, diagnose
from onnxreduce.oracle.comparison import Tolerance

K = DiagnosisKind
Corrupt = Callable[[Values], np.ndarray]


def overlay(onto: np.ndarray, source: np.ndarray) -> np.ndarray:
    """`onto` with its first bytes from `source`."""
    written = source.tobytes()[: onto.nbytes]
    return np.frombuffer(written + onto.tobytes()[len(written) :], onto.dtype).reshape(onto.shape)


def only(found: list[Diagnosis], kind: DiagnosisKind, *words: str) -> Diagnosis:
    assert [each.kind for each in found] == [kind], found
    for word in words:
        assert word in found[0].statement
    assert found[0].statement.startswith(f"{found[0].output} ")
    assert "\n" not in found[0].statement
    return found[0]


def out_of(v: Values, *, hidden: np.ndarray | None = None, active: np.ndarray | None = None) -> np.ndarray:
    """The output of the longer chain, in numpy, from another value on."""
    if active is None:
        active = np.tanh(v["hidden"] if hidden is None else hidden)
    return np.exp(active - v["y"])


def test_zeros(branches: Planted) -> None:
    found = only(branches.diagnose("out", np.zeros((8, 12))), K.ZEROS, "all zeros in 96 of 96 elements")
    assert (found.matched, found.total, found.error, found.confidence) == (96, 96, 0.0, "certain")


@pytest.mark.parametrize(
    "corrupt, words",
    [
        (lambda v: v["y"], ["the content of y in 96 of 96"]),
        (lambda v: v["rest"], ["the content of rest", "as if Exp had handed on what it reads"]),
        (lambda v: v["hidden"], ["the content of hidden in 96 of 96"]),
        (lambda v: overlay(v["out"], v["x"]), ["the content of x in its first 320 of 384 bytes"]),
        (lambda v: overlay(v["out"], v["normal"]), ["normal", "320 of 384"]),
        (lambda v: overlay(v["out"], v["rotary"]), ["rotary", "192 of 384"]),
    ],
    ids=["input", "handed on", "intermediate", "prefix of input", "prefix of intermediate", "prefix of output"],
)
def test_content_of_another_value(branches: Planted, corrupt: Corrupt, words: list[str]) -> None:
    found = only(branches.diagnose("out", corrupt(branches.values)), K.OTHER_VALUE, *words)
    assert (found.matched, found.total, found.confidence) == (96, 96, "certain")


def test_bytes_of_another_type(tools: Tools) -> None:
    """int64 positions where floats should be: as bits, and with their low words alone."""
    rng = np.random.default_rng(1)
    feeds = {"p": rng.integers(-(1 << 30), 1 << 30, (12, 2)), "x": rng.normal(size=(12, 4)).astype(np.float32)}
    nodes = [node("Neg", ["p"], ["q"]), node("Tanh", ["x"], ["out"])]
    ends = [faults.tensor_info("p", TensorProto.INT64, [12, 2]), faults.floats("x", [12, 4])]
    outputs = [faults.tensor_info("q", TensorProto.INT64, [12, 2]), faults.floats("out", [12, 4])]
    case = planted((faults.model(nodes, ends, outputs, opset=13), feeds), tools)
    raw = overlay(case.values["out"], case.values["q"])
    only(case.diagnose("out", raw), K.OTHER_VALUE, "the bytes of q (int64) in 48 of 48")
    low = overlay(case.values["out"], case.values["q"].astype(np.int32))
    only(case.diagnose("out", low), K.OTHER_VALUE, "the low 32 bits of q (int64)", "96 of 192 bytes")


OVERWRITTEN: dict[str, tuple[str, Corrupt, list[str]]] = {
    "input of the last node": (
        "rotary",
        lambda v: v["mean"] / v["scales"],
        ["equals Div(mean, scales)", "in 48 of 48 elements: angles was overwritten by mean before the Div that gives"],
    ),
    "an initializer": (
        "rotary",
        lambda v: v["angles"] / overlay(v["scales"], v["root"]),
        ["equals Div(angles, root)", "scales was overwritten by root"],
    ),
    "an initializer by part of a long value": (
        "rotary",
        lambda v: v["angles"] / overlay(v["scales"], v["normal"]),
        ["scales was overwritten by normal"],
    ),
    "the beginning of a value": (
        "out",
        lambda v: np.exp(overlay(v["rest"], v["normal"])),
        ["rest begun by normal", "the first 320 of 384 bytes of rest were overwritten by normal before Exp read it"],
    ),
    "two nodes up": (
        "out",
        lambda v: out_of(v, active=overlay(v["active"], v["normal"])),
        ["equals Exp(Sub(active begun by normal, y))", "active were overwritten by normal before Sub read it"],
    ),
    "three nodes up, an input": (
        "out",
        lambda v: out_of(v, hidden=v["y"]),
        ["equals Exp(Sub(Tanh(y), y))", "hidden was overwritten by y before Tanh read it"],
    ),
    "far up": (
        "out",
        lambda v: out_of(v, hidden=overlay(v["normal"], v["y"]) @ v["w"]),
        ["its 4 nodes from MatMul to Exp give for y", "normal was overwritten by y before MatMul read it"],
    ),
    "not written yet": (
        "out",
        lambda v: out_of(v, active=np.zeros_like(v["active"])),
        ["as if active had still been all zeros when Sub read it"],
    ),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_overwritten_input(branches: Planted, name: str) -> None:
    output, corrupt, words = OVERWRITTEN[name]
    found = only(branches.diagnose(output, corrupt(branches.values)), K.OVERWRITTEN_INPUT, *words)
    assert found.matched == found.total == branches.values[output].size
    assert found.error < 1e-5


def test_overwritten_by_bytes_of_another_type(tools: Tools) -> None:
    """Indices (int64) end up where weights should be, and the low words of indices where int32 ones should be."""
    rng = np.random.default_rng(2)
    feeds = {
        "x": rng.normal(size=(6, 8)).astype(np.float32),
        "k": rng.integers(0x3E000000, 0x3F7FFFFF, (6, 4)) * (2**32 + 1),
    }
    nodes = [node("Neg", ["k"], ["q"]), node("Neg", ["q"], ["r"]), node("Sigmoid", ["x"], ["out"])]
    ends = [faults.tensor_info("k", TensorProto.INT64, [6, 4]), faults.floats("x", [6, 8])]
    outputs = [faults.tensor_info("r", TensorProto.INT64, [6, 4]), faults.floats("out", [6, 8])]
    case = planted((faults.model(nodes, ends, outputs, opset=13), feeds), tools)
    content = overlay(case.values["x"], case.values["k"])
    assert np.isfinite(content).all()
    wrong = 1 / (1 + np.exp(-content))
    only(case.diagnose("out", wrong), K.OVERWRITTEN_INPUT, "x was overwritten by the bytes of k (int64)")


def test_a_later_reader_may_be_too_late(tools: Tools) -> None:
    """The first of two readers was in time."""
    rng = np.random.default_rng(3)
    feeds = {name: rng.normal(size=(5, 6)).astype(np.float32) for name in ("x", "y")}
    nodes = [
        node("Tanh", ["x"], ["t"]),
        node("Exp", ["y"], ["e"]),
        node("Sin", ["t"], ["s"]),
        node("Cos", ["t"], ["c"]),
        node("Sub", ["s", "c"], ["out"]),
    ]
    ends = [faults.floats("x", [5, 6]), faults.floats("y", [5, 6])]
    outputs = [faults.floats("e", [5, 6]), faults.floats("out", [5, 6])]
    case = planted((faults.model(nodes, ends, outputs, opset=13), feeds), tools)
    wrong = np.sin(case.values["t"]) - np.cos(case.values["e"])
    only(case.diagnose("out", wrong), K.OVERWRITTEN_INPUT, "Sub(s, Cos(e))", "t was overwritten by e before Cos")


def tail(v: Values, row: int, content: np.ndarray | float) -> np.ndarray:
    wrong = v["out"].copy()
    wrong[row:] = content
    return wrong


@pytest.mark.parametrize(
    "corrupt, words, confidence",
    [
        (lambda v: tail(v, 3, 0.0), ["row 3 of 8", "zeros"], "certain"),
        (lambda v: tail(v, 2, 7.25), ["row 2 of 8", "7.25 everywhere"], "certain"),
        (lambda v: tail(v, 4, np.nan), ["row 4 of 8", "NaN"], "certain"),
        (lambda v: np.where(np.arange(96).reshape(8, 12) < 41, v["out"], 0), ["element 41 of 96", "zeros"], "certain"),
        (lambda v: tail(v, 5, v["hidden"][5:]), ["row 5 of 8", "the content of hidden"], "certain"),
        (
            lambda v: tail(v, 6, np.random.default_rng(5).normal(size=(2, 12)) * 50),
            ["row 6 of 8", "unrelated"],
            "likely",
        ),
    ],
    ids=["zeros", "constant", "NaN", "zeros in a row", "stale", "garbage"],
)
def test_tail(branches: Planted, corrupt: Corrupt, words: list[str], confidence: str) -> None:
    found = only(branches.diagnose("out", corrupt(branches.values)), K.TAIL, *words)
    assert (found.matched, found.total, found.confidence) == (96, 96, confidence)


@pytest.mark.parametrize(
    "corrupt, words",
    [
        (lambda v: np.ascontiguousarray(v["out"].T).reshape(8, 12), ["axes in the order [1, 0]", "96 of 96"]),
        (lambda v: v["out"].reshape(12, 8).T, ["read as if its axes lay in the order [1, 0]"]),
        (lambda v: v["out"][::-1], ["reversed along axis 0"]),
        (lambda v: v["out"][:, ::-1], ["reversed along axis 1"]),
        (lambda v: np.roll(v["out"], 3, 0), ["rolled by 3 along axis 0"]),
        (lambda v: np.roll(v["out"], -5, 1), ["rolled by", "along axis 1"]),
        (lambda v: np.roll(v["out"], 7), ["shifted by 7 elements", "89 of 96"]),
        (lambda v: np.broadcast_to(v["out"][2:3], (8, 12)), ["slice 2 of the right answer repeated along axis 0"]),
        (lambda v: np.broadcast_to(v["out"][:, :1], (8, 12)), ["slice 0 of the right answer repeated along axis 1"]),
        (lambda v: v["out"][[0, 0, 1, 2, 3, 4, 5, 6]], ["shifted by 1 along axis 0", "84 of 96"]),
        (lambda v: v["out"][[1, 0, 3, 2, 5, 4, 7, 6]], ["along axis 0 slices 1, 0, 3, 2, 5, 4, 7, 6"]),
        (lambda v: np.sort(v["out"], axis=None).reshape(8, 12), ["the right numbers in another order"]),
    ],
)
def test_rearranged(branches: Planted, corrupt: Corrupt, words: list[str]) -> None:
    found = only(branches.diagnose("out", corrupt(branches.values)), K.REARRANGED, *words)
    assert found.confidence == "certain"


@pytest.mark.parametrize(
    "corrupt, words",
    [
        (lambda v: v["out"] * np.float32(0.125), ["is the right answer times 0.125"]),
        (lambda v: -v["out"], ["times -1"]),
        (lambda v: v["out"] * np.float32(np.log2(np.e)), ["times 1.4427"]),
        (lambda v: v["out"] + np.float32(0.75), ["plus 0.75"]),
        (lambda v: v["out"] - np.float32(128), ["minus 128"]),
    ],
)
def test_scaled(branches: Planted, corrupt: Corrupt, words: list[str]) -> None:
    found = only(branches.diagnose("out", corrupt(branches.values)), K.SCALED, *words, "in 96 of 96 elements")
    assert found.confidence == "certain"


def to_bfloat16(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.fixture(scope="module")
def product(tools: Tools) -> Planted:
    rng = np.random.default_rng(9)
    feeds = {"a": rng.normal(size=(9, 40)).astype(np.float32), "b": rng.normal(size=(40, 7)).astype(np.float32)}
    return planted(single("MatMul", {name: array * 30 for name, array in feeds.items()}, (9, 7)), tools)


def rounded(name: str, numbers: np.ndarray) -> np.ndarray:
    """To float16, bfloat16 or, of float32's 23 bits of mantissa, to the 10 of TF32."""
    if name == "float16":
        return numbers.astype(np.float16).astype(np.float32)
    if name == "bfloat16":
        return to_bfloat16(numbers)
    scale = 2.0 ** (np.floor(np.log2(np.abs(numbers))) - 10)
    return (np.rint(numbers / scale) * scale).astype(np.float32)


@pytest.mark.parametrize("name, numbers", [("float16", 1.0), ("bfloat16", 1.0), ("TF32", 1e5)])
def test_lower_precision(product: Planted, name: str, numbers: float) -> None:
    """A float32 rounded to these is off by less than the usual tolerance, so it only shows under a closer one."""
    values = dict(product.values)
    values["a"] = values["a"] * np.float32(numbers)
    values["out"] = (values["a"].astype(np.float64) @ values["b"]).astype(np.float32)

    def said(wrong: np.ndarray) -> list[Diagnosis]:
        close = Tolerance({"float32": 2e-5})
        return diagnose(product.candidate, values, {"out": wrong}, ["out"], close)

    found = only(said(rounded(name, values["out"])), K.ROUNDED, f"is the right answer rounded to {name} in 63 of 63")
    assert found.confidence == "certain"
    inputs = rounded(name, values["a"]).astype(np.float64) @ rounded(name, values["b"])
    found = only(said(inputs.astype(np.float32)), K.ROUNDED, f"what MatMul gives for inputs rounded to {name}")
    assert found.confidence == "certain"


def test_lower_precision_of_the_inputs_under_the_usual_tolerance(product: Planted) -> None:
    v = product.values
    found = product.diagnose("out", to_bfloat16(v["a"]) @ to_bfloat16(v["b"]))
    only(found, K.ROUNDED, "what MatMul gives for inputs rounded to bfloat16")


def test_whole_numbers(tools: Tools) -> None:
    rng = np.random.default_rng(4)
    case = planted(single("Neg", {"x": (rng.normal(size=(10, 10)) * 90).astype(np.float32)}, (10, 10)), tools)
    only(case.diagnose("out", np.trunc(case.values["out"])), K.ROUNDED, "cut to whole numbers")
    only(case.diagnose("out", np.rint(case.values["out"])), K.ROUNDED, "rounded to whole numbers")


def test_range_and_sign(tools: Tools) -> None:
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(20, 10)) * 150).astype(np.float32)
    case = planted(single("Neg", {"x": x}, (20, 10)), tools)
    right = case.values["out"]
    only(case.diagnose("out", np.clip(right, -128, 127)), K.RANGE, "cut to the range of int8, -128 to 127")
    only(case.diagnose("out", np.abs(right)), K.RANGE, "without its sign")
    wrong = np.where(right < 0, right + 2.0**32, right)
    only(case.diagnose("out", wrong), K.RANGE, "2**32 added to its negative elements, as if they had no sign")
    wrong = np.where(right > 100, np.nan, right)
    assert case.diagnose("out", wrong) == []
    wrong = np.where(x < 0, np.nan, right)
    only(case.diagnose("out", wrong), K.RANGE, "NaN exactly where x is negative")


def test_sign_of_quantised_numbers(tools: Tools) -> None:
    """`x - zero_point` below 0 that is taken for an unsigned number, as in a real kernel, times a scale."""
    rng = np.random.default_rng(8)
    feeds = {
        "x": rng.integers(0, 255, (4, 30)).astype(np.uint8),
        "s": np.array(0.05, np.float32),
        "z": np.array(90, np.uint8),
    }
    case = planted(single("DequantizeLinear", feeds, (4, 30)), tools)
    steps = (feeds["x"].astype(np.int64) - 90) % 2**32
    wrong = steps.astype(np.float32) * feeds["s"]
    only(case.diagnose("out", wrong), K.RANGE, "2**32 times s added to its negative elements")


def test_integers_of_another_width(tools: Tools) -> None:
    rng = np.random.default_rng(10)
    feeds = {name: rng.integers(-(2**40), 2**40, (6, 5)) for name in ("a", "b")}
    case = planted(single("Add", feeds, (6, 5), elem_type=TensorProto.INT64), tools)
    right = case.values["out"]
    only(case.diagnose("out", right.astype(np.int32)), K.RANGE, "only its low 32 bits, read with a sign")
    only(case.diagnose("out", feeds["b"]), K.OTHER_VALUE, "the content of b")
    only(case.diagnose("out", feeds["b"] + feeds["b"]), K.OVERWRITTEN_INPUT, "a was overwritten by b before Add read")


def test_each_wrong_output_is_told_in_its_order(branches: Planted) -> None:
    v = branches.values
    actual = {"rotary": v["rotary"], "root": np.zeros_like(v["root"]), "out": v["y"]}
    found = diagnose(branches.candidate, v, actual, ["out", "root"], Tolerance())
    assert [(each.output, each.kind) for each in found] == [("out", K.OTHER_VALUE)], "8 zeros are too few to be sure of"
    wrong_shape = {**actual, "out": np.zeros((2, 2), np.float32)}
    assert diagnose(branches.candidate, v, wrong_shape, ["out", "root", "no such"], Tolerance()) == []
