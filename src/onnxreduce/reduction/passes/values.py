"""Plainer content of initializers and graph inputs, so that a script holds code instead of data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxreduce.graph.formulas import nearest_series, seeded
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.reduction.shrink import Shrinking


def weights(problem: Shrinking) -> None:
    """Make each initializer a fill, a count, a series, seeded values, or a graph input."""
    for name in list(problem.draft().weights):
        for tensor in _plainer(problem.draft().weights.get(name)):
            draft = problem.draft()
            draft.weights[name] = tensor
            if problem.attempt(draft):
                break
        draft = problem.draft()
        if name in draft.weights:
            draft.promote(name, draft.weights.pop(name))
            problem.attempt(draft)


def inputs(problem: Shrinking) -> None:
    """Make each graph input zeros, ones, a count, small integers, or seeded values."""
    for name in list(problem.best.feeds):
        for tensor in _plainer(problem.best.feeds.get(name)):
            draft = problem.draft()
            draft.feeds[name] = tensor
            if problem.attempt(draft):
                break


def _plainer(tensor: StoredTensor | None) -> Iterator[StoredTensor]:
    """Other content of the same dtype and shape, the plainest first; `attempt` leaves out what is not smaller."""
    if tensor is None or tensor.size == 0:
        return
    array = tensor.array
    if array.dtype.kind not in "biuf" and not array.dtype.name.startswith(("bfloat", "float")):
        return
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    typical = float(np.median(finite)) if finite.size else 0.0
    fills = [0.0, 1.0, 2.0, float(np.round(typical)), float(f"{typical:.1g}")]
    for value in dict.fromkeys(fills):
        yield StoredTensor.from_array(np.full(array.shape, value).astype(array.dtype))
    if array.dtype.kind == "b":
        yield StoredTensor.from_array((np.arange(array.size) % 2 == 0).reshape(array.shape))
        return
    for start in (1, 0):
        yield StoredTensor.from_array(np.arange(start, array.size + start).reshape(array.shape).astype(array.dtype))
    series = nearest_series(array)
    if series is not None:
        yield StoredTensor.from_array(series)
    if finite.size and array.dtype.name in ("float32", "float64", "float16", "int64", "int32", "int8", "uint8"):
        low, high = _round_down(float(finite.min())), _round_up(float(finite.max()))
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            yield seeded(array.shape, max(finite.min(), limits.min), min(finite.max(), limits.max), array.dtype)
        else:
            for ends in ((-1.0, 1.0), (low, high)):
                yield seeded(array.shape, *ends, array.dtype)
    yield StoredTensor.from_array(np.round(wide).astype(array.dtype))


def _round_down(value: float) -> float:
    return float(np.floor(value)) if abs(value) >= 1 else -1.0 if value < 0 else 0.0


def _round_up(value: float) -> float:
    return float(np.ceil(value)) if abs(value) >= 1 else 1.0 if value > 0 else 0.0
