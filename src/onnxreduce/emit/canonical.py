"""Compare models by all that counts, so that what a script builds can be held against what was judged.

What does not count: which field of a `TensorProto` carries its content (inline typed data, raw data, an external
file) and the tensor's own documentation; the order of a node's attributes; empty strings against absent ones.
Everything else counts, names and node order above all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, MutableSequence

import onnx
from google.protobuf.message import Message
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_files import checked_tensor
from onnxreduce.graph.tensors import Blob, StoredTensor


def same_model(first: onnx.ModelProto, second: onnx.ModelProto, external: Mapping[str, Blob] | None = None) -> bool:
    """Whether two models are the same in all that counts.

    `external` gives the content of tensors with external data, by location, for both. Raises BadInputError when one
    is missing there or a tensor's content does not fit its shape.
    """
    return fingerprint(first, external) == fingerprint(second, external)


def fingerprint(message: Message, external: Mapping[str, Blob] | None = None) -> bytes:
    """A digest (16 bytes) over all that counts in a model or a part of one; same arguments as `same_model`."""
    copy = type(message)()
    copy.CopyFrom(message)
    _digest_tensors(copy, external or {})
    for part in _messages(copy):
        _drop_what_does_not_count(part)
    return hashlib.blake2b(copy.SerializeToString(deterministic=True), digest_size=16).digest()


def tensors(message: Message) -> Iterator[TensorProto]:
    """Every tensor in a model or a part of one, subgraphs and functions included."""
    return (part for part in _messages(message) if isinstance(part, TensorProto))


def stored(proto: TensorProto, external: Mapping[str, Blob]) -> StoredTensor:
    """A model's tensor by reference, whichever way its content is kept.

    Raises BadInputError when external content is missing in `external` or the content does not fit type and shape.
    """
    if proto.data_location == TensorProto.EXTERNAL:
        location = next((entry.value for entry in proto.external_data if entry.key == "location"), "")
        if location not in external:
            raise BadInputError(f"the content of tensor {proto.name!r} lies in {location!r}, which was not given")
        return StoredTensor(proto.data_type, tuple(proto.dims), external[location])
    return checked_tensor(proto, f"tensor {proto.name!r}")


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if isinstance(value, MutableSequence) else [value]:
                yield from _messages(item)


def _digest_tensors(message: Message, external: Mapping[str, Blob]) -> None:
    for tensor in tensors(message):
        if tensor.data_type == TensorProto.STRING:
            content = TensorProto(string_data=tensor.string_data)
        else:
            content = TensorProto(raw_data=stored(tensor, external).blob.digest.encode())
        named = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        named.MergeFrom(content)
        tensor.CopyFrom(named)


def _drop_what_does_not_count(message: Message) -> None:
    for field, value in message.ListFields():
        if value == "" and field.containing_oneof is None:
            message.ClearField(field.name)
    if isinstance(message, onnx.NodeProto):
        attributes = sorted(message.attribute, key=lambda each: str(each.name))
        kept = [onnx.AttributeProto.FromString(each.SerializeToString()) for each in attributes]
        message.ClearField("attribute")
        message.attribute.extend(kept)
