"""Any subset of nodes is a model of its own that computes what was recorded."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
import subsets
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import cut, leaves, whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import record

node, info = helper.make_node, helper.make_tensor_value_info
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

SMALL_CASES = [
    *(f"founding/synth_{name}" for name in ("depth1", "depth2", "depth3", "depth4", "depth5", "workaround")),
    *(
        f"ops/{name}"
        for name in (
            "cast_float_int_bool",
            "conv_6_channels",
            "gathernd_rank5",
            "gemm_identity_transpose_rect",
            "gemm_identity_transpose_square",
            "layernorm_keepdims0",
            "pad_averagepool_opset20",
            "layernorm_keepdims0_hosted",
        )
    ),
    *(
        f"web/{name}"
        for name in (
            "concat_nine_inputs",
            "conv_129_channels",
            "dequantize_uint8",
            "maxpool_ceil_error",
            "race_int64_mul",
            "race_topk",
            "resize_wrong_shape",
        )
    ),
]
HOSTED = [
    f"ops/{name}_hosted"
    for name in (
        "cast_float_int_bool",
        "conv_6_channels",
        "gathernd_rank5",
        "gemm_identity_transpose_rect",
        "gemm_identity_transpose_square",
        "pad_averagepool_opset20",
    )
]
REAL = [f"real/{name}" for name in ("rawi_int8", "silero_vad_16k_sequence", "silero_vad_openvino_16k", "slovorez")]


def model(
    nodes: Iterable[NodeProto],
    inputs: Iterable[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
    weights: Iterable[TensorProto] = (),
    ir_version: int = 8,
    opset: int = 17,
) -> ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])


def floats(name: str, *shape: int | str) -> ValueInfoProto:
    return info(name, FLOAT, shape)


def tensor(*values: float, dtype: type = np.float32) -> StoredTensor:
    return StoredTensor.from_array(np.array(values, dtype=dtype))


def check_draws(index: GraphIndex, feeds: dict[str, StoredTensor], ort: PythonOrt, count: int, seed: int = 0) -> None:
    recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
    full_check = subsets.passes_full_check(index.model)
    try:
        for nodes in subsets.draws(len(index), random.Random(seed), count):
            subsets.check_subset(index, recorded, nodes, ort, full_check)
    finally:
        recorded.close()


def check_every_subset(source: ModelProto, feeds: dict[str, StoredTensor], ort: PythonOrt) -> GraphIndex:
    index = subsets.indexed(source, feeds)
    recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
    full_check = subsets.passes_full_check(index.model)
    for bits in range(1, 1 << len(index)):
        nodes = [at for at in range(len(index)) if bits >> at & 1]
        subsets.check_subset(index, recorded, nodes, ort, full_check)
    recorded.close()
    return index


@pytest.mark.parametrize("name", SMALL_CASES)
def test_subsets_of_small_cases(name: str, ort: PythonOrt) -> None:
    path = subsets.case(name)
    feeds = subsets.feeds_of(path)
    check_draws(subsets.indexed(path, feeds), feeds, ort, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HOSTED, *REAL])
def test_subsets_of_larger_cases(name: str, ort: PythonOrt) -> None:
    path = subsets.case(name)
    feeds = subsets.feeds_of(path)
    check_draws(subsets.indexed(path, feeds), feeds, ort, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smolvla/smolvla_prefill", "smolvla/smolvla"])
def test_subsets_of_whole_exports(name: str, ort: PythonOrt) -> None:
    path = subsets.case(name)
    feeds = subsets.feeds_of(path)
    index = subsets.indexed(path, feeds)
    recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
    for nodes in subsets.draws(len(index), random.Random(0), 8):
        subsets.check_subset(index, recorded, nodes, ort, full_check=False)  # strict inference takes half a minute
    recorded.close()


def _operator_test(number: int, ort: PythonOrt) -> bool:
    """Whether the reference runs the operator test; if so every subset must keep the promise."""
    name, source, feeds = subsets.operator_tests()[number]
    index = subsets.indexed(source, feeds)
    try:
        check_draws(index, feeds, ort, 3, seed=number)
    except BadInputError as error:
        assert "the reference cannot run node " in str(error), name
        assert any(node.op_type in str(error) for node in index.nodes), name
        return False
    except Exception as error:
        raise AssertionError(name) from error
    return True


STRIDE = 60


def test_subsets_of_some_operator_tests(ort: PythonOrt) -> None:
    numbers = range(0, len(subsets.operator_tests()), STRIDE)
    assert sum(_operator_test(number, ort) for number in numbers) > 0.8 * len(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, STRIDE, 20))
def test_subsets_of_all_operator_tests(first: int, ort: PythonOrt) -> None:
    total = len(subsets.operator_tests())
    numbers = [at for at in range(total) if first <= at % STRIDE < first + 20]
    assert sum(_operator_test(number, ort) for number in numbers) > 0.8 * len(numbers)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_drawn_subset_keeps_order_and_closure(data: st.DataObject) -> None:
    path = subsets.case("ops/layernorm_keepdims0_hosted")
    index = subsets.indexed(path, subsets.feeds_of(path))
    nodes = data.draw(st.sets(st.integers(0, len(index) - 1), min_size=1))
    outputs = leaves(index, nodes)
    produced = {value for at in nodes for value in index.writes[at]}
    assert outputs
    assert set(outputs) <= produced
    assert outputs == sorted(outputs, key=lambda value: index.producer[value])
    for at in nodes:  # nothing that a kept node computes is dead
        reach = {at}
        for later in sorted(nodes):
            if any(index.producer.get(value) in reach for value in index.reads[later]):
                reach.add(later)
        assert any(value in outputs for each in reach for value in index.writes[each])


# --- bodies ---


def branch(
    name: str, *nodes: NodeProto, output: ValueInfoProto, weights: Iterable[TensorProto] = ()
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, [], [output], list(weights))


def with_if() -> ModelProto:
    """Bodies that capture an initializer, a graph input and an intermediate value; one holds an If of its own."""
    deep = branch("deep", node("Mul", ["h", "w"], ["d"]), output=floats("d", 2))
    flat = branch("flat", node("Neg", ["x"], ["f"]), output=floats("f", 2))
    then = branch(
        "then",
        node("Add", ["h", "w"], ["t0"]),
        node("If", ["c"], ["t1"], then_branch=deep, else_branch=flat),
        node("Sub", ["t0", "t1"], ["t"]),
        output=floats("t", 2),
    )
    otherwise = branch("else", node("Relu", ["h"], ["e"]), output=floats("e", 2))
    nodes = [
        node("Exp", ["x"], ["h"]),
        node("If", ["c"], ["i"], then_branch=then, else_branch=otherwise),
        node("Add", ["i", "i"], ["y"]),
    ]
    weight = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    return model(nodes, [floats("x", 2), info("c", BOOL, [])], [floats("y", 2)], [weight])


@pytest.mark.parametrize("condition", [True, False])
def test_captured_values_are_inputs_of_the_node(condition: bool, ort: PythonOrt) -> None:
    feeds = {"x": tensor(1, 2), "c": StoredTensor.from_array(np.array(condition))}
    index = check_every_subset(with_if(), feeds, ort)
    assert index.reads[1] == ["c", "h", "w", "x"]


def test_a_loop_is_kept_whole(ort: PythonOrt) -> None:
    body = helper.make_graph(
        [
            node("Add", ["a_in", "step"], ["a_out"]),
            node("Mul", ["a_out", "scale"], ["scan"]),
            node("Identity", ["c_in"], ["c_out"]),
        ],
        "body",
        [info("i", INT64, []), info("c_in", BOOL, []), floats("a_in", 2)],
        [info("c_out", BOOL, []), floats("a_out", 2), floats("scan", 2)],
    )
    nodes = [
        node("Neg", ["x"], ["step"]),
        node("Loop", ["n", "", "x"], ["last", "all"], body=body),
        node("ReduceSum", ["all"], ["y"]),
    ]
    source = model(
        nodes,
        [floats("x", 2), info("n", INT64, [])],
        [floats("y", 1, 1), floats("last", 2)],
        [numpy_helper.from_array(np.array([2, 2], np.float32), "scale")],
    )
    feeds = {"x": tensor(1, 2), "n": StoredTensor.from_array(np.array(3, np.int64))}
    index = check_every_subset(source, feeds, ort)
    assert set(index.reads[1]) == {"n", "x", "step", "scale"}


def test_a_scan_is_kept_whole(ort: PythonOrt) -> None:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["s2"]), node("Mul", ["s2", "k"], ["o"])],
        "body",
        [floats("s", 2), floats("e", 2)],
        [floats("s2", 2), floats("o", 2)],
    )
    nodes = [
        node("Exp", ["z"], ["k"]),
        node("Scan", ["z", "xs"], ["end", "outs"], body=body, num_scan_inputs=1),
        node("Neg", ["outs"], ["y"]),
    ]
    source = model(nodes, [floats("z", 2), floats("xs", 3, 2)], [floats("y", 3, 2), floats("end", 2)])
    feeds = {"z": tensor(1, 2), "xs": StoredTensor.from_array(np.ones((3, 2), np.float32))}
    check_every_subset(source, feeds, ort)


def test_the_branch_not_taken_may_not_fit_the_recorded_shape(ort: PythonOrt) -> None:
    """With the whole shape declared, inference would refuse the Squeeze that never runs."""
    squeeze = branch("squeeze", node("Squeeze", ["h", "one"], ["s"]), output=info("s", FLOAT, None))
    keep = branch("keep", node("Identity", ["h"], ["k"]), output=info("k", FLOAT, None))
    nodes = [
        node("Neg", ["x"], ["g"]),
        node("Exp", ["g"], ["h"]),
        node("If", ["c"], ["y"], then_branch=squeeze, else_branch=keep),
    ]
    source = model(
        nodes,
        [floats("x", "a", "b"), info("c", BOOL, [])],
        [floats("y", "a", "b")],
        [numpy_helper.from_array(np.array([1], np.int64), "one")],
    )
    feeds = {"x": StoredTensor.from_array(np.ones((2, 3), np.float32)), "c": StoredTensor.from_array(np.array(False))}
    check_every_subset(source, feeds, ort)


# --- values that are no tensors ---


def test_sequences_hold_their_nodes_together(ort: PythonOrt) -> None:
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("SequenceConstruct", ["a", "x"], ["s"]),
        node("Exp", ["a"], ["b"]),
        node("SequenceInsert", ["s", "b"], ["s2"]),
        node("Abs", ["b"], ["c"]),
        node("ConcatFromSequence", ["s2"], ["d"], axis=0),
        node("Add", ["d", "c"], ["y"]),
    ]
    index = check_every_subset(model(nodes, [floats("x", 2)], [floats("y", "n")]), {"x": tensor(1)}, ort)
    assert index.together(1) == index.together(3) == index.together(5) == (1, 3, 5)
    assert index.closed([0, 3]) == (0, 1, 3, 5)
    assert index.together(0) == (0,)


def test_a_graph_output_that_is_a_sequence_is_kept_in_a_valid_model(ort: PythonOrt) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, [2])
    nodes = [node("Neg", ["x"], ["a"]), node("SequenceConstruct", ["a", "x"], ["s"])]
    index = check_every_subset(model(nodes, [floats("x", 2)], [sequence]), {"x": tensor(1, 2)}, ort)
    assert leaves(index, [0, 1]) == ["s"]


def test_optional_values_hold_their_nodes_together(ort: PythonOrt) -> None:
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Optional", ["a"], ["o"]),
        node("OptionalGetElement", ["o"], ["b"]),
        node("Exp", ["b"], ["y"]),
    ]
    index = check_every_subset(model(nodes, [floats("x", 2)], [floats("y", 2)], opset=18), {"x": tensor(1, 2)}, ort)
    assert index.together(1) == (1, 2)


def test_strings_are_promoted_like_numbers(ort: PythonOrt) -> None:
    words = numpy_helper.from_array(np.array(["-é", "", "\x00"], dtype=object), "words")
    nodes = [
        node("StringConcat", ["x", "words"], ["a"]),
        node("StringConcat", ["a", "x"], ["b"]),
        node("Identity", ["b"], ["y"]),
    ]
    strings = [info(name, TensorProto.STRING, [3]) for name in "xy"]
    feeds = {"x": StoredTensor.from_array(np.array(["a", "ß\n", "c"], dtype=object))}
    check_every_subset(model(nodes, strings[:1], strings[1:], [words], opset=20), feeds, ort)


# --- unusual graphs ---


def test_left_out_inputs_and_outputs_stay_left_out(ort: PythonOrt) -> None:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in (("w", (1, 8, 2)), ("r", (1, 8, 2)), ("h0", (1, 1, 2)))
    ]
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("LSTM", ["a", "w", "r", "", "", "h0"], ["", "h", ""], hidden_size=2),
        node("Clip", ["h", "", ""], ["y"]),
    ]
    source = model(nodes, [floats("x", 3, 1, 2)], [floats("y", 1, 1, 2)], weights)
    feeds = {"x": StoredTensor.from_array(np.ones((3, 1, 2), np.float32))}
    index = check_every_subset(source, feeds, ort)
    assert list(index.nodes[1].input) == ["a", "w", "r", "", "", "h0"]
    assert list(index.nodes[1].output)[:2] == ["", "h"]
    assert not any(list(index.nodes[1].output)[2:])


def test_a_value_read_twice_by_a_node_is_one_input(ort: PythonOrt) -> None:
    source = model([node("Neg", ["x"], ["a"]), node("Mul", ["a", "a"], ["y"])], [floats("x", 2)], [floats("y", 2)])
    index = check_every_subset(source, {"x": tensor(1, 2)}, ort)
    assert index.reads[1] == ["a"]
    assert index.consumers["a"] == [1]


def test_nodes_without_inputs(ort: PythonOrt) -> None:
    value = numpy_helper.from_array(np.array([5, 6], np.float32), "v")
    nodes = [node("Constant", [], ["k"], value=value), node("Add", ["k", "x"], ["y"])]
    index = check_every_subset(
        model(nodes, [floats("x", 2)], [floats("y", 2), floats("k", 2)]), {"x": tensor(1, 2)}, ort
    )
    assert [each.op_type for each in index.nodes] == ["Constant", "Add"]  # a graph output must have a producer


def test_a_random_node_is_recorded_and_cut(ort: PythonOrt) -> None:
    nodes = [node("RandomNormal", [], ["r"], shape=[4]), node("Abs", ["r"], ["y"])]
    index = subsets.indexed(model(nodes, [floats("x", 1)], [floats("y", 4)]), {"x": tensor(1)})
    recorded = record(index, {"x": tensor(1)}, timeout=subsets.ENOUGH, runtime=ort)
    subsets.check_subset(index, recorded, [1], ort, True)
    candidate = cut(index, [0], recorded)
    assert not candidate.feeds
    assert ort.run(request(candidate), timeout=subsets.ENOUGH).outputs["r"].shape == (4,)


def test_unused_outputs_are_outputs_only_where_nothing_else_is(ort: PythonOrt) -> None:
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=0),
        node("TopK", ["a", "k"], ["values", "indices"]),
        node("Neg", ["values"], ["y"]),
        node("Exp", ["x"], ["dead"]),
    ]
    k = numpy_helper.from_array(np.array([1], np.int64), "k")
    source = model(nodes, [floats("x", 4)], [floats("y", 1)], [k])
    index = check_every_subset(source, {"x": tensor(1, 2, 3, 4)}, ort)
    assert leaves(index, [0]) == ["a"]
    assert leaves(index, [1]) == ["values"]
    assert leaves(index, [0, 1, 2]) == ["y"]
    assert leaves(index, [3]) == ["dead"]


def test_a_graph_output_that_a_kept_node_reads_stays_an_output(ort: PythonOrt) -> None:
    nodes = [node("Neg", ["x"], ["key"]), node("Exp", ["key"], ["h"]), node("Abs", ["h"], ["y"])]
    source = model(nodes, [floats("x", 2)], [floats("key", 2), floats("y", 2)])
    index = check_every_subset(source, {"x": tensor(1, 2)}, ort)
    assert leaves(index, [0, 1]) == ["key", "h"]
    assert leaves(index, [0, 1, 2]) == ["key", "y"]
    recorded = {name: tensor(1, 2) for name in ("x", "key", "h", "y")}
    assert cut(index, [0, 1], recorded, outputs=["h"]).outputs == ["h"]


def test_graph_outputs_that_are_inputs_or_initializers(ort: PythonOrt) -> None:
    weight = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    source = model(
        [node("Add", ["x", "w"], ["y"])], [floats("x", 2)], [floats("x", 2), floats("y", 2), floats("w", 2)], [weight]
    )
    feeds = {"x": tensor(1, 2)}
    index = check_every_subset(source, feeds, ort)
    recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
    entire = whole(index.model, feeds)
    result = ort.run(request(entire), timeout=subsets.ENOUGH)
    for name in entire.outputs:
        assert np.array_equal(result.outputs[name], recorded[name].array)


@pytest.mark.parametrize("ir_version", [3, 4, 8])
@pytest.mark.parametrize("fed", [False, True])
def test_initializers_that_are_graph_inputs_too(ir_version: int, fed: bool, ort: PythonOrt) -> None:
    weight = numpy_helper.from_array(np.array([3, 4], np.float32), "w")
    constant = numpy_helper.from_array(np.array([7, 7], np.float32))
    nodes = [
        node("Constant", [], ["k"], value=constant),
        node("Add", ["x", "w"], ["a"]),
        node("Mul", ["a", "k"], ["y"]),
    ]
    source = model(nodes, [floats("x", 2), floats("w", 2)], [floats("y", 2)], [weight], ir_version, opset=8)
    feeds = {"x": tensor(1, 2)} | ({"w": tensor(5, 5)} if fed else {})
    if fed and ir_version < 4:
        pytest.skip("before IR version 4 onnxruntime takes initializers for constants")
    index = check_every_subset(source, feeds, ort)
    assert ("w" in index.initializers) is not fed
    recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
    assert recorded["y"].array.tolist() == ([42, 49] if fed else [28, 42])
    assert set(cut(index, [0], recorded).feeds) == set(feeds)


def test_scalars_and_empty_tensors(ort: PythonOrt) -> None:
    nodes = [
        node("Slice", ["x", "zero", "zero"], ["none"]),
        node("Neg", ["none"], ["still"]),
        node("ReduceSum", ["still"], ["nought"], keepdims=0),
        node("Add", ["nought", "s"], ["y"]),
    ]
    weights = [numpy_helper.from_array(np.array([0], np.int64), "zero"), numpy_helper.from_array(np.float32(2), "s")]
    source = model(nodes, [floats("x", 2)], [floats("y")], weights)
    index = check_every_subset(source, {"x": tensor(1, 2)}, ort)
    recorded = record(index, {"x": tensor(1, 2)}, timeout=subsets.ENOUGH, runtime=ort)
    assert (recorded["none"].shape, recorded["y"].shape) == ((0,), ())
    assert recorded["y"].array == 2


def test_outputs_whose_declaration_is_missing_or_wrong(ort: PythonOrt) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Exp", ["a"], ["b"])]
    source = model(nodes, [floats("x", "n")], [info("a", FLOAT, None), floats("b", 7)])
    index = subsets.indexed(source, {"x": tensor(1, 2)})
    recorded = record(index, {"x": tensor(1, 2)}, timeout=subsets.ENOUGH, runtime=ort)
    for nodes_kept in ([0], [1], [0, 1]):
        subsets.check_subset(index, recorded, nodes_kept, ort, True)


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "FLOAT16"])
def test_narrow_types_inside_and_across_the_cut(name: str, ort: PythonOrt) -> None:
    kind = TensorProto.DataType.Value(name)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weight = numpy_helper.from_array(np.array([1, 0, 1, 0, 1], np.float32).astype(dtype), "w")
    nodes = [
        node("Cast", ["x"], ["a"], to=kind),
        node("Cast", ["a"], ["b"], to=FLOAT),
        node("Cast", ["w"], ["c"], to=FLOAT),
        node("Add", ["b", "c"], ["y"]),
    ]
    source = model(nodes, [floats("x", 5)], [floats("y", 5)], [weight], ir_version=10, opset=21)
    index = check_every_subset(source, {"x": tensor(0, 1, 2, 3, 1)}, ort)
    assert index.promotable("a")


def test_weights_of_narrow_types_stay_outside(ort: PythonOrt) -> None:
    """A quantised matrix of 4-bit integers, large enough to be held by reference, through onnxruntime and back."""
    import ml_dtypes

    packed = numpy_helper.from_array((np.arange(16384) % 7).astype(ml_dtypes.int4).reshape(128, 128), "w")
    scale = numpy_helper.from_array(np.float32(0.5), "scale")
    nodes = [node("DequantizeLinear", ["w", "scale"], ["f"]), node("MatMul", ["x", "f"], ["y"])]
    source = model(nodes, [floats("x", 1, 128)], [floats("y", 1, 128)], [packed, scale], ir_version=10, opset=21)
    feeds = {"x": StoredTensor.from_array(np.ones((1, 128), np.float32))}
    index = check_every_subset(source, feeds, ort)
    assert [blob.length for blob in index.model.external.values()] == [8192]


def test_functions_that_cannot_be_inlined_go_where_they_are_called(ort: PythonOrt) -> None:
    """onnx-ir inlines no function of another opset; then only candidates that call it carry it."""
    inner = helper.make_function(
        "my", "Inner", ["a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 16)]
    )
    imports = [helper.make_opsetid("", 16), helper.make_opsetid("my", 1)]
    outer = helper.make_function(
        "my", "Outer", ["a"], ["b"], [node("Inner", ["a"], ["c"], domain="my"), node("Exp", ["c"], ["b"])], imports
    )
    nodes = [node("Outer", ["x"], ["h"], domain="my"), node("Abs", ["h"], ["y"])]
    source = model(nodes, [floats("x", 2)], [floats("y", 2)])
    source.opset_import.append(helper.make_opsetid("my", 1))
    source.functions.extend([inner, outer])
    index = check_every_subset(source, {"x": tensor(1, 2)}, ort)
    recorded = {name: tensor(1, 2) for name in "xhy"}
    assert [each.name for each in cut(index, [0], recorded).model.proto.functions] == ["Inner", "Outer"]
    assert not cut(index, [1], recorded).model.proto.functions


# --- cost ---


def test_a_candidate_of_a_heavy_model_is_small(tmp_path: Path, ort: PythonOrt) -> None:
    weight = numpy_helper.from_array(np.full((5000, 2500), 1e-4, np.float32), "w")
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Neg", ["a"], ["y"])]
    source = model(nodes, [floats("x", 1, 5000)], [floats("y", 1, 2500)], [weight])
    beside = ModelProto.FromString(source.SerializeToString())
    onnx.save(beside, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin")
    feeds = {"x": StoredTensor.from_array(np.ones((1, 5000), np.float32))}
    for given_model in (tmp_path / "m.onnx", source):
        index = subsets.indexed(given_model, feeds)
        recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
        candidate = cut(index, [0, 1], recorded)
        asked = request(candidate)
        assert len(asked.model) < 1000
        assert [blob.length for blob in asked.external.values()] == [50_000_000]
        assert cut(index, [1], recorded).external == {}
        result = ort.run(asked, timeout=subsets.ENOUGH)
        assert result.status is Status.OK
        assert np.array_equal(result.outputs["y"], recorded["y"].array)
        recorded.close()
    (blob,) = normalise(load(tmp_path / "m.onnx")).external.values()
    assert blob.data is None
    assert blob.path == (tmp_path / "m.bin").resolve()


def test_weights_of_bodies_are_held_by_reference(ort: PythonOrt) -> None:
    """Both branches name their weight alike; both weights must be known apart once they are outside."""

    def body(name: str, value: float, sign: str) -> onnx.GraphProto:
        weights = [numpy_helper.from_array(np.full(2000, value, np.float32), "w")]
        return branch(name, node(sign, ["x", "w"], ["r"]), output=floats("r", 2000), weights=weights)

    big = numpy_helper.from_array(np.full(2000, 9, np.float32))
    then = body("then", 2, "Add")
    then.node.insert(0, node("Constant", [], ["k"], value=big))
    then.node.append(node("Mul", ["r", "k"], ["rk"]))
    then.output[0].name = "rk"
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=body("else", 3, "Sub"))]
    source = model(nodes, [floats("x", 2000), info("c", BOOL, [])], [floats("y", 2000)])
    for condition, expected in ((True, 27), (False, -2)):
        x = StoredTensor.from_array(np.ones(2000, np.float32))
        feeds = {"x": x, "c": StoredTensor.from_array(np.array(condition))}
        index = check_every_subset(source, feeds, ort)
        recorded = record(index, feeds, timeout=subsets.ENOUGH, runtime=ort)
        assert np.all(recorded["y"].array == expected)
        asked = request(cut(index, [0], recorded))
        assert len(asked.model) < 2000
        assert len(asked.external) == 3
