"""Runs models under Python ONNX Runtime in a process of its own. A script: it imports only numpy and onnxruntime.

One JSON line in, one JSON line out. Tensors travel as files: `{"path", "offset", "length", "elem_type", "shape"}`, in
ONNX raw layout; string tensors as `{"strings", "shape"}`. Whatever native code prints goes to standard error.
"""

import ctypes
import json
import os
import sys
import time

import numpy as np
import onnxruntime as ort

# onnx.TensorProto data types whose layout numpy knows; the others travel as unsigned integers of the same width.
NUMPY = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8"}
SAME_WIDTH = {16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1"}
NAMES = {
    "tensor(float)": 1, "tensor(uint8)": 2, "tensor(int8)": 3, "tensor(uint16)": 4, "tensor(int16)": 5,
    "tensor(int32)": 6, "tensor(int64)": 7, "tensor(string)": 8, "tensor(bool)": 9, "tensor(float16)": 10,
    "tensor(double)": 11, "tensor(uint32)": 12, "tensor(uint64)": 13, "tensor(bfloat16)": 16,
    "tensor(float8e4m3fn)": 17, "tensor(float8e4m3fnuz)": 18, "tensor(float8e5m2)": 19, "tensor(float8e5m2fnuz)": 20,
}  # fmt: skip
LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def ort_value(tensor):
    """An OrtValue from a described tensor."""
    if "strings" in tensor:
        array = np.array(tensor["strings"], dtype=object).reshape(tensor["shape"])
        return ort.OrtValue.ortvalue_from_numpy(array)
    kind = tensor["elem_type"]
    dtype = np.dtype(NUMPY.get(kind) or SAME_WIDTH[kind])
    if tensor["length"]:
        data = np.fromfile(tensor["path"], dtype="u1", count=tensor["length"], offset=tensor["offset"])
    else:
        data = np.empty(0, dtype="u1")
    array = data.view(dtype).reshape(tensor["shape"])
    if kind in NUMPY:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def described(name, value, path):
    """Write an output to a file and describe it; sequences and left-out optionals are only named."""
    if not value.has_value() or not value.is_tensor():
        return {"name": name, "kind": "none" if not value.has_value() else "not a tensor"}
    kind, shape = NAMES.get(value.data_type()), list(value.shape())
    if kind == 8:
        return {"name": name, "elem_type": 8, "shape": shape, "strings": [str(t) for t in value.numpy().ravel()]}
    if kind is None:
        return {"name": name, "kind": value.data_type()}
    width = np.dtype(NUMPY.get(kind) or SAME_WIDTH[kind]).itemsize
    length = int(np.prod(shape, dtype=np.int64)) * width
    with open(path, "wb") as file:
        if length:
            file.write((ctypes.c_char * length).from_address(value.data_ptr()))
    return {"name": name, "elem_type": kind, "shape": shape, "path": path, "offset": 0, "length": length}


def run(job):
    """Create a session, run it once, describe the outputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = LEVELS[job.get("level", "all")]
    if job.get("threads"):
        options.intra_op_num_threads = job["threads"]
    for key, value in job.get("config", {}).items():
        options.add_session_config_entry(key, value)
    keep = {name: ort_value(tensor) for name, tensor in job["external"].items()}
    if keep:
        options.add_external_initializers(list(keep), list(keep.values()))
    started = time.perf_counter()
    stage = "create"
    try:
        session = ort.InferenceSession(job["model"], options, providers=job["providers"])
        created = time.perf_counter()
        got = session.get_providers()
        if job["providers"][0] not in got:
            return {"status": "no provider", "message": f"{job['providers'][0]} does not start; {got} would run instead"}
        feeds = {name: ort_value(tensor) for name, tensor in job["feeds"].items()}
        stage, began = "run", time.perf_counter()
        values = session.run_with_ort_values(job["outputs"], feeds)
        ended = time.perf_counter()
    except Exception as error:
        return {"status": stage, "message": str(error), "seconds": [time.perf_counter() - started, 0.0]}
    outputs = [
        described(name, value, os.path.join(job["folder"], f"{at}.bin"))
        for at, (name, value) in enumerate(zip(job["outputs"], values))
    ]
    return {"status": "ok", "outputs": outputs, "seconds": [created - started, ended - began]}


def main():
    """Answer one line for each line until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answers.write(json.dumps({"version": ort.__version__, "providers": ort.get_available_providers()}) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
