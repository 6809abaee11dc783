"""The builder script: readable Python that makes a model again, with nothing but onnx and numpy.

A maintainer reads it first and runs it second, so it is written the way one writes such a script by hand: one line a
node, `onnx.helper` calls, numbers as numbers. What is too large for code lies in files beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from onnxreduce.emit.canonical import stored, tensors
from onnxreduce.emit.layout import Expression, Group, call, listing, render, wrap
from onnxreduce.emit.literals import (
    MAX_LITERAL_SIZE,
    array_expression,
    element_type,
    numpy_native,
    quoted,
    string_array,
)
from onnxreduce.emit.protos import ProtoWriter
from onnxreduce.graph.input_files import feed_names
from onnxreduce.graph.model import Model
from onnxreduce.graph.tensors import Blob, StoredTensor

SHORT_INPUTS = 110
"""Columns up to which the inputs stand on one line."""
MAX_INLINE_BYTES = 1 << 30
"""Models with more tensor content than this are saved with external data; protobuf itself ends at 2 GiB."""

_STORED = """
def stored(file, name):
    tensor = onnx.load_tensor(HERE / file)
    tensor.name = name
    return tensor
"""

_SAVE_LARGE = """
    Path("model.onnx.data").unlink(missing_ok=True)
    onnx.save({made}, "model.onnx", save_as_external_data=True, location="model.onnx.data")
    onnx.checker.check_model("model.onnx")
"""


@dataclass(frozen=True)
class Script:
    """A builder script and what it reads: `data` holds tensors by path relative to the script, as `TensorProto` files.

    Paths are `weights/...pb` for tensors of the model and `test_data_set_0/input_N.pb` for inputs.
    """

    text: str
    data: Mapping[str, StoredTensor]


def builder_script(
    model: onnx.ModelProto,
    inputs: Mapping[str, StoredTensor],
    *,
    title_lines: Sequence[str],
    external: Mapping[str, Blob] | None = None,
) -> Script:
    """Write the script that builds `model` and `inputs` again.

    `title_lines` open the script's docstring. `external` gives the content of tensors with external data, by
    location; the script's model has all of it inline. Documentation and metadata of nodes are written out like all
    else, so strip them first where they are noise. Raises BadInputError when the content of a tensor is missing or
    does not fit its shape.
    """
    external = external or {}
    writer = ProtoWriter(external)
    function = _model_function(model, writer)
    values, input_data = _inputs_function(model, inputs)
    main = f'if __name__ == "__main__":\n{main_part(model, inputs, external)}'
    helpers = [_STORED] if writer.data else []
    body = "\n\n".join(part.strip("\n") for part in [*helpers, function, values, main]) + "\n"
    return Script(_head(title_lines, body) + "\n" + body, {**writer.data, **input_data})


def _head(title_lines: Sequence[str], body: str) -> str:
    usage = "`python build_repro.py` (with onnx and numpy) writes model.onnx and inputs.npz here."
    title = [docstring_line(line) for text in title_lines for line in text.splitlines() or [""]]
    lines = ['"""' + "\n".join([*title, usage]), '"""'] if title else [f'"""{usage}"""']
    if re.search(r"\b(HERE|Path)\b", body):
        lines += ["from pathlib import Path", ""]
    lines += ["import numpy as np", "import onnx"]
    names = {"TensorProto as TP": r"\bTP\b", "helper": r"\bhelper\b", "numpy_helper": r"\bnumpy_helper\b"}
    used = ", ".join(name for name, pattern in names.items() if re.search(pattern, body) or name == "helper")
    lines.append(f"from onnx import {used}")
    if "tensor_info(" in body:
        lines.append("from onnx.helper import make_tensor_value_info as tensor_info")
    if "HERE" in body:
        lines += ["", "HERE = Path(__file__).resolve().parent"]
    return "\n".join(lines).rstrip("\n") + "\n"


def docstring_line(text: str) -> str:
    """One line of text that cannot end the docstring around it."""
    plain = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text.replace("\\", "\\\\"))
    return plain.replace('"""', '\\"\\"\\"').rstrip()


def _model_function(model: onnx.ModelProto, writer: ProtoWriter) -> str:
    nodes = Group("[", tuple(map(writer.node, model.graph.node)), "]", width=0)
    graph = writer.graph(model.graph, nodes="nodes")
    usual = ["producer_name", "producer_version", "domain", "model_version", "doc_string"]
    parts: list[Expression] = [f"graph, ir_version={model.ir_version}"]
    parts.append(wrap("opset_imports=", listing(map(writer.opset, model.opset_import))))
    if model.functions:
        parts.append(wrap("functions=", listing(map(writer.function, model.functions))))
    parts += [f"{field}={_scalar(getattr(model, field))}" for field in usual if model.HasField(field)]
    made = call("helper.make_model", *parts)
    lines = [f"nodes = {render(nodes, 4)}", f"graph = {render(graph, 4, 12)}"]
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    for field in ("ir_version", "opset_import", "functions", "graph", *usual):
        rest.ClearField(field)
    if rest.ListFields():
        lines.append(f"made = {render(made, 4, 11)}")
        lines.append(f"made.MergeFrom({render(writer.plain(rest), 4, 19)})")
        lines.append("return made")
    else:
        lines.append(f"return {render(made, 4, 11)}")
    return "def model():\n" + "\n".join(f"    {line}" for line in lines)


def _inputs_function(model: onnx.ModelProto, inputs: Mapping[str, StoredTensor]) -> tuple[str, dict[str, StoredTensor]]:
    """Source of `inputs()` and the tensors that it reads from files."""
    entries, data = [], {}
    for position, name in enumerate(feed_names(model, inputs)):
        value = input_value(inputs[name])
        if value is None:
            file = f"test_data_set_0/input_{position}.pb"
            data[file] = inputs[name]
            value = stored_input(inputs[name], file)
        entries.append(wrap(f"{quoted(name)}: ", value))
    values = Group("{", tuple(entries), "}", width=SHORT_INPUTS if not data else 0)
    return f"def inputs():\n    return {render(values, 4)}", data


def _archive_arguments(names: Sequence[str], bound: bool) -> str:
    """How the script hands its inputs to `np.savez`: by keyword, or by position where an archive cannot name them."""
    safe = all(name.isprintable() and "\\" not in name and name not in ("file", "allow_pickle") for name in names)
    if bound:
        return "**values" if safe else "*(values[each.name] for each in made.graph.input if each.name in values)"
    return "**inputs()" if safe else "*inputs().values()"


def _scalar(value: str | int) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)


def input_value(tensor: StoredTensor) -> Expression | None:
    """An expression for an input's content; None where it belongs into a file."""
    if tensor.elem_type == onnx.TensorProto.STRING:
        texts = json.loads(bytes(tensor.blob.view()))
        return string_array(texts, tensor.shape, "str") if len(texts) <= MAX_LITERAL_SIZE else None
    if numpy_native(tensor.elem_type):
        return array_expression(tensor)
    if tensor.size > MAX_LITERAL_SIZE:
        return None
    content = f'bytes.fromhex("{bytes(tensor.blob.view()).hex()}")'
    fields = f"data_type={element_type(tensor.elem_type)}, dims={list(tensor.shape)}, raw_data={content}"
    return f"numpy_helper.to_array(TP({fields}))"


def stored_input(tensor: StoredTensor, file: str) -> str:
    """An expression that reads an input from a file beside the script."""
    text = f"numpy_helper.to_array(onnx.load_tensor(HERE / {quoted(file)}))"
    return f"{text}.astype(str)" if tensor.elem_type == onnx.TensorProto.STRING else text


def main_part(
    model: onnx.ModelProto, inputs: Mapping[str, StoredTensor], external: Mapping[str, Blob], *, bound: bool = False
) -> str:
    """The lines that check and save the model and its inputs; `bound`: they are called `made` and `values` already."""
    saved = _save(model, external, "made" if bound else "model()")
    values = _archive_arguments(feed_names(model, inputs), bound)
    return f'{saved}\n    np.savez("inputs.npz", {values})\n'


def _save(model: onnx.ModelProto, external: Mapping[str, Blob], made: str) -> str:
    if sum(stored(each, external).blob.length for each in tensors(model)) > MAX_INLINE_BYTES:
        return _SAVE_LARGE.strip("\n").format(made=made)
    check = f"onnx.checker.check_model({made})"
    try:
        onnx.checker.check_model(Model(model, external).with_weights_inside())
    except onnx.checker.ValidationError as error:
        reason = docstring_line((str(error).strip().splitlines() or [""])[0])
        check = f"# not checked: onnx.checker refuses the model ({reason})"
    return f'    {check}\n    onnx.save({made}, "model.onnx")'
