"""Signatures: real messages of onnxruntime say the same whatever the names, numbers and places in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import faults
import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto

from onnxreduce.oracle.signature import LONGEST, WRONG_VALUES, Kind, Signature, normalised

F = np.float32
Make = Callable[[str, int], faults.Case]


def _two(op: str, name: str, first: tuple[int, ...], second: tuple[int, ...], **attributes: object) -> faults.Case:
    inputs = [faults.floats(f"{name}a", ["p", "q"]), faults.floats(f"{name}b", [f"d{at}" for at in range(len(second))])]
    nodes = [faults.node(op, [f"{name}a", f"{name}b"], ["y"], name=name, **attributes)]
    feeds = {f"{name}a": np.ones(first, F), f"{name}b": np.ones(second, F)}
    return faults.model(nodes, inputs, [faults.floats("y", ["r", "s"])], opset=17), feeds


def _matmul(name: str, size: int) -> faults.Case:
    return _two("MatMul", name, (2, size), (size + 1, 3))


def _concat(name: str, size: int) -> faults.Case:
    return _two("Concat", name, (2, size), (2, size + 1), axis=0)


def _broadcast(name: str, size: int) -> faults.Case:
    return _two("Add", name, (2, size), (size + 1,))


def _reshape(name: str, size: int) -> faults.Case:
    nodes = [faults.node("Reshape", ["x", "to"], ["y"], name=name)]
    inputs = [faults.floats("x", ["n"]), faults.tensor_info("to", TensorProto.INT64, [2])]
    feeds = {"x": np.ones(size, F), "to": np.array([size, 2])}
    return faults.model(nodes, inputs, [faults.floats("y", ["a", "b"])], opset=17), feeds


def _gather(name: str, size: int) -> faults.Case:
    nodes = [faults.node("Gather", ["x", "at"], ["y"], name=name)]
    inputs = [faults.floats("x", ["n"]), faults.tensor_info("at", TensorProto.INT64, [1])]
    feeds = {"x": np.ones(size, F), "at": np.array([-size - 3])}
    return faults.model(nodes, inputs, [faults.floats("y", ["a"])], opset=17), feeds


def _unknown(name: str, size: int) -> faults.Case:
    nodes = [faults.node("NoSuchOperator", [f"{name}x"], ["y"], name=name)]
    return faults.model(nodes, [faults.floats(f"{name}x", [size])], [faults.floats("y", [size])]), {}


def _types(name: str, size: int) -> faults.Case:
    nodes = [faults.node("Add", ["x", "i"], ["y"], name=name)]
    inputs = [faults.floats("x", [size]), faults.tensor_info("i", TensorProto.INT64, [size])]
    return faults.model(nodes, inputs, [faults.floats("y", [size])], opset=17), {}


def _inference(name: str, size: int) -> faults.Case:
    nodes = [faults.node("MatMul", ["x", "w"], ["y"], name=name)]
    inputs = [faults.floats("x", [2, size]), faults.floats("w", [size + 1, 3])]
    return faults.model(nodes, inputs, [faults.floats("y", [2, 3])], opset=17), {}


def _no_kernel(name: str, size: int) -> faults.Case:
    nodes = [faults.node("Relu", ["x"], ["y"], name=name)]
    kind = TensorProto.BFLOAT16
    ends = [[faults.tensor_info("x", kind, [size])], [faults.tensor_info("y", kind, [size])]]
    return faults.model(nodes, *ends, opset=17), {}


FAILING: list[Make] = [
    _matmul, _concat, _broadcast, _reshape, _gather, _unknown, _types, _inference, _no_kernel,
]  # fmt: skip
NAMES = ["n", "/model/layers.0/attn (1)/Node_7", "päivää 3", "0x7f"]


def message_of(proto: ModelProto, feeds: faults.Arrays, path: Path) -> str:
    """What onnxruntime says, loaded from a file as our runtimes do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(proto.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception) as caught:
        onnxruntime.InferenceSession(str(path), options).run(None, feeds)
    return str(caught.value)


@pytest.mark.parametrize("make", FAILING, ids=lambda make: make.__name__.strip("_"))
def test_names_numbers_and_paths_make_no_difference(make: Make, tmp_path: Path) -> None:
    found = set()
    for at, name in enumerate(NAMES):
        message = message_of(*make(name, 3 + 9 * at), tmp_path / f"run {at}" / "tmp_x1" / "model.onnx")
        text = normalised(message)
        assert text
        assert "tmp_x1" not in text
        assert name not in text or len(name) == 1
        found.add(text)
    assert len(found) == 1, found


def test_different_failures_stay_apart(tmp_path: Path) -> None:
    texts = {make: normalised(message_of(*make("n", 3), tmp_path / "model.onnx")) for make in FAILING}
    assert len(set(texts.values())) == len(FAILING)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("buffer 12 of 340 bytes at 0x7ffe12ab", "buffer 7 of 4 bytes at 0xdeadbeef"),
        ('GPUValidationError: [Buffer "a"] size (12)', 'GPUValidationError: [Buffer "bb"] size (9)'),
        ("see https://example.org/a?b=1 for it", "see https://example.org/other for it"),
        ("shape {1,2,3} and [4]", "shape {7} and [1, 2]"),
        ("1.5e-3 is less than -2", "7 is less than 0.25"),
        ("in /tmp/a1/model.onnx line 3", "in /var/tmp/b/c/other.onnx line 77"),
    ],
)
def test_what_changes_from_run_to_run_is_taken_out(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_the_first_line_that_says_something_counts() -> None:
    assert normalised("\n\n  broken pipe  \n    at run (page.js:12)\n") == "broken pipe"
    assert normalised("") == normalised(" \n ") == ""


def test_a_long_message_is_cut() -> None:
    assert len(normalised("word " * 1000)) <= LONGEST


def test_normalising_again_changes_nothing() -> None:
    text = normalised(
        "Non-zero status code returned while running Add node. Name:'a' Status Message: /src/a/b.h:56 3 by 4"
    )
    assert normalised(text) == text


def test_wrong_values_are_one_family() -> None:
    for one in WRONG_VALUES:
        for other in WRONG_VALUES:
            assert Signature(one).matches(Signature(other))


@pytest.mark.parametrize("kind", sorted(set(Kind) - WRONG_VALUES, key=lambda kind: kind.value))
def test_every_other_class_stays_what_it_is(kind: Kind) -> None:
    signature = Signature(kind, "text")
    assert signature.matches(Signature(kind, "text"))
    assert not signature.matches(Signature(kind, "another"))
    for other in set(Kind) - {kind}:
        assert not signature.matches(Signature(other, "text"))
        assert not Signature(other, "text").matches(signature)


def test_a_signature_reads_well() -> None:
    assert str(Signature(Kind.NUMERIC)) == "numeric mismatch"
    assert str(Signature(Kind.RUN_ERROR, "it broke")) == "error at run: it broke"
