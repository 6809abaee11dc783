"""Smaller dimensions. Those that the graph holds equal are lowered together.

Which sizes keep a fault is not monotone: a real convolution fault shows for 6, 9 and 15 channels and not for 3, 4, 5, 7
and 8, another for 33 and 129 and not for 65 and 130. So sizes are tried from 1 upwards, never only by halving.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import numpy as np
from onnx import NodeProto, TensorProto

from onnxreduce.graph.draft import Draft
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import read_names
from onnxreduce.reduction.passes.reorder import chains
from onnxreduce.reduction.shrink import Shrinking

Axis = tuple[str, int]

ALL_UP_TO = 16
"""Every size up to this one is tried."""
SHAPE_OPERATORS = {
    "Reshape": 1, "Expand": 1, "Tile": 1, "ConstantOfShape": 0, "Split": 1, "Slice": 2, "Resize": 3, "Pad": 1,
    "TopK": 1,
}  # fmt: skip
SIZE_ATTRIBUTES = (
    "group", "hidden_size", "kv_num_heads", "num_heads", "num_outputs", "output_shape", "q_num_heads", "split",
)  # fmt: skip
"""Operators that read sizes from an integer tensor, with the first position of such an input."""


def dims(problem: Shrinking) -> None:
    """Lower each group of equal dimensions to the smallest size that keeps the fault."""
    problem.together([partial(dims_boldly, problem)])
    done: set[frozenset[Axis]] = set()
    while True:
        group = next((g for g in groups(problem) if g not in done), None)
        if group is None:
            return
        done.add(group)
        value, axis = next(iter(group))
        old = _known(problem)[value].shape[axis]
        for new in sizes(old):
            if any(problem.attempt(draft) for draft in resized(problem, group, old, new)):
                break


def dims_boldly(problem: Shrinking, draft: Draft) -> None:
    """All dimensions to 1."""
    before = Draft(draft.candidate())
    for held in (draft.feeds, draft.weights):
        for name, tensor in held.items():
            held[name] = StoredTensor.from_array(np.ascontiguousarray(tensor.array[(slice(0, 1),) * len(tensor.shape)]))
    for name, tensor in before.weights.items():
        if any(name in list(node.input)[first:] for node, first in _size_readers(before)):
            draft.weights[name] = StoredTensor.from_array(np.minimum(tensor.array, 1))
    _fit_attributes(draft)


def rank(problem: Shrinking) -> None:
    """Drop axes of length 1 from all values, at once or in one component of the graph at a time."""
    draft = problem.draft()
    components = [{name for node in chain for name in read_names(node)} for chain in chains(draft.nodes)]
    problem.together([partial(_squeeze, names) for names in components])


def rank_boldly(problem: Shrinking, draft: Draft) -> None:
    """Drop all axes of length 1, where the reference allows it."""
    other = Draft(draft.candidate())
    _squeeze({*other.feeds, *other.weights}, other)
    if problem.runs(other):
        draft.feeds, draft.weights = other.feeds, other.weights


def _squeeze(names: Collection[str], draft: Draft) -> None:
    for held in (draft.feeds, draft.weights):
        for name in names & held.keys():
            shape = [length for length in held[name].shape if length != 1] or [1]
            if len(shape) < len(held[name].shape):
                held[name] = StoredTensor.from_array(held[name].array.reshape(shape))


def groups(problem: Shrinking, *, shortest: int = 2) -> list[frozenset[Axis]]:
    """Axes of inputs and initializers to change together, the longest axes first; none below `shortest`.

    All axes of one length come before the parts of it that the graph holds equal: buffers of independent branches are
    reused only while they stay in the same size class. A node joins the axes of its values that have the same size: an
    approximation that is checked by running the result, which costs no oracle call.
    """
    known = _known(problem)
    parent: dict[Axis, Axis] = {}

    def root(axis: Axis) -> Axis:
        while parent.setdefault(axis, axis) != axis:
            axis = parent[axis]
        return axis

    draft = problem.draft()
    for node in draft.nodes:
        by_size: dict[int, Axis] = {}
        for name in [*read_names(node), *(name for name in node.output if name)]:
            for axis, length in enumerate(known[name].shape if name in known else ()):
                if length >= shortest:
                    first = by_size.setdefault(length, (name, axis))
                    parent[root((name, axis))] = root(first)
    ends = {*draft.feeds, *draft.weights}
    found: dict[Axis, set[Axis]] = {}
    for name in ends:
        for axis, length in enumerate(known[name].shape):
            if length >= shortest:
                found.setdefault(root((name, axis)), set()).add((name, axis))
    parts = [frozenset(group) for group in found.values()]
    by_length: dict[int, set[Axis]] = {}
    for part in parts:
        for name, axis in part:
            by_length.setdefault(known[name].shape[axis], set()).add((name, axis))
    every = dict.fromkeys([*(frozenset(group) for group in by_length.values()), *parts])
    return sorted(every, key=lambda group: (-_length(known, group), -len(group), sorted(group)))


def _length(known: Mapping[str, StoredTensor], group: frozenset[Axis]) -> int:
    return max(known[name].shape[axis] for name, axis in group)


def sizes(old: int) -> list[int]:
    """Sizes below `old` to try, in order: small ones, then divisors, powers of two and their neighbours."""
    small = list(range(1, min(old, ALL_UP_TO + 1)))
    powers = [1 << bit for bit in range(old.bit_length() + 1)]
    more = {n for n in range(2, old // 2 + 1) if old % n == 0}
    more |= {near for power in powers for near in (power - 1, power, power + 1)}
    return small + sorted(n for n in more if ALL_UP_TO < n < old)


def resized(problem: Shrinking, group: frozenset[Axis], old: int, new: int) -> Iterator[Draft]:
    """The draft at another size: the tensors cut or repeated, and size constants changed, or left as they are.

    First with all multiples of the old size scaled too: gates of recurrent layers and heads lie side by side.
    """
    scaled = problem.draft()
    found = False
    for held in (scaled.feeds, scaled.weights):
        for name, tensor in held.items() if old > 1 else ():
            if any(length > old and length % old == 0 for length in tensor.shape):
                found = True
            for axis, length in enumerate(tensor.shape):
                if length % old == 0 and length:
                    held[name] = _fitted(held[name], axis, length // old * new)
    if found:
        _change_constants(scaled, old, new, {name for name, _ in group})
        _fit_attributes(scaled)
        yield scaled
    for constants in (True, False):
        draft = problem.draft()
        for name, axis in group:
            held = draft.feeds if name in draft.feeds else draft.weights
            held[name] = _fitted(held[name], axis, new)
        changed = _change_constants(draft, old, new, {name for name, _ in group}) if constants else False
        _fit_attributes(draft)
        if changed or not constants:
            yield draft


def _size_readers(draft: Draft) -> list[tuple[NodeProto, int]]:
    return [(node, SHAPE_OPERATORS[node.op_type]) for node in draft.nodes if node.op_type in SHAPE_OPERATORS]


def _change_constants(draft: Draft, old: int, new: int, skip: set[str]) -> bool:
    """Sizes held in integer tensors and attributes; whether there were any."""
    changed = False
    for node, first in _size_readers(draft):
        for name in list(node.input)[first:]:
            tensor = draft.weights.get(name)
            if tensor is None or name in skip or tensor.elem_type != TensorProto.INT64:
                continue
            array = tensor.array
            lowered = np.where(array == old, new, array)
            multiple = (array > old) & (array % old == 0)
            lowered = np.where(multiple, array // old * new, lowered)
            if not np.array_equal(lowered, array):
                draft.weights[name] = StoredTensor.from_array(lowered)
                changed = True
    for node in draft.nodes:
        for attribute in node.attribute:
            if attribute.name in SIZE_ATTRIBUTES and old in (attribute.i, *attribute.ints):
                attribute.i = new if attribute.i == old else attribute.i
                attribute.ints[:] = [new if length == old else length for length in attribute.ints]
                changed = True
    return changed


def _fit_attributes(draft: Draft) -> None:
    """Attributes that repeat a weight's shape."""
    for node in draft.nodes:
        weight = {**draft.feeds, **draft.weights}.get(node.input[1]) if len(node.input) > 1 else None
        for attribute in node.attribute:
            if attribute.name == "kernel_shape" and weight is not None:
                attribute.ints[:] = weight.shape[2:]


def _fitted(tensor: StoredTensor, axis: int, new: int) -> StoredTensor:
    """The tensor cut along an axis, or its content repeated."""
    at = np.arange(new) % tensor.shape[axis]
    return StoredTensor.from_array(np.ascontiguousarray(np.take(tensor.array, at, axis)))


def _known(problem: Shrinking) -> Mapping[str, StoredTensor]:
    return {**problem.values, **problem.draft().weights}
