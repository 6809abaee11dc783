"""Python source for each part of a model: `onnx.helper` calls where they say it all, protobuf constructors elsewhere.

The source evaluates to messages that `canonical.same_model` cannot tell from the originals.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, TensorProto

from onnxreduce.emit.canonical import stored
from onnxreduce.emit.layout import Expression, Group, call, listing, wrap
from onnxreduce.emit.literals import (
    MAX_LITERAL_SIZE,
    array_expression,
    element_type,
    float_text,
    identifier,
    number_list,
    quoted,
    quoted_bytes,
    strings,
)
from onnxreduce.graph.tensors import Blob, StoredTensor

NODE_WIDTH = 160
"""Nodes stay on one line up to this length: a list of nodes reads best with one a line."""

_TYPE_ATTRIBUTES = {"to", "dtype", "output_dtype", "stash_type"}
_NODE_ARGUMENTS = {"op_type", "inputs", "outputs", "name", "doc_string", "domain", "overload"}
_VALUE_FIELDS = {
    AttributeProto.INT: "i",
    AttributeProto.FLOAT: "f",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}


class ProtoWriter:
    """Turns the parts of one model into source; tensors too large for code are put aside in `data` by file name.

    `external` gives the content of tensors with external data, by location. All methods raise BadInputError when
    such content is missing or a tensor's content does not fit its shape.
    """

    def __init__(self, external: Mapping[str, Blob]) -> None:
        self.external = external
        self.data: dict[str, StoredTensor] = {}

    def tensor(self, proto: TensorProto) -> Expression:
        """A `TensorProto`; its documentation is left out."""
        typed = proto.data_location != TensorProto.EXTERNAL and not proto.HasField("raw_data")
        content = stored(proto, self.external)
        head = f"name={quoted(proto.name)}, data_type={element_type(proto.data_type)}, dims={list(proto.dims)}"
        if proto.data_type == TensorProto.STRING:
            if len(proto.string_data) <= MAX_LITERAL_SIZE or not _all_utf8(proto.string_data):
                return Group(f"TP({head}, string_data=[", tuple(map(repr, proto.string_data)), "])", filled=True)
            return self._aside(content, proto.name)
        if typed and isinstance(values := number_list(content), Group):
            arguments = f"{quoted(proto.name)}, {element_type(proto.data_type)}, {list(proto.dims)}, "
            return wrap(f"helper.make_tensor({arguments}", values, ")")
        array = array_expression(content)
        if array is not None:
            return wrap("numpy_helper.from_array(", array, f", {quoted(proto.name)})" if proto.name else ")")
        if content.size <= MAX_LITERAL_SIZE:
            return f'TP({head}, raw_data=bytes.fromhex("{bytes(content.blob.view()).hex()}"))'
        return self._aside(content, proto.name)

    def node(self, proto: onnx.NodeProto) -> Expression:
        """A `NodeProto`, on one line unless it holds subgraphs or long tensors."""
        usual = {"op_type", "input", "output", "name", "domain", "doc_string", "overload", "attribute"}
        names = [each.name for each in proto.attribute]
        values = {each.name: self._attribute_value(each) for each in proto.attribute}
        clash = len(values) != len(names) or _NODE_ARGUMENTS & set(names)
        if clash or None in values.values() or _fields(proto) - usual:
            return self.plain(proto)
        parts: list[Expression] = [f"{quoted(proto.op_type)}, {strings(proto.input)}, {strings(proto.output)}"]
        for field in ("name", "domain", "overload", "doc_string"):
            if text := getattr(proto, field):
                parts.append(f"{field}={quoted(text)}")
        spoken = {name: _can_be_keyword(name) for name in names}
        parts += [wrap(f"{name}=", value) for name, value in values.items() if value is not None and spoken[name]]
        odd = [
            wrap(f"{quoted(name)}: ", value) for name, value in values.items() if value is not None and not spoken[name]
        ]
        if odd:
            parts.append(Group("**{", tuple(odd), "}"))
        return call("helper.make_node", *parts, width=NODE_WIDTH)

    def attribute(self, proto: AttributeProto) -> Expression:
        """An `AttributeProto` that stands alone."""
        if not _usual_nans([proto.f, *proto.floats]):
            return f"onnx.AttributeProto.FromString({proto.SerializeToString()!r})"
        value = self._attribute_value(proto)
        return self.plain(proto) if value is None else call("helper.make_attribute", quoted(proto.name), value)

    def _attribute_value(self, proto: AttributeProto) -> Expression | None:
        """The value that `helper.make_attribute` turns into this attribute, if there is one."""
        field = _VALUE_FIELDS.get(proto.type, "")
        if _fields(proto) != {"name", "type", field} or not _usual_nans([proto.f, *proto.floats]):
            return None
        value = getattr(proto, field)
        if proto.type == AttributeProto.INT and proto.name in _TYPE_ATTRIBUTES and value > 0:
            return element_type(value)
        if proto.type == AttributeProto.STRING:
            return quoted_bytes(value)
        if proto.type == AttributeProto.STRINGS:
            return listing(map(quoted_bytes, value), filled=True)
        return self._value(value)

    def graph(self, proto: onnx.GraphProto, nodes: Expression | None = None) -> Expression:
        """A `GraphProto`; `nodes` stands for its nodes where they are written elsewhere."""
        nodes = listing(map(self.node, proto.node)) if nodes is None else nodes
        usual = {"name", "node", "input", "output", "initializer", "value_info", "sparse_initializer", "doc_string"}
        if _fields(proto) - usual:
            others = [self._field(name, getattr(proto, name)) for name in _ordered(proto) if name != "node"]
            return call("onnx.GraphProto", wrap("node=", nodes), *others)
        name = quoted(proto.name)
        parts: list[Expression] = [f"{nodes}, {name}"] if isinstance(nodes, str) else [nodes, name]
        parts.append(wrap("inputs=", listing(map(self.value_info, proto.input))))
        parts.append(wrap("outputs=", listing(map(self.value_info, proto.output))))
        if proto.initializer:
            parts.append(wrap("initializer=", listing(map(self.tensor, proto.initializer))))
        if proto.value_info:
            parts.append(wrap("value_info=", listing(map(self.value_info, proto.value_info))))
        if proto.sparse_initializer:
            parts.append(wrap("sparse_initializer=", listing(map(self.plain, proto.sparse_initializer))))
        if proto.doc_string:
            parts.append(f"doc_string={quoted(proto.doc_string)}")
        return call("helper.make_graph", *parts)

    def function(self, proto: onnx.FunctionProto) -> Expression:
        """A `FunctionProto`."""
        usual = {"name", "domain", "input", "output", "node", "opset_import", "attribute", "attribute_proto"}
        if _fields(proto) - usual:
            return self.plain(proto)
        names = f"{quoted(proto.domain)}, {quoted(proto.name)}, {strings(proto.input)}, {strings(proto.output)}"
        parts: list[Expression] = [names]
        parts += [listing(map(self.node, proto.node)), listing(map(self.opset, proto.opset_import))]
        if proto.attribute:
            parts.append(f"attributes={strings(proto.attribute)}")
        if proto.attribute_proto:
            parts.append(wrap("attribute_protos=", listing(map(self.attribute, proto.attribute_proto))))
        return call("helper.make_function", *parts)

    def opset(self, proto: onnx.OperatorSetIdProto) -> Expression:
        """An `OperatorSetIdProto`."""
        return f"helper.make_opsetid({quoted(proto.domain)}, {proto.version})"

    def value_info(self, proto: onnx.ValueInfoProto) -> Expression:
        """A `ValueInfoProto`."""
        if _fields(proto) != {"name", "type"}:
            return self.plain(proto)
        arguments = _tensor_type_arguments(proto.type)
        if arguments is None:
            return call("helper.make_value_info", quoted(proto.name), self.type(proto.type))
        return f"tensor_info({quoted(proto.name)}, {arguments})"

    def type(self, proto: onnx.TypeProto) -> Expression:
        """A `TypeProto`."""
        arguments = _tensor_type_arguments(proto)
        if arguments is not None:
            return f"helper.make_tensor_type_proto({arguments})"
        for kind in ("sequence", "optional"):
            if _fields(proto) == {f"{kind}_type"}:
                inner = getattr(proto, f"{kind}_type")
                if _fields(inner) == {"elem_type"}:
                    return wrap(f"helper.make_{kind}_type_proto(", self.type(inner.elem_type), ")")
        return self.plain(proto)

    def plain(self, proto: Message) -> Expression:
        """Any message by its constructor, field by field."""
        name = proto.DESCRIPTOR.full_name.split(".", 1)[1]
        return call(f"onnx.{name}", *(self._field(field, getattr(proto, field)) for field in _ordered(proto)))

    def _field(self, name: str, value: Any) -> Expression:
        if name == "type" and isinstance(value, int):
            return f"type=onnx.AttributeProto.{AttributeProto.AttributeType.Name(value)}"
        if name in ("elem_type", "data_type", "key_type") and isinstance(value, int):
            return f"{name}={element_type(value)}"
        return wrap(f"{name}=", self._value(value))

    def _value(self, value: Any) -> Expression:
        if isinstance(value, MutableSequence):
            plain = bool(value) and isinstance(value[0], (int, float, str, bytes))
            return listing(map(self._value, value), filled=plain)
        if isinstance(value, float):
            return float_text(value)
        if isinstance(value, (str, bytes)):
            return quoted(value)
        if isinstance(value, Message):
            writers: dict[type, Callable[[Any], Expression]] = {
                TensorProto: self.tensor,
                onnx.NodeProto: self.node,
                AttributeProto: self.attribute,
                onnx.GraphProto: self.graph,
                onnx.ValueInfoProto: self.value_info,
                onnx.TypeProto: self.type,
                onnx.FunctionProto: self.function,
            }
            return writers.get(type(value), self.plain)(value)
        return repr(value)

    def _aside(self, content: StoredTensor, name: str) -> str:
        file = f"weights/{len(self.data)}_{identifier(name)}.pb"
        self.data[file] = content
        return f"stored({quoted(file)}, {quoted(name)})"


def _tensor_type_arguments(proto: onnx.TypeProto) -> str | None:
    """Element type and shape as `helper` takes them, or None when they do not say all of the type."""
    tensor = proto.tensor_type
    if _fields(proto) != {"tensor_type"} or not _fields(tensor) <= {"elem_type", "shape"} or not tensor.elem_type:
        return None
    if not tensor.HasField("shape"):
        return f"{element_type(tensor.elem_type)}, None"
    dims = []
    for dim in tensor.shape.dim:
        if dim.HasField("denotation") or (dim.WhichOneof("value") == "dim_param" and not dim.dim_param):
            return None
        dims.append(
            {"dim_value": str(dim.dim_value), "dim_param": quoted(dim.dim_param)}.get(dim.WhichOneof("value"), "None")
        )
    return f"{element_type(tensor.elem_type)}, [{', '.join(dims)}]"


def _can_be_keyword(name: str) -> bool:
    """Whether Python passes an argument on under just this name; it normalises other letters than ASCII's."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _ordered(proto: Message) -> list[str]:
    return [field.name for field, _ in proto.ListFields()]


def _fields(proto: Message) -> set[str]:
    """Names of the fields that are set; empty strings do not count, but for an attribute's value."""
    ignore_empty = not isinstance(proto, AttributeProto)
    return {field.name for field, value in proto.ListFields() if not (ignore_empty and value == "")}


def _all_utf8(texts: Iterable[bytes]) -> bool:
    try:
        return all(text.decode() is not None for text in texts)
    except UnicodeDecodeError:
        return False


def _usual_nans(values: Iterable[float]) -> bool:
    """Whether every NaN among float32 values has the bits of `np.nan`, which literals cannot tell apart."""
    odd = np.array([value for value in values if value != value], np.float32)
    return bool((odd.view(np.uint32) == np.float32(np.nan).view(np.uint32)).all())
