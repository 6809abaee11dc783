"""What the page posts after a run: a JSON header and the outputs' raw bytes (`pack` in page/host.js writes it)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.base import Status
from onnxreduce.runtimes.memory import says_no_memory

_CONSOLE_LINES = 20  # quoted in a message; a broken model can repeat itself a thousand times

_LOG_PREFIX = re.compile(r"\[[VIWEF]:onnxruntime:[^]]*\] ")  # severity, logger, place in the source

_WEB_TYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "uint8",
    TensorProto.INT16: "int16",
    TensorProto.UINT16: "uint16",
    TensorProto.INT32: "int32",
    TensorProto.UINT32: "uint32",
    TensorProto.INT64: "int64",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
    TensorProto.STRING: "string",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
}
_ELEM_TYPES = {name: number for number, name in _WEB_TYPES.items()}


def web_type(elem_type: int) -> str | None:
    """onnxruntime-web's name of an ONNX element type, None where it has no such tensors."""
    return _WEB_TYPES.get(elem_type)


def unpack(body: bytearray) -> tuple[dict[str, Any], memoryview]:
    """Header and buffers of a posted result; raises ValueError when it is not one."""
    length = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + length])
    if len(body) < 4 + length or not isinstance(header, dict):
        raise ValueError("the result has no whole header")
    return header, memoryview(body)[4 + length :]


def outputs_of(header: Mapping[str, Any], buffers: memoryview) -> dict[str, np.ndarray]:
    """The outputs by name, as arrays over the result's own memory."""
    outputs = {}
    start = 0
    for given in header["outputs"]:
        piece = buffers[start : start + given["length"]]
        start += given["length"] + -given["length"] % 8
        outputs[given["name"]] = _array(_ELEM_TYPES[given["type"]], tuple(given["dims"]), piece)
    return outputs


def status_of(header: Mapping[str, Any]) -> Status:
    """How a run ended. After a refusal to grow an error may have any words: a kernel that got no memory just traps."""
    status = Status(header["status"])
    if status in (Status.OK, Status.LOST_DEVICE):
        return status
    said = [header["message"], *(error for error in header["deviceErrors"] if error.startswith("GPUOutOfMemoryError"))]
    if header["refusedMemory"] or any(map(says_no_memory, said)):
        return Status.OUT_OF_MEMORY
    return status


def message_of(header: Mapping[str, Any]) -> str:
    """The error text of a run: what was thrown, then device errors, then console lines that say something else."""
    if header["status"] == "ok":
        return ""
    told = [text.strip() for text in (header["message"], *header["deviceErrors"])]
    errors = [text for text in dict.fromkeys(told) if text]
    lines = []
    for line in header["console"][:_CONSOLE_LINES]:
        # The runtime prints most errors to the console too, with other words around them.
        core = _LOG_PREFIX.sub("", line)
        if not any(core in error or _without_class(error) in line for error in errors):
            lines.append(line)
    return "\n".join([*errors, *lines])


def _without_class(text: str) -> str:
    before, colon, after = text.partition(": ")
    return after if colon and before.isidentifier() else text


def _array(elem_type: int, shape: tuple[int, ...], data: memoryview) -> np.ndarray:
    if elem_type in (TensorProto.STRING, TensorProto.INT4, TensorProto.UINT4):
        return StoredTensor(elem_type, shape, Blob.from_bytes(bytes(data))).array
    return np.frombuffer(data, dtype=helper.tensor_dtype_to_np_dtype(elem_type)).reshape(shape)
