"""Loading refuses with one clear line what cannot be used; normalising changes form and never meaning."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import subsets
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.model import Model, load, normalise
from onnxreduce.graph.weights import external_location

node, info = helper.make_node, helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def floats(name: str, *shape: int | str) -> ValueInfoProto:
    return info(name, FLOAT, shape)


def model(
    nodes: Iterable[NodeProto] = (),
    inputs: Iterable[ValueInfoProto] | None = None,
    outputs: Iterable[ValueInfoProto] | None = None,
    weights: Iterable[TensorProto] = (),
    ir_version: int = 8,
    opset: int = 17,
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes) or [node("Neg", ["x"], ["y"])],
        "g",
        [floats("x", 2)] if inputs is None else list(inputs),
        [floats("y", 2)] if outputs is None else list(outputs),
        list(weights),
    )
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])


def weight(name: str, size: int = 2000, value: float = 3) -> TensorProto:
    return numpy_helper.from_array(np.full(size, value, np.float32), name)


def run(proto: ModelProto, **inputs: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def one_line(error: pytest.ExceptionInfo[BadInputError]) -> str:
    text = str(error.value)
    assert text
    assert text.isprintable(), text
    assert len(text) < 1000
    return text


def refused(source: Path | ModelProto) -> str:
    """The one line with which a model is refused, at load or when it is normalised."""
    with pytest.raises(BadInputError) as error:
        normalise(load(source))
    return one_line(error)


# --- files ---


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"not a model",
        b"\x7fELF\x02\x01\x01\x00" * 9,
        b"PK\x03\x04" * 20,
        b'{"a": 1}',
        bytes(100),
        b"\xff" * 64,
    ],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert "m.onnx" in refused(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.onnx")
    assert "folder" in refused(tmp_path)
    assert "no regular file" in refused(Path("/dev/zero")) if Path("/dev/zero").exists() else True
    assert refused(tmp_path / "a\x00b")
    assert refused(tmp_path / ("a" * 300))
    assert refused(tmp_path / "line\nbreak.onnx")


def test_a_file_past_the_limit_of_protobuf_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 31)  # sparse: no bytes on disk
    assert "2 GiB" in refused(path)


def test_every_prefix_of_a_model_is_refused_or_is_the_whole_graph(tmp_path: Path) -> None:
    proto = model(
        [node("Add", ["x", "w"], ["a"], name="first"), node("Mine", ["a"], ["y"], domain="my")],
        weights=[numpy_helper.from_array(np.ones(2, np.float32), "w")],
    )
    proto.opset_import.append(helper.make_opsetid("my", 1))
    proto.functions.append(
        helper.make_function("my", "Mine", ["a"], ["b"], [node("Exp", ["a"], ["b"])], [helper.make_opsetid("", 17)])
    )
    proto.metadata_props.add(key="made", value="for a test")
    data = proto.SerializeToString()
    path = tmp_path / "m.onnx"
    accepted = []
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            loaded = load(path)
        except BadInputError as error:
            assert str(error).isprintable()
        else:
            accepted.append(length)
            assert loaded.proto.graph == load(proto).proto.graph
    assert all(len(data) - length < 150 for length in accepted), "only what follows the graph may be missing"


@pytest.mark.parametrize("name", ["founding/synth_depth3", "web/race_topk", "ops/layernorm_keepdims0"])
def test_every_prefix_of_a_real_file(name: str, tmp_path: Path) -> None:
    data = subsets.case(name).read_bytes()
    whole = load(subsets.case(name))
    path = tmp_path / "m.onnx"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        try:
            assert load(path).proto.graph == whole.proto.graph
        except BadInputError as error:
            assert str(error).isprintable()


def test_damaged_files_never_give_a_traceback(tmp_path: Path) -> None:
    rng = random.Random(0)
    data = model(
        [node("Add", ["x", "w"], ["a"]), node("Neg", ["a"], ["y"])], weights=[weight("w", 2)]
    ).SerializeToString()
    path = tmp_path / "m.onnx"
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        try:
            normalise(load(path))
        except BadInputError as error:
            assert str(error).isprintable(), bytes(damaged)


# --- external data ---


def saved(folder: Path, *, size: int = 2000) -> Path:
    proto = model([node("Add", ["x", "w"], ["y"])], [floats("x", size)], [floats("y", size)], [weight("w", size)])
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return folder / "m.onnx"


def relocate(path: Path, **entries: str) -> None:
    proto = onnx.load(path, load_external_data=False)
    tensor = proto.graph.initializer[0]
    for key, value in entries.items():
        for entry in tensor.external_data:
            if entry.key == key:
                entry.value = value
    path.write_bytes(proto.SerializeToString())


def test_external_weights_stay_in_their_file(tmp_path: Path) -> None:
    loaded = load(saved(tmp_path))
    (blob,) = loaded.external.values()
    assert (blob.path, blob.length, blob.data) == ((tmp_path / "w.bin").resolve(), 8000, None)
    assert external_location(loaded.proto.graph.initializer[0]) == blob.digest
    onnx.checker.check_model(loaded.with_weights_inside(), full_check=True)
    assert np.all(numpy_helper.to_array(loaded.with_weights_inside().graph.initializer[0]) == 3)


def test_the_same_content_inside_or_outside_has_one_name(tmp_path: Path) -> None:
    outside = load(saved(tmp_path))
    inside = load(onnx.load(tmp_path / "m.onnx"))
    assert outside.external.keys() == inside.external.keys()


def test_missing_external_data(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "w.bin").unlink()
    assert "'w.bin'" in refused(path)
    (tmp_path / "w.bin").mkdir()
    assert "missing" in refused(path)


def test_truncated_external_data(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "w.bin").write_bytes(b"\0" * 7999)
    assert "truncated" in refused(path)


@pytest.mark.parametrize(
    "location", ["../w.bin", "/etc/passwd", "", ".", "sub/../../w.bin", "a\x00b", "a" * 5000, "\n"]
)
def test_locations_that_leave_the_folder_or_are_none(location: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8000))
    (tmp_path / "inner").mkdir()
    path = saved(tmp_path / "inner")
    relocate(path, location=location)
    refused(path)


def test_a_link_that_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    path = saved(tmp_path / "inner")
    (tmp_path / "inner" / "w.bin").rename(tmp_path / "outside.bin")
    (tmp_path / "inner" / "w.bin").symlink_to(tmp_path / "outside.bin")
    assert "leaves the model's folder" in refused(path)
    (tmp_path / "inner" / "w.bin").unlink()
    (tmp_path / "inner" / "w.bin").symlink_to("w.bin")
    refused(path)


def test_a_link_to_the_model_looks_beside_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = saved(tmp_path / "real")
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "m.onnx").symlink_to(path)
    refused(tmp_path / "seen" / "m.onnx")
    (tmp_path / "seen" / "w.bin").write_bytes((tmp_path / "real" / "w.bin").read_bytes())
    assert load(tmp_path / "seen" / "m.onnx").external


@pytest.mark.parametrize(
    ("offset", "length"), [("-1", "8000"), ("1", "8000"), ("0", "7996"), ("x", "8000"), ("0", str(2**70))]
)
def test_ranges_that_do_not_fit(offset: str, length: str, tmp_path: Path) -> None:
    path = saved(tmp_path)
    relocate(path, offset=offset, length=length)
    refused(path)


def test_external_data_of_a_model_in_memory(tmp_path: Path) -> None:
    proto = onnx.load(saved(tmp_path), load_external_data=False)
    assert "memory" in refused(proto)


def test_a_model_in_memory_is_not_changed() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [floats("x", 2000)], [floats("y", 2000)], [weight("w")])
    before = proto.SerializeToString(deterministic=True)
    loaded = normalise(load(proto))
    assert proto.SerializeToString(deterministic=True) == before
    assert len(loaded.proto.SerializeToString()) < 1000 < len(before)


# --- tensors ---


def raw(dims: list[int], data: bytes = b"", elem_type: int = FLOAT) -> TensorProto:
    return TensorProto(name="w", data_type=elem_type, dims=dims, raw_data=data)


@pytest.mark.parametrize(
    "tensor",
    [
        raw([2**62, 2**62]),
        raw([2**62], b"\0" * 8),
        raw([-1], b"\0" * 4),
        raw([2], b"\0" * 7),
        raw([3], b"\0" * 9, TensorProto.INT4),
        raw([2], b"\0" * 8, 99),
        raw([], b"\0" * 4, 0),
        TensorProto(name="w", data_type=FLOAT, dims=[3], float_data=[1, 2]),
        TensorProto(name="w", data_type=TensorProto.STRING, dims=[3], string_data=[b"a"]),
        TensorProto(name="w", data_type=FLOAT, dims=[2**62]),
    ],
)
def test_tensors_whose_content_does_not_fit_their_shape(tensor: TensorProto) -> None:
    assert "'w'" in refused(model([node("Add", ["x", "w"], ["y"])], weights=[tensor]))
    constant = model([node("Constant", [], ["w"]), node("Add", ["x", "w"], ["y"])])
    attribute = constant.graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
    attribute.t.CopyFrom(tensor)
    if tensor.data_type:
        refused(constant)


def test_absurd_dimensions_of_inputs_cost_nothing() -> None:
    loaded = normalise(load(model(inputs=[floats("x", 2**62, 2**62)], outputs=[floats("y", "n", "m")])))
    assert loaded.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2**62


def sparse(dims: list[int], values: list[float], indices: np.ndarray) -> onnx.SparseTensorProto:
    content = numpy_helper.from_array(np.array(values, np.float32), "w")
    return helper.make_sparse_tensor(content, numpy_helper.from_array(indices, "i"), dims)


def test_sparse_initializers_and_constants_become_dense() -> None:
    flat = sparse([2, 3], [5, 6], np.array([1, 5], np.int64))
    tuples = sparse([2, 3], [7], np.array([[1, 0]], np.int64))
    proto = model(
        [
            node("Constant", [], ["c"], sparse_value=tuples),
            node("Add", ["w", "c"], ["a"]),
            node("Add", ["a", "x"], ["y"]),
        ],
        [floats("x", 2, 3)],
        [floats("y", 2, 3)],
    )
    proto.graph.sparse_initializer.append(flat)
    loaded = normalise(load(proto))
    assert [each.op_type for each in loaded.proto.graph.node] == ["Add", "Add"]
    (y,) = run(loaded.with_weights_inside(), x=np.zeros((2, 3), np.float32))
    assert y.tolist() == [[0, 5, 0], [7, 0, 6]]


@pytest.mark.parametrize(
    "tensor",
    [
        sparse([2**40, 2**40], [1], np.array([0], np.int64)),
        sparse([2], [1], np.array([5], np.int64)),
        sparse([2], [1, 2], np.array([0], np.int64)),
    ],
)
def test_sparse_tensors_that_do_not_fit(tensor: onnx.SparseTensorProto) -> None:
    proto = model([node("Add", ["x", "w"], ["y"])])
    proto.graph.sparse_initializer.append(tensor)
    assert "sparse" in refused(proto)


# --- names ---


def bad(**changes: object) -> ModelProto:
    return model(**changes)  # type: ignore[arg-type]


BROKEN: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "undefined value": (lambda: bad(nodes=[node("Neg", ["none"], ["y"], name="n")]), "'none'"),
    "undefined value with control characters": (lambda: bad(nodes=[node("Neg", ["a\x1b[31m\nb"], ["y"])]), "nothing"),
    "control characters in a node": (lambda: bad(nodes=[node("Ne\ng", ["q"], ["y"], name="n\n\x07")]), "nothing"),
    "two producers": (lambda: bad(nodes=[node("Neg", ["x"], ["y"]), node("Exp", ["x"], ["y"])]), "'y'"),
    "producer of an input": (lambda: bad(nodes=[node("Neg", ["x"], ["x"]), node("Neg", ["x"], ["y"])]), "'x'"),
    "producer of an initializer": (lambda: bad(nodes=[node("Neg", ["x"], ["y"])], weights=[weight("y", 2)]), "'y'"),
    "one output twice in a node": (lambda: bad(nodes=[node("Split", ["x"], ["y", "y"])]), "'y'"),
    "an input twice": (lambda: bad(inputs=[floats("x", 2), floats("x", 2)]), "twice"),
    "an initializer twice": (lambda: bad(weights=[weight("w", 2), weight("w", 2)]), "twice"),
    "an output from nowhere": (lambda: bad(outputs=[floats("z", 2)]), "'z'"),
    "no outputs": (lambda: bad(outputs=[]), "no outputs"),
    "an input without a name": (lambda: bad(inputs=[floats("x", 2), floats("", 2)]), "no name"),
    "an output without a name": (lambda: bad(outputs=[floats("y", 2), floats("", 2)]), "no name"),
    "an initializer without a name": (lambda: bad(weights=[weight("", 2)]), "no name"),
    "a domain without opset": (lambda: bad(nodes=[node("Neg", ["x"], ["y"], domain="un.known")]), "un.known"),
    "no operator": (lambda: bad(nodes=[node("", ["x"], ["y"])]), "operator"),
    "a circle": (lambda: bad(nodes=[node("Add", ["x", "y"], ["a"]), node("Neg", ["a"], ["y"])]), ""),
    "a node that reads itself": (lambda: bad(nodes=[node("Add", ["x", "y"], ["y"])]), ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_broken_graphs_are_refused(what: str) -> None:
    make, words = BROKEN[what]
    assert words in refused(make())


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    data = model([node("Neg", ["x"], ["QQ"]), node("Neg", ["QQ"], ["y"])]).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data.replace(b"QQ", b"\xff\xfe"))
    assert "UTF-8" in refused(tmp_path / "m.onnx")


def test_subgraphs_within_subgraphs() -> None:
    """As deep as protobuf goes, give or take; each level captures from the outermost graph."""
    body = helper.make_graph([node("Neg", ["x"], ["t0"])], "b", [], [floats("t0", 2)])
    for depth in range(1, 20):
        other = helper.make_graph([node("Exp", ["x"], [f"e{depth}"])], "b", [], [floats(f"e{depth}", 2)])
        deeper = node("If", ["c"], [f"t{depth}"], then_branch=body, else_branch=other)
        body = helper.make_graph([deeper], "b", [], [floats(f"t{depth}", 2)])
    proto = model(body.node, [floats("x", 2), info("c", TensorProto.BOOL, [])], [floats("t19", 2)])
    done = normal(proto)
    (y,) = run(done.with_weights_inside(), x=np.array([1, 2], np.float32), c=np.array(True))
    assert y.tolist() == [-1, -2]


def test_no_nodes_and_no_opset() -> None:
    empty = model()
    del empty.graph.node[:]
    assert "no graph with nodes" in refused(empty)
    bare = model()
    del bare.opset_import[:]
    assert "no opset" in refused(bare)
    assert refused(ModelProto())


def test_a_body_that_reads_what_nothing_produces() -> None:
    body = helper.make_graph([node("Neg", ["none"], ["t"])], "b", [], [floats("t", 2)])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "b", [], [floats("e", 2)])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=body, else_branch=other)],
        [floats("x", 2), info("c", TensorProto.BOOL, [])],
    )
    assert "in a subgraph, 'none'" in refused(proto)


def functions(*bodies: list[NodeProto]) -> ModelProto:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    proto = model([node("F0", ["x"], ["y"], domain="my")])
    proto.opset_import.append(imports[1])
    for number, body in enumerate(bodies):
        proto.functions.append(helper.make_function("my", f"F{number}", ["a"], ["b"], body, imports))
    return proto


def test_functions_that_call_each_other_in_a_circle() -> None:
    proto = functions([node("F1", ["a"], ["b"], domain="my")], [node("F0", ["a"], ["b"], domain="my")])
    assert "circle" in refused(proto)
    assert "circle" in refused(functions([node("F0", ["a"], ["b"], domain="my")]))


def test_a_function_that_reads_what_it_does_not_have() -> None:
    assert "function 'F0'" in refused(functions([node("Neg", ["x"], ["b"])]))


# --- normalising ---


def normal(proto: ModelProto) -> Model:
    done = normalise(load(proto))
    onnx.checker.check_model(done.with_weights_inside(), full_check=True)
    return done


def operators(done: Model) -> list[str]:
    return [each.op_type for each in done.proto.graph.node]


def test_functions_are_inlined_call_by_call() -> None:
    """Names inside functions meet names of the graph and of one another."""
    square = [node("Mul", ["a", "a"], ["h"]), node("Neg", ["h"], ["b"])]
    proto = functions([node("F1", ["a"], ["h"], domain="my"), node("Add", ["h", "a"], ["b"])], square)
    del proto.graph.node[:]
    proto.graph.node.extend(
        [
            node("F0", ["x"], ["h"], domain="my"),
            node("F1", ["h"], ["a"], domain="my"),
            node("F1", ["a"], ["b"], domain="my"),
            node("Add", ["b", "h"], ["y"]),
        ]
    )
    done = normal(proto)
    assert operators(done) == ["Mul", "Neg", "Add", "Mul", "Neg", "Mul", "Neg", "Add"]
    assert not done.proto.functions
    x = np.array([1, 2], np.float32)
    assert np.array_equal(run(done.with_weights_inside(), x=x)[0], run(proto, x=x)[0])


def test_attributes_and_left_out_parts_of_functions() -> None:
    imports = [helper.make_opsetid("", 17)]
    leaky = node("LeakyRelu", ["a"], ["h"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body = [leaky, node("Clip", ["h", "", "top"], ["c"]), node("LSTM", ["s", "w", "r"], ["", "l", ""], hidden_size=1)]
    body += [node("Add", ["c", "l"], ["b"])]
    inputs = ["a", "top", "s", "w", "r"]
    function = helper.make_function("my", "F", inputs, ["b", "l"], body, imports, attributes=["slope"])
    nodes = [
        node("F", ["x", "", "s", "w", "r"], ["p", ""], domain="my", slope=0.5),
        node("F", ["p", "top", "s", "w", "r"], ["q", "m"], domain="my", slope=0.25),
        node("Sub", ["q", "m"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("top", ()), ("s", (3, 1, 1)))
    ]
    weights += [numpy_helper.from_array(np.ones((1, 4, 1), np.float32), name) for name in ("w", "r")]
    proto = model(nodes, outputs=[floats("y", 1, 1, 2)], weights=weights)
    proto.opset_import.append(helper.make_opsetid("my", 1))
    proto.functions.append(function)
    done = normal(proto)
    lstms = [list(each.output) for each in done.proto.graph.node if each.op_type == "LSTM"]
    assert [(first, last) for first, _, last in lstms] == [("", "")] * 2
    x = np.array([-2, 3], np.float32)
    assert np.array_equal(run(done.with_weights_inside(), x=x)[0], run(proto, x=x)[0])


def test_functions_of_another_opset_stay_functions() -> None:
    proto = functions([node("Neg", ["a"], ["b"])], [node("Exp", ["a"], ["b"])])
    proto.functions[0].opset_import[0].version = 16
    done = normal(proto)
    assert operators(done) == ["F0"]
    assert [each.name for each in done.proto.functions] == ["F0"]  # F1 is called by nothing


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value_float", 2.5, np.float32(2.5)),
        ("value_floats", [1.0, 2.0], np.array([1, 2], np.float32)),
        ("value_int", 7, np.int64(7)),
        ("value_ints", [7, 8], np.array([7, 8])),
        ("value_string", "é\n", np.array("é\n", dtype=object)),
        ("value_strings", ["a", "b\0"], np.array(["a", "b\0"], dtype=object)),
        ("value", numpy_helper.from_array(np.ones((2, 0), np.float16)), np.ones((2, 0), np.float16)),
    ],
)
def test_constants_become_initializers(attribute: str, value: object, expected: np.ndarray) -> None:
    proto = model(
        [node("Constant", [], ["k"], **{attribute: value}), node("Shape", ["k"], ["y"])],
        outputs=[info("y", TensorProto.INT64, None)],
    )
    done = normalise(load(proto))
    assert operators(done) == ["Shape"]
    (tensor,) = done.proto.graph.initializer
    assert tensor.name == "k"
    array = numpy_helper.to_array(tensor)
    if array.dtype == object or array.dtype.kind in "SU":
        assert list(tensor.string_data) == [text.encode() for text in expected.ravel().tolist()]
    else:
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected)
    assert array.shape == expected.shape


def test_constants_that_are_graph_outputs_or_in_bodies_stay() -> None:
    value = numpy_helper.from_array(np.array([1, 2], np.float32))
    then = helper.make_graph([node("Constant", [], ["t"], value=value)], "b", [], [floats("t", 2)])
    other = helper.make_graph([node("Neg", ["k"], ["e"])], "b", [], [floats("e", 2)])
    proto = model(
        [
            node("Constant", [], ["k"], value=value),
            node("Constant", [], ["out"], value=value),
            node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        ],
        [info("c", TensorProto.BOOL, [])],
        [floats("y", 2), floats("out", 2)],
    )
    done = normal(proto)
    assert operators(done) == ["Constant", "If"]
    for condition in (True, False):
        got = run(done.with_weights_inside(), c=np.array(condition))
        assert [each.tolist() for each in got] == [each.tolist() for each in run(proto, c=np.array(condition))]


def test_a_model_of_constants_alone_keeps_them() -> None:
    value = numpy_helper.from_array(np.array([1, 2], np.float32))
    proto = model([node("Constant", [], ["k"], value=value)], outputs=[floats("k", 2)], inputs=[])
    assert operators(normal(proto)) == ["Constant"]


def test_large_constants_leave_the_protobuf() -> None:
    value = weight("", 5000)
    proto = model(
        [node("Constant", [], ["k"], value=value), node("Add", ["k", "x"], ["y"])],
        [floats("x", 5000)],
        [floats("y", 5000)],
    )
    done = normal(proto)
    assert [blob.length for blob in done.external.values()] == [20_000]
    assert done.proto.ByteSize() < 1000


def test_nodes_without_names_get_one_and_doubled_names_are_told_apart() -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["b"], name="n"), node("Abs", ["b"], ["y"], name="n")]
    names = [each.name for each in normal(model(nodes)).proto.graph.node]
    assert all(names)
    assert len(set(names)) == 3


def test_the_order_of_the_file_is_kept_where_it_can_be() -> None:
    nodes = [node(op, ["x"], [name]) for op, name in (("Neg", "d"), ("Exp", "b"), ("Abs", "a"), ("Relu", "c"))]
    done = normal(model([*nodes, node("Sum", ["a", "b", "c", "d"], ["y"])]))
    assert operators(done) == ["Neg", "Exp", "Abs", "Relu", "Sum"]


def test_an_unsorted_graph_is_sorted() -> None:
    then = helper.make_graph([node("Neg", ["t0"], ["t"]), node("Exp", ["y0"], ["t0"])], "b", [], [floats("t", 2)])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "b", [], [floats("e", 2)])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other), node("Neg", ["x"], ["y0"])],
        [floats("x", 2), info("c", TensorProto.BOOL, [])],
    )
    done = normal(proto)
    assert operators(done) == ["Neg", "If"]
    (y,) = run(done.with_weights_inside(), x=np.array([1, 2], np.float32), c=np.array(True))
    np.testing.assert_allclose(y, -np.exp([-1, -2]), rtol=1e-6)


def test_metadata_goes_and_what_matters_stays() -> None:
    proto = model()
    proto.graph.node[0].doc_string = "trace " * 1000
    proto.graph.node[0].metadata_props.add(key="trace", value="x" * 5000)
    proto.graph.value_info.append(floats("y", 2))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    annotation = proto.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    done = normal(proto)
    assert done.proto.ByteSize() < 500
    assert done.proto.ir_version == 8
    assert {each.domain: each.version for each in done.proto.opset_import} == {"": 17, "com.microsoft": 1}
    assert done.proto.graph.quantization_annotation[0].tensor_name == "x"


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 7), (4, 9), (7, 12), (10, 21), (11, 23)])
def test_old_and_new_versions_are_kept(ir_version: int, opset: int) -> None:
    nodes = [
        node("Constant", [], ["k"], value=numpy_helper.from_array(np.array([1, 2], np.float32))),
        node("Add", ["x", "k"], ["y"]),
    ]
    done = normal(model(nodes, ir_version=ir_version, opset=opset))
    assert (done.proto.ir_version, done.proto.opset_import[0].version) == (ir_version, opset)
    assert ("k" in {value.name for value in done.proto.graph.input}) is (ir_version < 4)


def test_names_with_control_characters_are_kept_as_they_are() -> None:
    odd = "a\n\x1b[31m \u2028é'\""
    done = normalise(load(model([node("Neg", ["x"], [odd], name=odd), node("Exp", [odd], ["y"])])))
    assert done.proto.graph.node[0].output[0] == odd
    assert run(done.with_weights_inside(), x=np.zeros(2, np.float32))[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    "name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "BOOL", "DOUBLE", "STRING"]
)
def test_every_type_of_weight_comes_through_whole(name: str) -> None:
    kind = TensorProto.DataType.Value(name)
    if name == "STRING":
        array = np.array([f"s{at}" for at in range(3001)], dtype=object)
    else:
        array = (np.arange(9001) % 2).astype(helper.tensor_dtype_to_np_dtype(kind))
    tensor = numpy_helper.from_array(array, "w")
    proto = model([node("Shape", ["w"], ["y"])], outputs=[info("y", TensorProto.INT64, [1])], weights=[tensor])
    done = normalise(load(proto))
    assert bool(done.external) is (name != "STRING")
    back = numpy_helper.to_array(done.with_weights_inside().graph.initializer[0])
    assert back.tolist() == numpy_helper.to_array(tensor).tolist()


def test_typed_fields_are_read_like_raw_data() -> None:
    values = [float(at % 5) for at in range(3000)]
    tensors = [
        helper.make_tensor("w", kind, [3000], values)
        for kind in (FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT8)
    ]
    for tensor in tensors:
        proto = model([node("Shape", ["w"], ["y"])], outputs=[info("y", TensorProto.INT64, [1])], weights=[tensor])
        back = numpy_helper.to_array(normalise(load(proto)).with_weights_inside().graph.initializer[0])
        assert back.astype(np.float64).tolist() == values


def test_weights_inside_past_two_gigabytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxreduce.graph import model as room

    loaded = load(model([node("Add", ["x", "w"], ["y"])], [floats("x", 2000)], [floats("y", 2000)], [weight("w")]))
    monkeypatch.setattr(room, "_PROTOBUF_LIMIT", 8000)
    with pytest.raises(ValueError, match="2 GiB"):
        loaded.with_weights_inside()
