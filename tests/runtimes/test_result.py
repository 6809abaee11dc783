"""The posted result, as Python reads it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from onnxreduce.runtimes.base import Status
from onnxreduce.runtimes.browser.result import message_of, outputs_of, status_of, unpack, web_type


def pack(header: dict[str, Any], *buffers: bytes) -> bytearray:
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 4) % 8)
    return bytearray(len(text).to_bytes(4, "little") + text + b"".join(b + bytes(-len(b) % 8) for b in buffers))


def failed(message: str, device: list[str], console: list[str], status: str = "run error") -> str:
    return message_of({"status": status, "message": message, "deviceErrors": device, "console": console})


def test_outputs_come_back_by_name() -> None:
    arrays = {"a": np.array([1, 2, 3], np.uint8), "b": np.array(0.5, np.float32), "c": np.zeros((0, 2), np.int64)}
    names = {"a": "uint8", "b": "float32", "c": "int64"}
    given = [
        {"name": n, "type": names[n], "dims": list(array.shape), "length": array.nbytes} for n, array in arrays.items()
    ]
    texts = json.dumps(["x", "ü"]).encode()
    given.append({"name": "d", "type": "string", "dims": [2], "length": len(texts)})
    given.append({"name": "e", "type": "int4", "dims": [3], "length": 2})
    body = pack({"outputs": given}, *(array.tobytes() for array in arrays.values()), texts, bytes([0x21, 0x0F]))
    header, buffers = unpack(body)
    outputs = outputs_of(header, buffers)
    assert list(outputs) == ["a", "b", "c", "d", "e"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(outputs[name], array)
        assert outputs[name].shape == array.shape
    assert outputs["d"].tolist() == ["x", "ü"]
    assert outputs["e"].astype(int).tolist() == [1, 2, -1]


def test_what_is_no_result_is_refused() -> None:
    for body in (b"", b"\4\0\0\0nope", pack({})[:6]):
        with pytest.raises(ValueError, match=r".*"):
            unpack(bytearray(body))


def test_a_good_run_has_no_message() -> None:
    assert failed("", [], ["a warning"], status="ok") == ""


def test_a_message_says_each_thing_once() -> None:
    log = "[E:onnxruntime:, sequential_executor.cc:671 ExecuteKernel] Node failed because"
    assert failed("ERROR_MESSAGE: Node failed because", [], [log]) == "ERROR_MESSAGE: Node failed because"
    device = "GPUValidationError: it is invalid"
    console = ["An uncaught WebGPU validation error was raised: it is invalid", "something else"]
    assert failed("", [device, device], console) == f"{device}\nsomething else"
    assert len(failed("first", [], [f"line {i}" for i in range(1000)]).splitlines()) == 21


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ({}, Status.RUN_ERROR),
        ({"message": "failed to call OrtRun(). ERROR_CODE: 6, ERROR_MESSAGE: std::bad_alloc"}, Status.OUT_OF_MEMORY),
        ({"message": "RuntimeError: memory access out of bounds"}, Status.RUN_ERROR),
        ({"message": "RuntimeError: memory access out of bounds", "refusedMemory": True}, Status.OUT_OF_MEMORY),
        ({"status": "ok", "refusedMemory": True}, Status.OK),
        ({"status": "shader error", "deviceErrors": ["GPUOutOfMemoryError: no room"]}, Status.OUT_OF_MEMORY),
        ({"status": "shader error", "deviceErrors": ['GPUValidationError: label "GPUOutOfMemoryError"']}, None),
        ({"status": "create error", "console": ["std::bad_alloc"]}, Status.CREATE_ERROR),
    ],
)
def test_memory_that_runs_out(header: dict[str, Any], status: Status | None) -> None:
    whole = {"status": "run error", "message": "", "deviceErrors": [], "console": [], "refusedMemory": False} | header
    assert status_of(whole) is (status or Status(whole["status"]))


def test_types_that_the_runtime_knows() -> None:
    assert web_type(TensorProto.FLOAT16) == "float16"
    assert web_type(TensorProto.BFLOAT16) is None
