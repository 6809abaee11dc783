"""Runs models under Python ONNX Runtime in a process of its own. A script: it imports only numpy and onnxruntime.

It runs under old versions too, so its syntax is that of Python 3.8. Its argument is JSON: what the target asks for.
Then one line in (a JSON string: the path of a job, itself a JSON file), one JSON line out. Tensors travel as files:
`{"path", "offset", "length", "elem_type", "shape"}`, in ONNX raw layout. Strings come in as `{"model"}`, the file of a
model whose only output they are, for ONNX Runtime's Python API makes no OrtValue of strings; they go out as
`{"strings", "shape"}`. Whatever native code prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

loop = importlib.import_module("worker_loop")  # beside this script, which runs where the package is not installed

# onnx.TensorProto data types whose layout numpy knows; the others travel as unsigned integers of the same width.
NUMPY = {1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8"}
SAME_WIDTH = {16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1", 24: "u1"}
CPU = "CPUExecutionProvider"
DEVICES: list[Any] = []  # of a plugin provider, once it is loaded
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
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
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
        return unknown_to_numpy(room.reshape(shape), kind)
    if kind in NUMPY:
        return ort.OrtValue.ortvalue_from_numpy(data.view(NUMPY[kind]).reshape(shape))
    if kind not in SAME_WIDTH:
        raise ValueError(f"ONNX Runtime has no tensors of ONNX data type {kind}")
    return unknown_to_numpy(data.view(SAME_WIDTH[kind]).reshape(shape), kind)


def unknown_to_numpy(data: Any, kind: int) -> Any:
    """An OrtValue of a type that numpy lacks."""
    make = getattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type", None)
    if make is None:
        raise ValueError(f"onnxruntime {ort.__version__} is too old to take tensors of ONNX data type {kind}")
    return make(data, kind)


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
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[job["level"]])
    if job["threads"]:
        options.intra_op_num_threads = job["threads"]
    keep = {name: ort_value(tensor) for name, tensor in job.get("external", {}).items()}
    if keep:
        options.add_external_initializers(list(keep), list(keep.values()))
    return options, keep


def session(model: str, options: Any, job: dict[str, Any]) -> Any:
    """A session under the asked provider alone, with the CPU for what it does not take."""
    chosen: dict[str, Any] = {}
    if DEVICES:
        options.add_provider_for_devices(DEVICES, job["provider_options"])
    elif job["provider"] == CPU:
        chosen["providers"] = [CPU]
    else:
        chosen["providers"] = [(job["provider"], job["provider_options"]), CPU]
    if job["disabled_optimizers"]:
        chosen["disabled_optimizers"] = set(job["disabled_optimizers"])
    return ort.InferenceSession(model, options, **chosen)


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Create a session, run it as often as asked, describe the last outputs."""
    stage, began = "create", time.perf_counter()
    try:
        options, keep = session_options(job)
        began = time.perf_counter()
        made = session(job["model"], options, job)
        created = time.perf_counter() - began
        got = made.get_providers()
        if not DEVICES and job["provider"] not in got:
            text = f"{job['provider']} does not start; {', '.join(got)} would run instead"
            return {"status": "setup", "message": text}
        stage = "run"
        feeds = {name: ort_value(tensor) for name, tensor in job["feeds"].items()}
        began = time.perf_counter()
        for _ in range(job["runs"]):
            values = made.run_with_ort_values(job["outputs"], feeds)
        ran = time.perf_counter() - began
        again = loop.timed_again(lambda: made.run_with_ort_values(job["outputs"], feeds), job)
        stage = "answer"
        files = [Path(job["folder"], f"{at}.bin") for at in range(len(values))]
        outputs = list(map(described, job["outputs"], values, files))
    except Exception as error:
        kind = "MemoryError: " if isinstance(error, MemoryError) else ""
        message = kind + (str(error) or type(error).__name__)
        return {"status": stage, "message": message, "seconds": [time.perf_counter() - began, 0.0]}
    del keep
    return {"status": "ok", "outputs": outputs, "seconds": [created, ran, *again]}


def load_plugin(plugin: dict[str, Any]) -> dict[str, str]:
    """Register a plugin's library and choose its device; returns facts about them, or why there are none."""
    before = {device.ep_name for device in ort.get_ep_devices()}
    file, name = plugin["file"], plugin["ep_name"]
    if not file:
        module = importlib.import_module(plugin["module"])
        file = module.get_library_path()
        if name is None and hasattr(module, "get_ep_names"):
            name = module.get_ep_names()[0]
    ort.register_execution_provider_library(plugin["module"], str(file))
    devices = [
        each for each in ort.get_ep_devices() if each.ep_name == name or (not name and each.ep_name not in before)
    ]
    if plugin["device"] >= len(devices):
        return {"no_device": f"{name or plugin['module']} finds {len(devices) or 'no'} devices that it can run on"}
    device = devices[plugin["device"]]
    DEVICES.append(device)
    version = device.ep_metadata.get("version", "")
    return {
        "provider": device.ep_name,
        "library": f"{plugin['module']} {version}".strip(),
        "device": f"{device.device.type.name} {device.device.vendor}".strip(),
    }


def refusal(asked: dict[str, Any]) -> str:
    """Why the provider does not run, found out with a small model; empty when it does."""
    with contextlib.suppress(Exception):  # loads the libraries that other packages bring; there only in newer versions
        if asked["provider"] in ("CUDAExecutionProvider", "TensorrtExecutionProvider"):
            ort.preload_dlls()
    options, _ = session_options(asked)
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder, "anchor"))
        made = session(asked["anchor"], options, asked)
        made.run(None, {"x": np.ones((2, 2), dtype="f4")})
        profile = json.loads(Path(made.end_profiling()).read_text("utf-8"))
    placed = {event.get("args", {}).get("provider") for event in profile} - {None, ""}
    if asked["provider"] in placed:
        return ""
    return f"{asked['provider']} runs none of a small model's nodes; {', '.join(sorted(placed))} runs them instead"


def introduction(asked: dict[str, Any]) -> dict[str, Any]:
    """What this is, and whether it can do what is asked."""
    facts = {
        "version": ort.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "providers": ort.get_available_providers(),
    }
    try:
        if not hasattr(ort.GraphOptimizationLevel, LEVELS[asked.get("level", "all")]):
            facts["error"] = f"onnxruntime {ort.__version__} has no graph optimization level {asked['level']!r}"
        elif asked.get("plugin"):
            if not hasattr(ort, "register_execution_provider_library"):
                facts["error"] = f"onnxruntime {ort.__version__} takes no plugin providers"
            else:
                facts.update(load_plugin(asked["plugin"]))
                asked["provider"] = facts.get("provider")
        if (
            "anchor" in asked
            and not {"error", "no_device"} & set(facts)
            and (DEVICES or asked["provider"] in facts["providers"])
        ):
            facts["error"] = refusal(asked)
    except Exception as error:
        facts["error"] = f"{asked.get('provider')} does not start: {error or type(error).__name__}"
    return facts


def main() -> None:
    """Limit memory before anything is loaded by a session, tell what this is, and answer."""
    asked = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    loop.limit_memory(asked.get("memory"))
    loop.answer_all(lambda: introduction(asked), run)


if __name__ == "__main__":
    main()
