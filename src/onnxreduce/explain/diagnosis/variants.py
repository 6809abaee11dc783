"""The same candidate with other inputs, so that hypotheses meet numbers that tell them apart.

Reduced models have inputs of ones, or of one element: there almost every hypothesis holds. A variant has other content,
more elements, or one operator exchanged, and the nodes, their order and the names of all values as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from onnx import NodeProto, helper

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.input_values import generator
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import MASK_MAGNITUDE

Change = Callable[[Draft], None]

SMALL = 1e-3
"""One variant has inputs of no larger magnitude than this: then constants such as an epsilon show."""
GROWN = 7
_WIDE_INTEGERS = (1, 100)
_MOST_OPERATORS = 3
_EXCHANGED = {"Neg": "LeakyRelu", "Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul"}
_UNARY = ("Neg", "Abs", "Relu", "Identity", "Sqrt", "Exp", "Tanh", "Sigmoid", "Reciprocal", "Log", "Erf", "Floor")


def steps(candidate: Candidate, *, grow: bool) -> Iterator[list[Candidate]]:
    """Alternatives to try until one shows the fault, step by step; what cannot run is among them."""
    changes: list[list[Change]] = []
    if grow:
        changes.append([partial(_grown, axes) for axes in ("shortest", "last", "first")])
    kinds = ("wide", "within", "as they are")
    changes.append([partial(_other_content, seed=1, integers=kind) for kind in kinds])
    changes.append([partial(_other_content, seed=2, integers=kind, most=SMALL) for kind in kinds[1:]])
    changes.append([partial(_other_content, seed=3, integers=kind) for kind in kinds[1:]])
    for alternatives in changes:
        yield [_changed(candidate, change) for change in alternatives]


def exchanged_operators(candidate: Candidate, output: str) -> Iterator[Candidate]:
    """Another operator in place of one plain one at a time: the output's own first, then those before it."""
    draft = Draft(candidate)
    producers = {name: at for at, node in enumerate(draft.nodes) for name in node.output}
    near, found = [output], dict[int, None]()
    while near:
        places = [producers[name] for name in near if name in producers and producers[name] not in found]
        found.update(dict.fromkeys(places))
        near = [name for at in places for name in draft.nodes[at].input]
    fitting = [at for at in found if _exchange(draft.nodes[at])]
    for at in fitting[:_MOST_OPERATORS]:
        yield _changed(candidate, partial(_exchanged, at))


def _changed(candidate: Candidate, change: Change) -> Candidate:
    draft = Draft(candidate)
    change(draft)
    for output in draft.proto.graph.output:
        if output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    return draft.candidate()


def _exchange(node: NodeProto) -> bool:
    return not node.domain and (node.op_type in _UNARY or node.op_type in _EXCHANGED)


def _exchanged(at: int, draft: Draft) -> None:
    node = draft.nodes[at]
    other = _EXCHANGED.get(node.op_type, "Neg")
    exchanged = helper.make_node(other, list(node.input), list(node.output), node.name)
    if other == "LeakyRelu":
        exchanged.attribute.append(helper.make_attribute("alpha", 0.25))
    node.CopyFrom(exchanged)


def _other_content(draft: Draft, *, seed: int, integers: str, most: float | None = None) -> None:
    """All inputs, and initializers that are all one number: random within the range that they had."""
    for held in (draft.feeds, draft.weights):
        for name, tensor in held.items():
            if held is draft.weights and (tensor.size < 2 or not _is_fill(tensor.array)):
                continue
            array = _random(tensor.array, tensor.shape, integers, generator(seed, name))
            if array is not None:
                if most is not None and held is draft.feeds and array.dtype.kind == "f":
                    array = (array * (most / max(float(np.abs(array).max()), most))).astype(array.dtype)
                held[name] = StoredTensor.from_array(array)


def _grown(axes: str, draft: Draft) -> None:
    """Short axes of the inputs to GROWN: all of the least length, or the last or first axes of that length."""
    lengths = [length for tensor in draft.feeds.values() for length in tensor.shape]
    shortest = min(lengths, default=GROWN)
    for name, tensor in draft.feeds.items():
        shape = list(tensor.shape)
        for axis, length in enumerate(shape):
            chosen = {"shortest": True, "last": axis == len(shape) - 1, "first": axis == 0}[axes]
            if length == shortest < GROWN and chosen:
                shape[axis] = GROWN
        array = _random(tensor.array, tuple(shape), "wide", generator(0, name))
        if array is not None:
            draft.feeds[name] = StoredTensor.from_array(array)


def _random(array: np.ndarray, shape: tuple[int, ...], integers: str, rng: np.random.Generator) -> np.ndarray | None:
    """Random numbers in the range of an array, of another shape perhaps; None for what has no range to keep."""
    if not array.size or array.dtype.kind not in "fiu":
        return _stretched(array, shape) if array.size and array.dtype.kind in "b" else None
    if array.dtype.kind == "f":
        return _random_floats(array, shape, rng)
    low, high = int(array.min()), int(array.max())
    if integers == "as they are" and array.shape == shape:
        return None
    if low == high and integers == "wide":
        low, high = _WIDE_INTEGERS
    return rng.integers(low, high, shape, endpoint=True).astype(array.dtype)


def _random_floats(array: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray | None:
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all() or np.abs(wide).max() >= MASK_MAGNITUDE:
        return None
    low, high = float(wide.min()), float(wide.max())
    if low == high:
        low, high = sorted((0.5 * low, 1.5 * low)) if low else (-1.0, 1.0)
    return rng.uniform(low, high, shape).astype(array.dtype)


def _stretched(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.resize(array, shape)


def _is_fill(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool((array == array.ravel()[0]).all())
