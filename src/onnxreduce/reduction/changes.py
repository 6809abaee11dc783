"""What shrinking changed in kind, in words: a reader must know when operators, types or opset are not the model's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import TensorProto

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights
from onnxreduce.graph.tensors import StoredTensor


def changes(before: Candidate, after: Candidate) -> dict[str, str]:
    """By kind: operators, element types, opset, IR version, numbers of elements, values and order.

    Kinds that did not change are left out; order is told where the operators are the same.
    """
    old, new = before.model.proto, after.model.proto
    pairs = {
        "operators": (_operators(before), _operators(after)),
        "dtype": (_dtypes(before), _dtypes(after)),
        "opset": (
            ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in old.opset_import),
            ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in new.opset_import),
        ),
        "ir_version": (str(old.ir_version), str(new.ir_version)),
        "elements of inputs and initializers": (str(_elements(before)), str(_elements(after))),
    }
    found = {kind: f"{was} → {now}" for kind, (was, now) in pairs.items() if was != now}
    was, now = ([node.op_type for node in proto.graph.node] for proto in (old, new))
    if was != now and sorted(was) == sorted(now):
        found["order"] = f"{', '.join(was)} → {', '.join(now)}"
    same = [name for name in after.feeds if name in before.feeds]
    if any(not _same(before.feeds[name], after.feeds[name]) for name in same) or len(same) < len(after.feeds):
        found["values"] = "inputs are no longer the recorded ones"
    return found


def _operators(candidate: Candidate) -> str:
    counts = Counter(node.op_type for node in candidate.model.proto.graph.node)
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in sorted(counts.items()))


def _dtypes(candidate: Candidate) -> str:
    kinds = {tensor.elem_type for tensor in _data(candidate)}
    return ", ".join(sorted(TensorProto.DataType.Name(kind).lower() for kind in kinds))


def _elements(candidate: Candidate) -> int:
    return sum(tensor.size for tensor in _data(candidate))


def _data(candidate: Candidate) -> Iterable[StoredTensor]:
    return [*candidate.feeds.values(), *weights(candidate).values()]


def _same(left: StoredTensor, right: StoredTensor) -> bool:
    return left.shape == right.shape and left.blob.digest == right.blob.digest
