"""Runs models under Python ONNX Runtime in a process of its own. A script: it imports only numpy and onnxruntime.

One line in (a JSON string: the path of a job, itself a JSON file), one JSON line out. Tensors travel as files:
`{"path", "offset", "length", "elem_type", "shape"}`, in ONNX raw layout. Strings come in as `{"model"}`, the file of a
model whose only output they are, for ONNX Runtime's Python API makes no OrtValue of strings; they go out as
`{"strings", "shape"}`. Whatever native code prints goes to standard error.
"""

import contextlib
import ctypes
import json
import math
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

# onnx.TensorProto data types whose layout numpy knows; the others travel as unsigned integers of the same width.
NUMPY = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8"}
SAME_WIDTH = {16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1", 24: "u1"}
PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
NAMES = {
    "tensor(float)": 1, "tensor(uint8)": 2, "tensor(int8)": 3, "tensor(uint16)": 4, "tensor(int16)": 5,
    "tensor(int32)": 6, "tensor(int64)": 7, "tensor(string)": 8, "tensor(bool)": 9, "tensor(float16)": 10,
    "tensor(double)": 11, "tensor(uint32)": 12, "tensor(uint64)": 13, "tensor(bfloat16)": 16,
    "tensor(float8e4m3fn)": 17, "tensor(float8e4m3fnuz)": 18, "tensor(float8e5m2)": 19, "tensor(float8e5m2fnuz)": 20,
    "tensor(uint4)": 21, "tensor(int4)": 22, "tensor(float4e2m1)": 23, "tensor(float8e8m0)": 24,
    "tensor(uint2)": 25, "tensor(int2)": 26,
}  # fmt: skip
LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def ort_value(tensor: dict[str, Any]) -> Any:
    """An OrtValue from a described tensor."""
    if "model" in tensor:
        session = ort.InferenceSession(tensor["model"], providers=["CPUExecutionProvider"])
        return session.run_with_ort_values([session.get_outputs()[0].name], {})[0]
    kind, shape, length = tensor["elem_type"], tensor["shape"], tensor["length"]
    data = np.empty(0, dtype="u1")
    if length:
        data = np.fromfile(tensor["path"], dtype="u1", count=length, offset=tensor["offset"])
    if kind in PACKED_BITS:  # onnxruntime takes an array of the shape, and reads the packed bytes at its beginning
        room = np.zeros(math.prod(shape), dtype="u1")
        room[:length] = data
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(room.reshape(shape), kind)
    if kind in NUMPY:
        return ort.OrtValue.ortvalue_from_numpy(data.view(NUMPY[kind]).reshape(shape))
    if kind not in SAME_WIDTH:
        raise ValueError(f"ONNX Runtime has no tensors of ONNX data type {kind}")
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(data.view(SAME_WIDTH[kind]).reshape(shape), kind)


def described(name: str, value: Any, path: Path) -> dict[str, Any]:
    """Write an output to a file and describe it; sequences, left-out optionals and the like are only named."""
    if not value.has_value() or not value.is_tensor():
        return {"name": name, "kind": "none" if not value.has_value() else "not a tensor"}
    kind, shape = NAMES.get(value.data_type()), list(value.shape())
    if kind == 8:
        try:
            return {"name": name, "elem_type": 8, "shape": shape, "strings": [str(t) for t in value.numpy().ravel()]}
        except UnicodeDecodeError:
            return {"name": name, "kind": "strings that are not UTF-8"}
    if kind is None:
        return {"name": name, "kind": value.data_type()}
    if kind in PACKED_BITS:
        length = -(-math.prod(shape) * PACKED_BITS[kind] // 8)
    else:
        length = math.prod(shape) * np.dtype(NUMPY.get(kind) or SAME_WIDTH[kind]).itemsize
    with path.open("wb") as file:
        if length:
            file.write((ctypes.c_char * length).from_address(value.data_ptr()))
    return {"name": name, "elem_type": kind, "shape": shape, "path": str(path), "offset": 0, "length": length}


def session_options(job: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The options that a job asks for, and the external initializers, which must live as long as the session."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = LEVELS[job["level"]]
    if job["threads"]:
        options.intra_op_num_threads = job["threads"]
    for key, value in job["config"].items():
        options.add_session_config_entry(key, value)
    keep = {name: ort_value(tensor) for name, tensor in job["external"].items()}
    if keep:
        options.add_external_initializers(list(keep), list(keep.values()))
    return options, keep


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Create a session, run it once, describe the outputs."""
    stage, began = "create", time.perf_counter()
    try:
        options, keep = session_options(job)
        began = time.perf_counter()
        session = ort.InferenceSession(job["model"], options, providers=job["providers"])
        created = time.perf_counter() - began
        got = session.get_providers()
        if job["providers"][0] not in got:
            return {"status": "no provider", "message": f"it does not start; {', '.join(got)} would run instead"}
        stage = "run"
        feeds = {name: ort_value(tensor) for name, tensor in job["feeds"].items()}
        began = time.perf_counter()
        values = session.run_with_ort_values(job["outputs"], feeds)
        ran = time.perf_counter() - began
        stage = "answer"
        files = [Path(job["folder"], f"{at}.bin") for at in range(len(values))]
        outputs = list(map(described, job["outputs"], values, files))
    except Exception as error:
        message = str(error) or type(error).__name__
        return {"status": stage, "message": message, "seconds": [time.perf_counter() - began, 0.0]}
    del keep
    return {"status": "ok", "outputs": outputs, "seconds": [created, ran]}


def leave_with_parent() -> None:
    """End when the parent is gone, also in the middle of a run."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def main() -> None:
    """Answer one line for each line until standard input ends."""
    with contextlib.suppress(OSError):  # where memory ends, Linux shall take this process and not the search
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    threading.Thread(target=leave_with_parent, daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(json.dumps({"version": ort.__version__, "providers": ort.get_available_providers()}) + "\n")
    answers.flush()
    for line in sys.stdin:
        job = json.loads(Path(json.loads(line)).read_text("utf-8"))
        answers.write(json.dumps(run(job)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
