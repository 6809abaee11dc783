"""Inputs of another element type or content, or as initializers; initializers as inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from onnxreduce.explain.neighbours.proposal import Proposal
from onnxreduce.graph.formulas import seeded
from onnxreduce.graph.retype import retype, retype_input, types_inside
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.reduction.shrink import Shrinking

CONSTANT_IR = 4
"""From this IR version on an initializer need not be a graph input too, which makes it a constant."""
OTHER_TYPES: dict[int, tuple[int, ...]] = {
    TensorProto.FLOAT: (TensorProto.DOUBLE, TensorProto.FLOAT16),
    TensorProto.DOUBLE: (TensorProto.FLOAT,),
    TensorProto.FLOAT16: (TensorProto.FLOAT,),
    TensorProto.BFLOAT16: (TensorProto.FLOAT,),
    TensorProto.INT64: (TensorProto.INT32, TensorProto.FLOAT),
    TensorProto.INT32: (TensorProto.INT64, TensorProto.FLOAT),
    TensorProto.INT8: (TensorProto.UINT8, TensorProto.INT32),
    TensorProto.UINT8: (TensorProto.INT8, TensorProto.INT32),
    TensorProto.BOOL: (TensorProto.INT32,),
}
SEED = 1
"""Not that of the values that reductions make."""


def dtypes(problem: Shrinking) -> Iterator[Proposal]:
    """Each input of another element type; then each element type in the whole model."""
    for name, tensor in problem.best.feeds.items():
        for new in OTHER_TYPES.get(tensor.elem_type, ()):
            draft = problem.draft()
            retype_input(draft, name, {tensor.elem_type}, new)
            yield Proposal("input", name, f"{tensor.dtype_name} → {_name(new)}", [draft])
    for old in sorted(types_inside(problem.draft()) & OTHER_TYPES.keys()):
        for new in OTHER_TYPES[old]:
            draft = problem.draft()
            retype(draft, {old}, new)
            yield Proposal("input", "the whole model", f"{_name(old)} → {_name(new)}", [draft], 1.0)


def constants(problem: Shrinking) -> Iterator[Proposal]:
    """Each input as an initializer, and each initializer as an input."""
    for name in problem.best.feeds:
        draft = problem.draft()
        draft.weights[name] = draft.feeds.pop(name)
        kept = [value for value in draft.proto.graph.input if value.name != name]
        del draft.proto.graph.input[:]
        draft.proto.graph.input.extend(kept)
        draft.proto.ir_version = max(draft.proto.ir_version, CONSTANT_IR)
        yield Proposal("input", name, "made an initializer", [draft])
    for name, tensor in problem.draft().weights.items():
        draft = problem.draft()
        del draft.weights[name]
        draft.promote(name, tensor)
        yield Proposal("input", name, "made a graph input", [draft])


def values(problem: Shrinking) -> Iterator[Proposal]:
    """Each input with random content in its own range; then all the same. A fault can hide behind plain values."""
    for plain in (False, True):
        for name, tensor in problem.best.feeds.items():
            for words, content in _plain(tensor) if plain else _random(tensor):
                if content.blob.digest != tensor.blob.digest:
                    draft = problem.draft()
                    draft.feeds[name] = content
                    yield Proposal("value", name, words, [draft], float(plain))


def _random(tensor: StoredTensor) -> Iterator[tuple[str, StoredTensor]]:
    array = tensor.array
    if array.dtype.name not in ("float32", "float64", "float16", "int64", "int32", "int8", "uint8") or not array.size:
        return
    low, high = float(array.min()), float(array.max())
    if np.isfinite((low, high)).all():
        if low == high:
            low, high = min(low, -1.0 if array.dtype.kind == "f" else 0.0), max(high, 1.0)
        yield f"random from {low:g} to {high:g}", seeded(tensor.shape, low, high, array.dtype, SEED)


def _plain(tensor: StoredTensor) -> Iterator[tuple[str, StoredTensor]]:
    if tensor.array.dtype.kind in "biuf" and tensor.size:
        for value in (1, 0):
            yield f"all {value}", StoredTensor.from_array(np.full(tensor.shape, value).astype(tensor.array.dtype))


def _name(elem_type: int) -> str:
    return str(TensorProto.DataType.Name(elem_type)).lower()
