"""Runs models under onnx.reference in a process of its own. A script; see `ort_worker` for what goes in and out."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.runtimes.worker_loop import answer_all, limit_memory, timed_again


def tensor(described: dict[str, Any]) -> StoredTensor:
    """A described tensor."""
    if "model" in described:
        return StoredTensor.from_proto(onnx.load_model(described["model"]).graph.initializer[0])
    data = b""
    if described["length"]:
        with Path(described["path"]).open("rb") as file:
            file.seek(described["offset"])
            data = file.read(described["length"])
    return StoredTensor(described["elem_type"], tuple(described["shape"]), Blob.from_bytes(data))


def loaded(job: dict[str, Any]) -> onnx.ModelProto:
    """The model with its weights inside."""
    model = onnx.load_model(job["model"], load_external_data=False)
    for weight in model.graph.initializer:
        if weight.name in job["external"]:
            weight.CopyFrom(tensor(job["external"][weight.name]).to_proto(weight.name))
    return model


def written(name: str, value: Any, path: Path) -> dict[str, Any]:
    """Write an output to a file and describe it; what is no tensor is only named."""
    if value is None or isinstance(value, (list, tuple, dict)):
        return {"name": name, "kind": "none" if value is None else "not a tensor"}
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return {"name": name, "elem_type": 8, "shape": list(array.shape), "strings": [str(t) for t in array.ravel()]}
    stored = StoredTensor.from_array(np.ascontiguousarray(array).reshape(array.shape))
    path.write_bytes(stored.blob.view())
    return {
        "name": name,
        "elem_type": stored.elem_type,
        "shape": list(stored.shape),
        "path": str(path),
        "offset": 0,
        "length": stored.blob.length,
    }


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Evaluate a model once. An operator that is missing is an error at run that names it."""
    stage, began, created = "create", time.perf_counter(), 0.0
    try:
        model = loaded(job)
        stage = "run"
        evaluator = ReferenceEvaluator(model)
        created = time.perf_counter() - began
        feeds = {name: tensor(given).array for name, given in job["feeds"].items()}
        began = time.perf_counter()
        values = evaluator.run(job["outputs"], feeds)
        ran = time.perf_counter() - began
        again = timed_again(lambda: evaluator.run(job["outputs"], feeds), job)
        stage = "answer"
        outputs = [
            written(name, value, Path(job["folder"], f"{at}.bin"))
            for at, (name, value) in enumerate(zip(job["outputs"], values, strict=True))
        ]
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return {"status": stage, "message": message, "seconds": [created, time.perf_counter() - began]}
    return {"status": "ok", "outputs": outputs, "seconds": [created, ran, *again]}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of numpy, on overflow and the like
    np.seterr(all="ignore")
    limit_memory(int(sys.argv[1]))
    answer_all(lambda: {"version": onnx.__version__}, run)
