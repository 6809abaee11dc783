"""Builder scripts: what they build is what was judged, whatever the model holds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from onnxreduce.emit.canonical import fingerprint, same_model
from onnxreduce.emit.script import Script, builder_script
from onnxreduce.graph.tensors import Blob, StoredTensor

Execute = Callable[[Script], dict[str, Any]]

HOSTILE = [
    '"""\nimport os\nos.system("true")\n"""',
    "'); __import__('os').abort(); ('",
    '"); __import__("os").abort(); ("',
    "\\",
    "a\nb\r\x00\u2028\u202e",
    "{0} {x} %s ${y}",
    "# -*- coding: utf-7 -*-",
    "TP helper numpy_helper HERE tensor_info(",
    "",
    "/model/layers.0/self_attn/q_proj/MatMul",
    "日本語",
]
NAMES = st.sampled_from([*HOSTILE, "x", "y", "w"]) | st.text(max_size=5)
FLOATS = st.floats(width=32, allow_nan=False) | st.sampled_from([float("nan"), 0.1, -0.0])


def names_and_calls(text: str) -> tuple[set[str], set[str]]:
    """Every bare name and every attribute that a script speaks of."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names, {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@st.composite
def tensors(draw: st.DrawFn) -> TensorProto:
    """Tensors of every element type with arbitrary bits, as raw or as typed data."""
    number = draw(st.sampled_from([number for number in TensorProto.DataType.values() if number]))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = int(np.prod(shape, dtype=int))
    name = draw(NAMES)
    if number == TensorProto.STRING:
        strings = draw(
            st.lists(st.binary(max_size=4) | st.text(max_size=4).map(str.encode), min_size=size, max_size=size)
        )
        return TensorProto(name=name, data_type=number, dims=shape, string_data=strings)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    content = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
    array = np.frombuffer(content, dtype).reshape(shape)
    if dtype.kind == "b" or dtype.isbuiltin != 1:
        array = np.frombuffer(content, np.uint8)[:size].reshape(shape).astype(np.float32).astype(dtype)
    if dtype.isbuiltin == 1 and dtype.kind in "iub" and draw(st.booleans()):
        return helper.make_tensor(name, number, shape, array)
    return numpy_helper.from_array(array, name)


@st.composite
def value_infos(draw: st.DrawFn) -> onnx.ValueInfoProto:
    """Tensors with every kind of dimension, sequences, optionals, maps, and values without a type."""
    name = draw(NAMES)
    dims = st.none() | st.integers(0, 9) | st.sampled_from(["batch", "a\n'\"", ""])
    elem_type = draw(st.sampled_from([number for number in TensorProto.DataType.values() if number]))
    tensor = helper.make_tensor_type_proto(elem_type, draw(st.none() | st.lists(dims, max_size=3)))
    value = onnx.ValueInfoProto(name=name, type=tensor)
    kind = draw(st.sampled_from(["tensor"] * 4 + ["sequence", "optional", "map", "none", "documented"]))
    if kind == "sequence":
        value.type.CopyFrom(helper.make_sequence_type_proto(tensor))
    elif kind == "optional":
        value.type.CopyFrom(helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)))
    elif kind == "map":
        value.type.CopyFrom(helper.make_map_type_proto(TensorProto.STRING, tensor))
    elif kind == "none":
        value.ClearField("type")
    elif kind == "documented":
        value.doc_string = draw(NAMES)
        value.type.denotation = "IMAGE"
    return value


@st.composite
def attributes(draw: st.DrawFn, depth: int) -> AttributeProto:
    """Attributes of every type, empty lists and references to a function's attributes among them."""
    name = draw(
        st.sampled_from(["to", "axis", "name", "domain", "op_type", "class", "a-b", "µ", "value", "dtype"]) | NAMES
    )
    values = {
        AttributeProto.INT: st.integers(-(2**63), 2**63 - 1),
        AttributeProto.FLOAT: FLOATS,
        AttributeProto.STRING: st.binary(max_size=5) | NAMES.map(str.encode),
        AttributeProto.TENSOR: tensors(),
        AttributeProto.TYPE_PROTO: value_infos().map(lambda value: value.type),
    }
    if depth:
        values[AttributeProto.GRAPH] = graphs(depth - 1)
    kind = draw(st.sampled_from(sorted(values)))
    field = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 13: "tp"}[kind]
    plural = {1: "floats", 2: "ints", 3: "strings", 4: "tensors", 5: "graphs", 13: "type_protos"}[kind]
    listed = {1: 6, 2: 7, 3: 8, 4: 9, 5: 10, 13: 14}[kind]
    choice = draw(st.integers(0, 9))
    if choice == 0:
        return AttributeProto(name=name, type=kind, ref_attr_name=draw(NAMES))
    if choice < 4:
        return AttributeProto(name=name, type=listed, **{plural: draw(st.lists(values[kind], max_size=3))})
    return AttributeProto(name=name, type=kind, **{field: draw(values[kind])})


@st.composite
def nodes(draw: st.DrawFn, depth: int) -> onnx.NodeProto:
    node = onnx.NodeProto(op_type=draw(NAMES), input=draw(st.lists(NAMES, max_size=3)), output=draw(st.lists(NAMES)))
    node.attribute.extend(draw(st.lists(attributes(depth), max_size=2)))
    for field in draw(st.sets(st.sampled_from(["name", "domain", "doc_string", "overload"]), max_size=2)):
        setattr(node, field, draw(NAMES))
    if draw(st.integers(0, 9)) == 0:
        node.metadata_props.add(key=draw(NAMES), value=draw(NAMES))
    return node


@st.composite
def graphs(draw: st.DrawFn, depth: int) -> onnx.GraphProto:
    graph = onnx.GraphProto(name=draw(NAMES))
    graph.node.extend(draw(st.lists(nodes(depth), max_size=3)))
    graph.input.extend(draw(st.lists(value_infos(), max_size=2)))
    graph.output.extend(draw(st.lists(value_infos(), max_size=2)))
    graph.value_info.extend(draw(st.lists(value_infos(), max_size=1)))
    graph.initializer.extend(draw(st.lists(tensors(), max_size=2)))
    if draw(st.integers(0, 9)) == 0:
        values, indices = (
            numpy_helper.from_array(np.array([1.5], np.float32), "s"),
            numpy_helper.from_array(np.array([2])),
        )
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [5]))
        graph.metadata_props.add(key=draw(NAMES), value=draw(NAMES))
        graph.doc_string = draw(NAMES)
    return graph


@st.composite
def models(draw: st.DrawFn) -> onnx.ModelProto:
    model = onnx.ModelProto(ir_version=draw(st.integers(3, 11)), graph=draw(graphs(2)))
    for domain in draw(st.lists(NAMES, max_size=2)):
        model.opset_import.append(helper.make_opsetid(domain, draw(st.integers(1, 23))))
    if draw(st.booleans()):
        model.producer_name, model.doc_string, model.model_version = draw(NAMES), draw(NAMES), draw(st.integers(0, 9))
    if draw(st.integers(0, 4)) == 0:
        function = model.functions.add(name=draw(NAMES), domain=draw(NAMES), input=["x"], output=["y"], attribute=["a"])
        function.node.append(draw(nodes(0)))
        function.attribute_proto.extend(draw(st.lists(attributes(0), max_size=2)))
        function.opset_import.append(helper.make_opsetid("", 18))
        model.metadata_props.add(key=draw(NAMES), value=draw(NAMES))
    return model


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(models(), st.lists(st.sampled_from(HOSTILE) | st.text()))
def test_any_model_is_built_again(execute: Execute, model: onnx.ModelProto, title: list[str]) -> None:
    script = builder_script(model, {}, title_lines=title)
    script.text.encode("utf-8", "surrogatepass")
    assert same_model(model, execute(script)["model"]())
    names, attributes = names_and_calls(script.text)
    assert not names & {"__import__", "os", "exec", "eval"} and not attributes & {"system", "abort"}


@pytest.mark.filterwarnings("ignore")
def test_every_operator_test_model_is_built_again(execute: Execute) -> None:
    differing = []
    for case in collect_testcases(None):
        if case.model is None:
            continue
        values = case.data_sets[0][0] if case.data_sets else []
        arrays = zip(case.model.graph.input, values, strict=False)
        inputs = {each.name: tensor for each, value in arrays if (tensor := as_tensor(value)) is not None}
        names = execute(builder_script(case.model, inputs, title_lines=[case.name]))
        made = {name: StoredTensor.from_array(array) for name, array in names["inputs"]().items()}
        same_inputs = {name: identity(each) for name, each in made.items()} == {
            n: identity(t) for n, t in inputs.items()
        }
        if not same_inputs or not same_model(case.model, names["model"]()):
            differing.append(case.name)
    assert not differing


def as_tensor(value: object) -> StoredTensor | None:
    if isinstance(value, TensorProto):
        return StoredTensor.from_proto(value)
    return StoredTensor.from_array(value) if isinstance(value, (np.ndarray, np.generic)) else None


def identity(tensor: StoredTensor) -> tuple[int, tuple[int, ...], str]:
    return tensor.elem_type, tensor.shape, tensor.blob.digest


def founding_model() -> onnx.ModelProto:
    timescale = (10000.0 ** ((2.0 / 64) * np.arange(32, dtype=np.float32))).reshape(1, 1, 32)
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["u"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Div", ["f", "ts"], ["D"]),
            helper.make_node("ReduceMean", ["pw", "axes"], ["mn"], keepdims=1),
            helper.make_node("Add", ["mn", "eps"], ["ad"]),
        ],
        "founding",
        [
            helper.make_tensor_value_info("u", TensorProto.INT64, [1, 194, 1]),
            helper.make_tensor_value_info("pw", TensorProto.FLOAT, [1, 194, 960]),
        ],
        [
            helper.make_tensor_value_info("D", TensorProto.FLOAT, [1, 194, 32]),
            helper.make_tensor_value_info("ad", TensorProto.FLOAT, [1, 194, 1]),
        ],
        [
            numpy_helper.from_array(timescale.astype(np.float32), "ts"),
            numpy_helper.from_array(np.array([-1]), "axes"),
            numpy_helper.from_array(np.array(1e-6, np.float32), "eps"),
        ],
    )
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def test_the_founding_fault_reads_well(execute: Execute) -> None:
    model = founding_model()
    squares = np.random.default_rng(0).uniform(-100, 100, (1, 194, 960)).astype(np.float32) ** 2
    positions = np.arange(194).reshape(1, 194, 1)
    inputs = {"pw": StoredTensor.from_array(squares), "u": StoredTensor.from_array(positions)}
    script = builder_script(model, inputs, title_lines=["ort-web@1.27.0/webgpu computes D wrongly.", "4 nodes."])
    lines = script.text.splitlines()
    assert len(lines) < 60 and max(map(len, lines)) <= 120
    assert '        helper.make_node("Cast", ["u"], ["f"], to=TP.FLOAT),' in lines
    assert '        "u": np.arange(194, dtype=np.int64).reshape(1, 194, 1),' in lines
    assert "onnx.checker.check_model(model())" in script.text and list(script.data) == ["test_data_set_0/input_1.pb"]
    names = execute(script)
    assert names["model"]().SerializeToString() == model.SerializeToString()
    assert list(names["inputs"]()) == ["u", "pw"]
    assert names["inputs"]()["pw"].tobytes() == squares.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "", "日本"], object),
        np.array([["word"] * 40] * 2, object),
        np.zeros((0,), object),
        np.array(1.5, ml_dtypes.bfloat16),
        np.array([1, -2, 3], ml_dtypes.int4),
        np.linspace(-1, 1, 99).astype(ml_dtypes.float8_e4m3fn),
        np.array([[True, False]]),
        np.zeros((2, 0), np.int8),
        np.array([1 + 2j, np.nan], np.complex64),
    ],
)
def test_inputs_come_back(execute: Execute, array: np.ndarray) -> None:
    tensor = StoredTensor.from_array(array)
    graph = helper.make_graph([], "g", [helper.make_tensor_value_info("x", tensor.elem_type, array.shape)], [])
    made = execute(builder_script(helper.make_model(graph), {"x": tensor}, title_lines=[]))["inputs"]()["x"]
    assert identity(StoredTensor.from_array(made)) == identity(tensor)


def test_large_tensors_lie_beside_the_script(execute: Execute) -> None:
    noise = np.random.default_rng(0).uniform(size=(9, 9)).astype(np.float32)
    weight, blob = numpy_helper.from_array(noise, "../w"), Blob.from_bytes(noise.tobytes())
    far = TensorProto(name="far", data_type=1, dims=[9, 9], data_location=TensorProto.EXTERNAL)
    far.external_data.add(key="location", value=blob.digest)
    body = helper.make_graph([helper.make_node("Add", ["../w", "far"], ["y"])], "body", [], [], [weight])
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)], "g", [], [], [far]
    )
    model, external = helper.make_model(graph), {blob.digest: blob}
    script = builder_script(model, {}, title_lines=[], external=external)
    assert list(script.data) == ["weights/0_w.pb", "weights/1_w.pb", "weights/2_far.pb"]
    assert same_model(model, execute(script)["model"](), external)


def test_a_model_that_the_checker_refuses_is_built_all_the_same(execute: Execute) -> None:
    model = founding_model()
    model.graph.node[1].op_type = "Div\n2"
    script = builder_script(model, {}, title_lines=[])
    assert "# not checked: " in script.text
    assert same_model(model, execute(script)["model"]())


def test_what_counts_in_a_comparison() -> None:
    model = founding_model()
    for change in ("order", "value", "name"):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        if change == "order":
            del other.graph.node[:]
            other.graph.node.extend(list(model.graph.node)[::-1])
        elif change == "value":
            other.graph.initializer[2].raw_data = np.float32(1e-5).tobytes()
        else:
            other.graph.node[0].name = "cast"
        assert not same_model(model, other)
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    typed.graph.initializer[2].CopyFrom(helper.make_tensor("eps", TensorProto.FLOAT, [], [1e-6]))
    assert same_model(model, typed) and fingerprint(model.graph) == fingerprint(typed.graph)
