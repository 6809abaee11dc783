"""Find sizes for dynamic dimensions: from tensors that were given, from `--dim`, from other dimensions, by default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx

from onnxreduce.errors import BadInputError
from onnxreduce.graph.tensors import StoredTensor

DEFAULT_BATCH = 1
DEFAULT_CHANNELS = 3
DEFAULT_SPATIAL = 64
"""Height and width of images: the least multiple of 32, the stride of most vision models, that is not degenerate."""
DEFAULT_SIZE = 8
"""All others, sequence lengths above all: long enough to show a fault, short enough for a software adapter."""

_TERM = re.compile(r"\s*([+-])?\s*([^+\-*/()\s]+(?:\s*\*\s*[^+\-*/()\s]+)*)")


class Dimensions:
    """Sizes of dynamic dimensions, by symbolic name or by `INPUT:AXIS` where the model names none."""

    def __init__(self, inputs: Sequence[onnx.ValueInfoProto], dims: Mapping[str, int]) -> None:
        """`dims` are the sizes chosen by the user; raises BadInputError for one that the model does not have."""
        self._sizes: dict[str, int] = {}
        self._sources: dict[str, str] = {}
        self.notes: list[str] = []
        keys = {key: None for each in inputs for key in _keys(each) if isinstance(key, str)}
        axes = {f"{each.name}:{axis}": key for each in inputs for axis, key in enumerate(_keys(each))}
        self._known = list(keys)
        for name, size in dims.items():
            key = name if name in keys or _is_part(name, keys) else axes.get(name)
            if key is None:
                known = ", ".join(keys) or "none"
                raise BadInputError(f"--dim {name!r}: the model has no such dynamic dimension (it has: {known})")
            if isinstance(key, int):
                raise BadInputError(f"--dim {name!r}: the model fixes this dimension at {key}")
            self._bind(key, size, "--dim")

    def take(self, value: onnx.ValueInfoProto, tensor: StoredTensor) -> None:
        """Learn from a tensor that was given; raises BadInputError when it does not fit the model or other tensors."""
        keys = _keys(value)
        if not value.type.tensor_type.HasField("shape"):
            return
        if len(keys) != len(tensor.shape):
            raise BadInputError(
                f"input {value.name!r} takes {len(keys)} dimensions ({_shape_text(value)}), not {list(tensor.shape)}"
            )
        for axis, (key, size) in enumerate(zip(keys, tensor.shape, strict=True)):
            if isinstance(key, str):
                self._bind(key, size, f"input {value.name!r}")
            elif key != size:
                wanted = _shape_text(value)
                raise BadInputError(
                    f"input {value.name!r} takes shape {wanted}, not {list(tensor.shape)} (axis {axis})"
                )

    def shape(self, value: onnx.ValueInfoProto) -> tuple[int, ...]:
        """Sizes for all dimensions of an input that was not given; defaults are chosen and noted here."""
        if not value.type.tensor_type.HasField("shape"):
            raise BadInputError(f"input {value.name!r} has no shape in the model, so it must be given")
        keys = _keys(value)
        return tuple(key if isinstance(key, int) else self._size(key, value, axis) for axis, key in enumerate(keys))

    def _bind(self, key: str, size: int, source: str) -> None:
        if self._sizes.setdefault(key, size) != size:
            raise BadInputError(
                f"dimension {key!r} is {self._sizes[key]} by {self._sources[key]} and {size} by {source}"
            )
        self._sources.setdefault(key, source)

    def _size(self, key: str, value: onnx.ValueInfoProto, axis: int) -> int:
        if key in self._sizes:
            return self._sizes[key]
        size = self._derived(key, value, axis)
        if size is None:
            size = _default(key, axis, len(value.type.tensor_type.shape.dim))
            where = "" if key.startswith(f"{value.name}:") else f" (input {value.name!r}, axis {axis})"
            self.notes.append(f"dimension {key!r}{where} set to {size} by default; choose with --dim {key}=N")
            self._bind(key, size, "default")
        return size

    def _derived(self, key: str, value: onnx.ValueInfoProto, axis: int) -> int | None:
        """A size that follows from others: a sum or product of names, or a total of past and new tokens."""
        terms = _terms(key)
        if terms is None and re.fullmatch(r"total_(seq|sequence)_(len|length)", key):
            parts = [name for name in self._known if re.search(r"seq", name) and name != key and _terms(name) is None]
            past = [name for name in parts if name.startswith("past_")]
            new = (
                [name for name in parts if name in (past[0].removeprefix("past_"), "sequence_length", "seq_len")]
                if past
                else []
            )
            terms = [(1, [past[0]]), (1, [new[0]])] if new else None
        if terms is None:
            return None
        total = 0
        for sign, factors in terms:
            product = sign
            for factor in factors:
                product *= int(factor) if factor.isdigit() else self._size(factor, value, axis)
            total += product
        if total < 0:
            raise BadInputError(f"dimension {key!r} comes out as {total}; choose with --dim")
        self._bind(key, total, "other dimensions")
        return total


def _keys(value: onnx.ValueInfoProto) -> list[int | str]:
    """Each dimension's size, or the name under which its size is looked up."""
    keys: list[int | str] = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        keys.append(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}:{axis}")
    return keys


def _terms(key: str) -> list[tuple[int, list[str]]] | None:
    """`past_sequence_length + 1` as signed products of names and numbers; None for a plain name or anything else."""
    terms, position = [], 0
    while match := _TERM.match(key, position):
        if position and not match[1]:
            return None
        terms.append((-1 if match[1] == "-" else 1, [factor.strip() for factor in match[2].split("*")]))
        position = match.end()
    whole = position == len(key.rstrip()) and (len(terms) > 1 or any(len(factors) > 1 for _, factors in terms))
    return terms if whole else None


def _is_part(name: str, keys: Mapping[str, None]) -> bool:
    return any(name in factors for key in keys for _, factors in _terms(key) or [])


def _default(key: str, axis: int, rank: int) -> int:
    name = key.lower()
    if re.search(r"seq|tok|len|time|past|frames", name):
        return DEFAULT_SIZE
    if axis == 0 or "batch" in name:
        return DEFAULT_BATCH
    if rank == 4:
        return DEFAULT_CHANNELS if axis == 1 else DEFAULT_SPATIAL
    if re.search(r"height|width", name):
        return DEFAULT_SPATIAL
    return DEFAULT_SIZE


def _shape_text(value: onnx.ValueInfoProto) -> str:
    return "[" + ", ".join(str(key) for key in _keys(value)) + "]"
