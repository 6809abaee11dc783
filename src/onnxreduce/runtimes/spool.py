"""Tensors that travel to a worker and back as files: `{"path", "offset", "length", "elem_type", "shape"}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnxreduce import scratch
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.graph.weights import external_location
from onnxreduce.runtimes.base import RunRequest


class Spool:
    """A folder in which each content lies once, by its digest; what is a file already is named where it is."""

    def __init__(self) -> None:
        self.folder = scratch.make("child")

    def described(self, tensor: StoredTensor) -> dict[str, Any]:
        """A tensor for a worker; strings are `{"model"}`, the file of a model that gives them."""
        if tensor.elem_type == TensorProto.STRING:
            return {"model": str(self._model_of(tensor))}
        path, offset = self._file_of(tensor.blob)
        return {
            "path": str(path),
            "offset": offset,
            "length": tensor.blob.length,
            "elem_type": tensor.elem_type,
            "shape": list(tensor.shape),
        }

    def external(self, request: RunRequest) -> dict[str, Any]:
        """The initializers of a request whose data is external, by name."""
        if not request.external:
            return {}
        proto = onnx.load_model_from_string(request.model)
        described: dict[str, Any] = {}
        for tensor in proto.graph.initializer:
            location = external_location(tensor)
            if location is not None:
                stored = StoredTensor(tensor.data_type, tuple(tensor.dims), request.external[location])
                described[tensor.name] = self.described(stored)
        return described

    def close(self) -> None:
        """Remove the files."""
        scratch.remove(self.folder)

    def _model_of(self, tensor: StoredTensor) -> Path:
        path = self.folder / f"{tensor.blob.digest}-{'x'.join(map(str, tensor.shape))}.onnx"
        if not path.exists():
            output = helper.make_tensor_value_info("strings", TensorProto.STRING, tensor.shape)
            node = helper.make_node("Identity", ["value"], ["strings"])
            graph = helper.make_graph([node], "strings", [], [output], [tensor.to_proto("value")])
            model = helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", 13)])
            path.write_bytes(model.SerializeToString())
        return path

    def _file_of(self, blob: Blob) -> tuple[Path, int]:
        if blob.path is not None:
            return blob.path, blob.offset
        path = self.folder / blob.digest
        if not path.exists():
            path.write_bytes(blob.view())
        return path, 0


def stored_output(output: Mapping[str, Any], blob: Blob | None = None) -> StoredTensor:
    """An output described by a worker as a tensor by reference to its file (or to `blob`, its moved content)."""
    if "strings" in output:
        return StoredTensor.from_array(array_of(output))
    return StoredTensor(output["elem_type"], tuple(output["shape"]), blob or Blob.from_file(Path(output["path"])))


def array_of(output: Mapping[str, Any]) -> np.ndarray:
    """An output described by a worker as an array."""
    if "strings" in output:
        return np.array(output["strings"], dtype=object).reshape(output["shape"])
    data = Path(output["path"]).read_bytes()
    return StoredTensor(output["elem_type"], tuple(output["shape"]), Blob("", len(data), data=data)).array
