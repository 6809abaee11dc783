"""Plainer content of initializers and graph inputs, so that a script holds code instead of data."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.formulas import description_cost, literal_length, nearest_series, seeded
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.reduction.shrink import Shrinking

SPARSE_CALLS = 32
"""Calls to find which elements of one tensor matter."""
SEEDED = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8")


def weights(problem: Shrinking) -> None:
    """Make each initializer a graph input, or else a fill, a count, a series, or seeded values."""
    held = problem.draft().weights
    names = list(held)
    for kinds in ("f", "biu"):  # sizes and axes as inputs often change where a node runs
        problem.together([partial(_as_input, name) for name in names if held[name].array.dtype.kind in kinds])
    _plain(problem, [name for name in names if name in problem.draft().weights])


def weights_boldly(problem: Shrinking, draft: Draft) -> None:
    """Make all initializers of floats graph inputs, where the reference takes them so."""
    names = [name for name, tensor in draft.weights.items() if tensor.array.dtype.kind == "f"]
    _where_it_runs(problem, draft, [partial(_as_input, name) for name in names])


def inputs(problem: Shrinking) -> None:
    """Make each graph input ones, zeros, a count, small integers, or seeded values."""
    _plain(problem, list(problem.best.feeds))


def inputs_boldly(problem: Shrinking, draft: Draft) -> None:
    """Make all graph inputs ones, or zeros where the reference takes nothing else."""
    for value in (1, 0):
        edits = [partial(_fill, name, value) for name, tensor in draft.feeds.items() if not _is_plain(tensor)]
        _where_it_runs(problem, draft, edits)


def sparse(problem: Shrinking) -> None:
    """Find the few elements that matter where no plain content does, and make the others 0, or else 1."""
    for name in [*problem.best.feeds, *problem.draft().weights]:
        for value in (0, 1):
            if _thinned(problem, name, value):
                break


def is_fill(tensor: StoredTensor) -> bool:
    """Whether all elements are the same number, or there are none, or they are no numbers."""
    if not _is_numeric(tensor):
        return True
    flat = tensor.array.ravel()
    return flat.size == 0 or bool((flat == flat[0]).all())


def _is_plain(tensor: StoredTensor) -> bool:
    """Whether all elements are 1, or all 0."""
    return is_fill(tensor) and (not _is_numeric(tensor) or tensor.size == 0 or tensor.array.ravel()[0] in (0, 1))


def _plain(problem: Shrinking, names: list[str]) -> None:
    """Give the named tensors plainer content: the same for all at once, then each for itself."""
    for value in (1, 0):
        draft = problem.draft()
        varied = [name for name in names if not _is_plain(_held(draft, name)[name])]
        if len(varied) > 1 and problem.together([partial(_fill, name, value) for name in varied]):
            break
    for name in names:
        for tensor in _plainer(_held(problem.draft(), name).get(name)):
            draft = problem.draft()
            _held(draft, name)[name] = tensor
            if problem.attempt(draft):
                break


def _held(draft: Draft, name: str) -> dict[str, StoredTensor]:
    return draft.feeds if name in draft.feeds else draft.weights


def _as_input(name: str, draft: Draft) -> None:
    if name in draft.weights:
        draft.promote(name, draft.weights.pop(name))


def _fill(name: str, value: float, draft: Draft) -> None:
    held = _held(draft, name)
    if name in held and _is_numeric(held[name]):
        array = held[name].array
        held[name] = StoredTensor.from_array(np.full(array.shape, value).astype(array.dtype))


def _where_it_runs(problem: Shrinking, draft: Draft, edits: list[partial[None]]) -> None:
    """Make those edits that leave the reference sure: all, or each that goes with the ones before."""
    other = Draft(draft.candidate())
    for edit in edits:
        edit(other)
    if edits and problem.runs(other):
        draft.take(other)
        return
    for edit in edits if len(edits) > 1 else []:
        other = Draft(draft.candidate())
        edit(other)
        if problem.runs(other):
            draft.take(other)


def _plainer(tensor: StoredTensor | None) -> list[StoredTensor]:
    """Other content of the same dtype and shape, the plainest first; `attempt` leaves out what is not smaller."""
    if tensor is None or tensor.size == 0 or not _is_numeric(tensor):
        return []
    found: dict[str, StoredTensor] = {}
    for each in _other_content(tensor.array):
        found.setdefault(each.blob.digest, each)
    return sorted(found.values(), key=lambda each: (description_cost(each), literal_length(each)))


def _other_content(array: np.ndarray) -> Iterator[StoredTensor]:
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    typical = float(np.median(finite)) if finite.size else 0.0
    for value in (1.0, 0.0, 2.0, float(np.round(typical)), float(f"{typical:.1g}")):
        yield StoredTensor.from_array(np.full(array.shape, value).astype(array.dtype))
    if array.dtype.kind == "b":
        yield StoredTensor.from_array((np.arange(array.size) % 2 == 0).reshape(array.shape))
        return
    for start in (0, 1):
        yield StoredTensor.from_array(np.arange(start, array.size + start).reshape(array.shape).astype(array.dtype))
    series = nearest_series(array)
    if series is not None:
        yield StoredTensor.from_array(series)
    if finite.size and array.dtype.name in SEEDED:
        low, high = _round_down(float(finite.min())), _round_up(float(finite.max()))
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            yield seeded(array.shape, max(finite.min(), limits.min), min(finite.max(), limits.max), array.dtype)
        else:
            for ends in ((-1.0, 1.0), (low, high)):
                yield seeded(array.shape, *ends, array.dtype)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            yield StoredTensor.from_array(np.round(wide).astype(array.dtype))


def _thinned(problem: Shrinking, name: str, value: float) -> bool:
    """Give all elements but those that matter one value: halving chunks, in a warm runtime, confirmed at the end."""
    start = problem.draft()
    tensor = _held(start, name).get(name)
    if tensor is None or not _is_numeric(tensor) or is_fill(tensor) or description_cost(tensor) < min(tensor.size, 8):
        return False
    array = tensor.array.ravel()
    others = np.flatnonzero(array != np.asarray(value).astype(array.dtype))
    best: Draft | None = None
    end = problem.current.calls + SPARSE_CALLS
    chunk = max(len(others) // 2, 1)
    while chunk and len(others) > 1:
        at = len(others)
        while at > 0 and len(others) > 1 and problem.current.calls < end:
            first = max(at - chunk, 0)
            fewer = np.delete(others, np.arange(first, at))
            draft = problem.draft()
            content = np.full(array.shape, value).astype(array.dtype)
            content[fewer] = array[fewer]
            _held(draft, name)[name] = StoredTensor.from_array(content.reshape(tensor.shape))
            if len(fewer) and problem.still_fails(draft) is not None:
                others, best = fewer, draft
            at = first
        chunk //= 2
    return best is not None and problem.attempt(best)


def _is_numeric(tensor: StoredTensor) -> bool:
    dtype = tensor.array.dtype
    return dtype.kind in "biuf" or dtype.name.startswith(("bfloat", "float"))


def _round_down(value: float) -> float:
    return float(np.floor(value)) if abs(value) >= 1 else -1.0 if value < 0 else 0.0


def _round_up(value: float) -> float:
    return float(np.ceil(value)) if abs(value) >= 1 else 1.0 if value > 0 else 0.0
