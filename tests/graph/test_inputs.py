"""What a model is fed: generated sensibly, checked strictly, and the same whatever else is fed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.inputs import PreparedInputs, named_inputs, parse_assignments, parse_dims, prepare_inputs
from onnxreduce.graph.prepare import InputOptions
from onnxreduce.graph.tensors import StoredTensor

ELEMENT_TYPES = [number for number in TensorProto.DataType.values() if number != TensorProto.UNDEFINED]

Dims = Sequence[int | str | None]


def info(name: str, elem_type: int, shape: Dims | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, shape)


def model_of(
    *inputs: onnx.ValueInfoProto, nodes: Sequence[onnx.NodeProto] = (), **initializers: np.ndarray
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(array, name) for name, array in initializers.items()]
    graph = helper.make_graph(list(nodes), "g", list(inputs), [], weights)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def prepare(
    model: onnx.ModelProto,
    given: dict[str | int, np.ndarray] | None = None,
    expressions: Sequence[str] = (),
    dims: Sequence[str] = (),
    seed: int = 0,
) -> PreparedInputs:
    tensors = {key: StoredTensor.from_array(array) for key, array in (given or {}).items()}
    texts = parse_assignments(expressions, "--input", [value.name for value in model.graph.input])
    return prepare_inputs(model.graph.input, tensors, texts, parse_dims(dims), seed, model)


def feed(model: onnx.ModelProto, name: str = "x", **options: object) -> np.ndarray:
    return prepare(model, **options).feeds[name].array  # type: ignore[arg-type]


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@given(
    st.sampled_from(ELEMENT_TYPES),
    st.lists(st.integers(0, 4) | st.sampled_from(["batch", "seq"]), max_size=4),
    st.integers(0, 2**32),
)
def test_every_type_and_shape_can_be_made(elem_type: int, shape: list[int | str], seed: int) -> None:
    model = model_of(info("x", elem_type, shape))
    prepared = prepare(model, seed=seed)
    tensor = prepared.feeds["x"]
    assert tensor.elem_type == elem_type
    assert all(size == wanted for size, wanted in zip(tensor.shape, shape, strict=True) if isinstance(wanted, int))
    assert tensor.array.shape == tensor.shape
    assert prepared.notes[-1].startswith(f"x: {tensor.dtype_name} [")
    assert tensor.blob.digest == prepare(model, seed=seed).feeds["x"].blob.digest
    named_inputs(model, {"x": tensor})


@given(st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1))
def test_other_inputs_do_not_change_the_values(names: list[str]) -> None:
    alone = {name: prepare(model_of(info(name, FLOAT, [5]))).feeds[name].blob.digest for name in names}
    together = prepare(model_of(*(info(name, FLOAT, [5]) for name in names))).feeds
    assert {name: tensor.blob.digest for name, tensor in together.items()} == alone
    assert len(set(alone.values())) == len(names)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(BadInputError, match="seed -1"):
        InputOptions(seed=-1)


def test_another_seed_gives_other_values() -> None:
    model = model_of(info("x", FLOAT, [5]))
    assert prepare(model, seed=1).feeds["x"].blob.digest != prepare(model, seed=2).feeds["x"].blob.digest
    assert np.abs(feed(model)).max() <= 1


def embedding(rows: int, *before: onnx.NodeProto, last: str = "x") -> onnx.ModelProto:
    nodes = [*before, helper.make_node("Gather", ["table", last], ["y"])]
    table = np.zeros((rows, 2), np.float32)
    return model_of(info("x", INT64, ["batch", 50]), nodes=nodes, table=table)


@pytest.mark.parametrize(
    "before",
    [
        [],
        [
            helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT32),
            helper.make_node("Unsqueeze", ["i", "a"], ["j"]),
        ],
        [helper.make_node("Add", ["x", "rows"], ["w"]), helper.make_node("Where", ["c", "w", "x"], ["j"])],
        [helper.make_node("Mul", ["x", "keep"], ["j"])],
    ],
    ids=["direct", "cast and unsqueeze", "wrapped", "masked"],
)
def test_indices_stay_within_their_table(before: list[onnx.NodeProto]) -> None:
    model = embedding(7, *before, last="j" if before else "x")
    values = feed(model)
    assert values.min() == 0 and values.max() == 6
    assert prepare(model).notes[-1] == "x: int64 [1,50] generated as integers in [0, 7) (indices of Gather 'table')"


def test_quantized_tables_and_nested_graphs_are_seen() -> None:
    body = helper.make_graph([helper.make_node("Gather", ["d", "x"], ["y"], axis=1)], "then", [], [])
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["d"]),
        helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body),
    ]
    model = model_of(info("x", INT64, [99]), nodes=nodes, q=np.zeros((2, 5), np.uint8), scale=np.float32(1).reshape(()))
    assert set(feed(model).tolist()) == set(range(5))


def test_gather_nd_indexes_several_axes() -> None:
    nodes = [helper.make_node("GatherND", ["table", "x"], ["y"], batch_dims=1)]
    model = model_of(info("x", INT64, [1, 40, 2]), nodes=nodes, table=np.zeros((1, 6, 4, 2), np.float32))
    assert feed(model).max() == 3


def test_embed_layer_normalization_tells_its_tables() -> None:
    names = ["input_ids", "segment_ids", "word", "position", "segment", "gamma", "beta"]
    node = helper.make_node("EmbedLayerNormalization", names, ["y", ""], domain="com.microsoft")
    tables = {"word": np.zeros((11, 4), np.float32), "segment": np.zeros((2, 4), np.float32)}
    model = model_of(info("input_ids", INT64, [1, 99]), info("segment_ids", INT64, [1, 99]), nodes=[node], **tables)
    assert feed(model, "input_ids").max() == 10 and feed(model, "segment_ids").max() == 0


@pytest.mark.parametrize(
    ("name", "elem_type", "expected"),
    [
        ("attention_mask", INT64, [[1, 1, 1, 1]]),
        ("attention_mask", FLOAT, [[1, 1, 1, 1]]),
        ("flag", TensorProto.BOOL, [[True, True, True, True]]),
        ("position_ids", INT64, [[0, 1, 2, 3]]),
        ("pos_ids", TensorProto.INT32, [[0, 1, 2, 3]]),
        ("token_type_ids", INT64, [[0, 0, 0, 0]]),
    ],
)
def test_names_tell_a_meaning(name: str, elem_type: int, expected: list[list[int]]) -> None:
    assert feed(model_of(info(name, elem_type, [1, 4])), name).tolist() == expected


def test_uses_tell_a_mask() -> None:
    cast = helper.make_node("Cast", ["x"], ["b"], to=TensorProto.BOOL)
    assert feed(model_of(info("x", INT64, [3]), nodes=[cast])).tolist() == [1, 1, 1]
    assert feed(model_of(info("x", FLOAT, [3]), nodes=[cast])).tolist() != [1, 1, 1]


def test_other_integers_are_small_and_never_zero() -> None:
    assert set(feed(model_of(info("x", INT64, [999]))).tolist()) == {1, 2, 3, 4}
    assert len(set(feed(model_of(info("x", TensorProto.UINT8, [9999]))).tolist())) == 256


def test_a_made_embedding_model_runs() -> None:
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["w"]),
        helper.make_node("Gather", ["places", "position_ids"], ["p"]),
        helper.make_node("Add", ["w", "p"], ["s"]),
        helper.make_node("Cast", ["attention_mask"], ["m"], to=FLOAT),
        helper.make_node("Unsqueeze", ["m", "last"], ["u"]),
        helper.make_node("Mul", ["s", "u"], ["y"]),
    ]
    inputs = [info(name, INT64, ["batch", "seq"]) for name in ("input_ids", "position_ids", "attention_mask")]
    tables = {"words": np.ones((9, 4), np.float32), "places": np.ones((5, 4), np.float32), "last": np.array([-1])}
    model = model_of(*inputs, nodes=nodes, **tables)
    model.graph.output.append(info("y", FLOAT, None))
    prepared = prepare(model, dims=["seq=12"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {name: each.array for name, each in prepared.feeds.items()})[0].shape == (1, 12, 4)
    assert (
        prepared.notes[0]
        == "dimension 'batch' (input 'input_ids', axis 0) set to 1 by default; choose with --dim batch=N"
    )


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        (["batch", "seq"], [], (1, 8)),
        ([None, 3, None, None], [], (1, 3, 64, 64)),
        (["N", "C", "H", "W"], [], (1, 3, 64, 64)),
        (["batch", "seq"], ["batch=2", "seq=5"], (2, 5)),
        ([None, None], ["x:1=6"], (1, 6)),
        (["batch", "past + 1"], ["past=4"], (1, 5)),
        (["batch", "2*n - 1"], ["n=3"], (1, 5)),
        (["batch", "past + 1"], ["past + 1=7"], (1, 7)),
        (["seq", "weird (name)"], [], (8, 8)),
        (["x", "y"], ["x:1=0"], (1, 0)),
    ],
)
def test_sizes_of_dynamic_dimensions(shape: Dims, dims: list[str], expected: tuple[int, ...]) -> None:
    assert feed(model_of(info("x", FLOAT, shape)), dims=dims).shape == expected


def test_total_length_follows_past_and_new() -> None:
    inputs = [
        info("input_ids", INT64, ["batch_size", "sequence_length"]),
        info("attention_mask", INT64, ["batch_size", "total_sequence_length"]),
        info("past", FLOAT, ["batch_size", 2, "past_sequence_length", 4]),
    ]
    feeds = prepare(model_of(*inputs), dims=["past_sequence_length=5", "sequence_length=1"]).feeds
    assert feeds["attention_mask"].shape == (1, 6) and feeds["past"].shape == (1, 2, 5, 4)


def test_given_tensors_decide_dimensions() -> None:
    model = model_of(info("x", FLOAT, ["batch", "seq"]), info("y", FLOAT, ["batch", "seq"]))
    prepared = prepare(model, {"y": np.zeros((2, 3), np.float32)})
    assert prepared.feeds["x"].shape == (2, 3) and list(prepared.feeds) == ["x", "y"]
    assert [note.split(":")[0] for note in prepared.notes] == ["x"]


def test_inputs_with_a_default_are_fed_only_when_given() -> None:
    model = model_of(info("d", FLOAT, [2]), info("x", FLOAT, [2]), d=np.ones(2, np.float32))
    assert list(prepare(model).feeds) == ["x"]
    assert list(prepare(model, {"d": np.zeros(2, np.float32)}).feeds) == ["d", "x"]
    assert list(prepare(model, expressions=["d=zeros"]).feeds) == ["d", "x"]
    assert feed(model, "x", given={0: np.full(2, 7, np.float32)}).tolist() == [7, 7]


@pytest.mark.parametrize(
    ("given", "expressions", "dims", "message"),
    [
        ({"z": np.zeros(2, np.float32)}, [], [], "no input 'z'; its inputs are 'x', 'y'"),
        ({}, ["z=ones"], [], "no input 'z'"),
        ({5: np.zeros(2, np.float32)}, [], [], "no input 5; its inputs are 'x', 'y'"),
        ({0: np.zeros((1, 4), np.float32), "x": np.zeros((1, 4), np.float32)}, [], [], "given twice"),
        (
            {"x": np.zeros((1, 4))},
            [],
            [],
            r"'x' is float, but the given tensor is double; cast it with array.astype\(numpy.float32\)",
        ),
        ({"x": np.zeros((1, 4), np.int64)}, [], [], "'x' is float, but the given tensor is int64"),
        ({"x": np.zeros((1, 5), np.float32)}, [], [], r"'x' takes shape \[batch, 4\], not \[1, 5\]"),
        ({"x": np.zeros(4, np.float32)}, [], [], r"takes 2 dimensions \(\[batch, 4\]\), not \[4\]"),
        (
            {"x": np.zeros((2, 4), np.float32), "y": np.zeros(3, np.int64)},
            [],
            [],
            "'batch' is 2 by input 'x' and 3 by input 'y'",
        ),
        ({"x": np.zeros((2, 4), np.float32)}, [], ["batch=3"], "'batch' is 3 by --dim and 2 by input 'x'"),
        ({}, [], ["bach=3"], r"'bach': the model has no such dynamic dimension \(it has: batch\)"),
        ({}, [], ["x:1=3"], "fixes this dimension at 4"),
        ({}, ["x=arange(0,5)"], [], r"'x': arange\(0,5\) gives 5 values, but the shape \[1, 4\] takes 4"),
        ({}, ["y=full(1.5)"], [], "'y': int64 cannot hold the value 1.5"),
        ({}, ["y=normal(0,1)"], [], "int64 cannot hold normal"),
        ({}, ["x=gauss(0,1)"], [], r"'gauss\(0,1\)'; accepted are uniform\(lo,hi\), normal"),
    ],
)
def test_errors_say_what_is_wrong(
    given: dict[str | int, np.ndarray], expressions: list[str], dims: list[str], message: str
) -> None:
    model = model_of(info("x", FLOAT, ["batch", 4]), info("y", INT64, ["batch"]))
    with pytest.raises(BadInputError, match=message):
        prepare(model, given, expressions, dims)


def test_inputs_that_cannot_be_made() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, [2])
    with pytest.raises(BadInputError, match="'s' is not a tensor but sequence; such inputs are not supported"):
        prepare(model_of(sequence))
    with pytest.raises(BadInputError, match="'x' has no shape in the model, so it must be given"):
        prepare(model_of(info("x", FLOAT, None)))
    assert feed(model_of(info("x", FLOAT, None)), given={"x": np.ones(3, np.float32)}).shape == (3,)
    with pytest.raises(BadInputError, match="more than"):
        prepare(model_of(info("x", FLOAT, [10**6, 10**6])))


def test_an_expression_takes_the_place_of_a_given_tensor(tmp_path: Path) -> None:
    model = model_of(info("x", FLOAT, ["n"]), info("y", FLOAT, ["n"]))
    np.save(tmp_path / "a.npy", np.arange(3, dtype=np.float32))
    prepared = prepare(model, {"x": np.zeros(5, np.float32)}, [f"x={tmp_path / 'a.npy'}"])
    assert prepared.feeds["x"].array.tolist() == [0, 1, 2] and prepared.feeds["y"].shape == (3,)
