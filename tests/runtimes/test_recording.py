"""The recording holds every tensor of a model, however it was cut into pieces, and names the node that cannot run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import subsets
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxreduce.errors import BadInputError
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.runtimes import recording as room
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER, Recording, record

node, info = helper.make_node, helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT
ENOUGH = 60.0


@pytest.fixture(scope="module")
def ort() -> Iterator[PythonOrt]:
    runtime = PythonOrt(RECORDER)
    yield runtime
    runtime.close()


def index_of(
    nodes: list[NodeProto], outputs: list[ValueInfoProto] | None = None, *weights: TensorProto, opset: int = 17
) -> GraphIndex:
    outputs = outputs or [info("y", FLOAT, None)]
    graph = helper.make_graph(nodes, "g", [info("x", FLOAT, ["n"])], outputs, weights)
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])
    return GraphIndex(normalise(load(proto)), ["x"])


def x(*values: float) -> dict[str, StoredTensor]:
    return {"x": StoredTensor.from_array(np.array(values or (1, 2), dtype=np.float32))}


def chain(length: int) -> list[NodeProto]:
    values = ["x", *(f"v{at}" for at in range(1, length)), "y"]
    return [node("Neg", [a], [b]) for a, b in itertools.pairwise(values)]


def small_pieces(monkeypatch: pytest.MonkeyPatch, nodes: int = 1, growth: int = 1) -> None:
    monkeypatch.setattr(room, "_FIRST_PIECE_NODES", nodes)
    monkeypatch.setattr(room, "_GROWTH", growth)


def test_every_tensor_is_recorded_and_the_inputs_too(ort: PythonOrt) -> None:
    index = index_of(chain(7))
    recorded = record(index, x(), timeout=ENOUGH, runtime=ort)
    assert set(recorded) == {"x", *index.producer}
    assert recorded["v3"].array.tolist() == [-1, -2]
    assert recorded.seconds > 0
    assert len(recorded) == 8
    recorded.close()


@pytest.mark.parametrize("nodes", [1, 2, 3, 100])
def test_pieces_do_not_change_what_is_recorded(nodes: int, ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    path = subsets.case("ops/layernorm_keepdims0_hosted")
    feeds = subsets.feeds_of(path)
    index = subsets.indexed(path, feeds)
    entire = record(index, feeds, timeout=ENOUGH, runtime=ort)
    small_pieces(monkeypatch, nodes, growth=2 if nodes < 3 else 1)
    pieces = record(index, feeds, timeout=ENOUGH, runtime=ort)
    assert set(entire) == set(pieces) == {*feeds, *index.producer}
    for name, tensor in entire.items():
        subsets.assert_same(name, pieces[name].array, tensor.array, subsets.TOLERANCE)


def test_the_recording_is_what_onnxruntime_computes(ort: PythonOrt) -> None:
    path = subsets.case("real/silero_vad_16k_sequence")
    feeds = subsets.feeds_of(path)
    recorded = record(subsets.indexed(path, feeds), feeds, timeout=ENOUGH, runtime=ort)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for name, array in zip(names, session.run(names, {name: each.array for name, each in feeds.items()}), strict=True):
        subsets.assert_same(name, recorded[name].array, array, subsets.TOLERANCE)


def sequences() -> list[NodeProto]:
    """Sequences that reach far over the nodes between."""
    return [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("Neg", ["x"], ["a"]),
        node("Exp", ["a"], ["b"]),
        node("SequenceInsert", ["s", "b"], ["t"]),
        node("Abs", ["b"], ["c"]),
        node("Add", ["c", "a"], ["d"]),
        node("SequenceAt", ["t", "one"], ["e"]),
        node("ConcatFromSequence", ["t"], ["f"], axis=0),
        node("Add", ["e", "d"], ["y"]),
    ]


ONE = numpy_helper.from_array(np.array(1, np.int64), "one")


@pytest.mark.parametrize("nodes", [1, 2, 4, 9])
def test_sequences_may_cross_the_borders_of_pieces(nodes: int, ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch, nodes)
    index = index_of(sequences(), None, ONE)
    recorded = record(index, x(), timeout=ENOUGH, runtime=ort)
    assert set(recorded) == {"x", *index.producer} - {"s", "t"}
    np.testing.assert_allclose(recorded["f"].array, [1, 2, 1, 2, *np.exp([-1, -2])], rtol=1e-6)


@pytest.mark.parametrize("nodes", [1, 3, 9])
def test_what_is_no_tensor_is_learned_from_the_run(nodes: int, ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where onnx knows no type for an operator's output."""
    small_pieces(monkeypatch, nodes)
    monkeypatch.setattr("onnxreduce.graph.index.declared_types", lambda proto: {})
    index = index_of(sequences(), None, ONE)
    assert index.promotable("s")
    recorded = record(index, x(), timeout=ENOUGH, runtime=ort)
    assert not index.promotable("s")
    assert index.together(0) == (0, 3, 6, 7)
    assert set(recorded) == {"x", *index.producer} - {"s", "t"}


def test_a_model_whose_only_outputs_are_no_tensors(ort: PythonOrt) -> None:
    output = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    index = index_of([node("SequenceConstruct", ["x"], ["s"])], [output])
    assert set(record(index, x(), timeout=ENOUGH, runtime=ort)) == {"x"}


@pytest.mark.parametrize("at", [0, 1, 5, 11])
@pytest.mark.parametrize("nodes", [4, 100])
def test_the_node_that_cannot_run_is_named(
    at: int, nodes: int, ort: PythonOrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_pieces(monkeypatch, nodes)
    bodies = chain(12)
    bodies[at] = node("Reshape", [bodies[at].input[0], "s"], bodies[at].output, name="bad\none")
    index = index_of(bodies, None, numpy_helper.from_array(np.array([7, 7], np.int64), "s"))
    with pytest.raises(BadInputError) as error:
        record(index, x(), timeout=ENOUGH, runtime=ort)
    text = str(error.value)
    assert text.startswith("the reference cannot run node 'bad\\none' (Reshape): run error: ")
    assert text.isprintable()
    assert "/model.onnx" not in text


def test_an_operator_that_the_reference_does_not_have(ort: PythonOrt) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Nothing\x1b", ["a"], ["b"], name="n"), node("Neg", ["b"], ["y"])]
    with pytest.raises(BadInputError, match=r"node 'n' \('Nothing\\x1b'\): create error") as error:
        record(index_of(nodes), x(), timeout=ENOUGH, runtime=ort)
    assert str(error.value).isprintable()


def test_a_node_within_sequences_that_cannot_run(ort: PythonOrt) -> None:
    nodes = sequences()
    nodes[6] = node("SequenceAt", ["t", "far"], ["e"], name="beyond")
    far = numpy_helper.from_array(np.array(99, np.int64), "far")
    with pytest.raises(BadInputError, match=r"node 'beyond' \(SequenceAt\): run error"):
        record(index_of(nodes, None, ONE, far), x(), timeout=ENOUGH, runtime=ort)


def test_sizes_that_no_machine_has(ort: PythonOrt) -> None:
    nodes = [node("Neg", ["x"], ["a"]), node("Expand", ["a", "s"], ["b"], name="huge"), node("Neg", ["b"], ["y"])]
    for size in (2**40, 2**62):
        shape = numpy_helper.from_array(np.array([size, 1], np.int64), "s")
        with pytest.raises(BadInputError, match=r"node 'huge' \(Expand\)"):
            record(index_of(nodes, None, shape), x(1), timeout=ENOUGH, runtime=ort)


def test_a_hang_is_told_once_and_not_sought_in_halves(ort: PythonOrt) -> None:
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Neg", ["a"], ["b"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("a", FLOAT, None)],
        [info("d", TensorProto.BOOL, []), info("b", FLOAT, None)],
    )
    turns = numpy_helper.from_array(np.array(2**60, np.int64), "n")
    nodes = [node("Neg", ["x"], ["v"], name="first"), node("Loop", ["n", "", "v"], ["y"], body=body, name="last")]
    began = time.monotonic()
    with pytest.raises(
        BadInputError, match=r"nodes from node 'first' \(Neg\) to node 'last' \(Loop\): hang: no answer in 1 s"
    ):
        record(index_of(nodes, None, turns), x(), timeout=1, runtime=ort)
    assert time.monotonic() - began < 8


def test_halves_that_run_where_the_whole_does_not(ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece may be too much for the memory; its halves are not."""
    run_into = PythonOrt.run_into

    def limited(self: PythonOrt, asked: object, *args: object, **kwargs: object) -> object:
        if len(asked.outputs) > 3:  # type: ignore[attr-defined]
            return room.RunResult(room.Status.DEAD, message="SIGKILL"), []
        return run_into(self, asked, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(PythonOrt, "run_into", limited)
    index = index_of(chain(20))
    assert set(record(index, x(), timeout=ENOUGH, runtime=ort)) == {"x", *index.producer}


def test_pieces_shrink_when_values_are_large(ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    whole_record = room._Recorder.record

    def spied(self: room._Recorder, start: int, end: int) -> int:
        sizes.append(end - start)
        return whole_record(self, start, end)

    monkeypatch.setattr(room._Recorder, "record", spied)
    monkeypatch.setattr(room, "_PIECE_BYTES", 5 * 8)  # five values of two floats
    index = index_of(chain(60))
    assert set(record(index, x(), timeout=ENOUGH, runtime=ort)) == {"x", *index.producer}
    assert sizes[0] == 32
    assert set(sizes[1:-1]) == {5}


def test_equal_values_lie_on_disk_once_and_none_in_memory(ort: PythonOrt, tmp_path: Path) -> None:
    recorded = record(index_of(chain(10)), x(*range(1000)), timeout=ENOUGH, folder=tmp_path, runtime=ort)
    assert sorted(path.stat().st_size for path in tmp_path.iterdir()) == [4000, 4000]
    for name, tensor in recorded.items():
        assert name == "x" or (tensor.blob.data is None and tensor.blob.path == tmp_path / tensor.blob.digest)
    recorded.close()
    assert list(tmp_path.iterdir()), "a folder that was given is the giver's to remove"


def test_its_own_folder_goes_with_it(ort: PythonOrt) -> None:
    recorded = record(index_of(chain(2)), x(), timeout=ENOUGH, runtime=ort)
    folder = recorded.folder
    assert folder.is_dir()
    recorded.close()
    assert not folder.exists()


def test_nothing_is_left_when_it_fails(ort: PythonOrt, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recording] = []
    monkeypatch.setattr(room, "Recording", lambda *args: made.append(Recording(*args)) or made[-1])
    index = index_of([node("Nothing", ["x"], ["y"])])
    with pytest.raises(BadInputError):
        record(index, x(), timeout=ENOUGH, runtime=ort)
    assert not made[0].folder.exists()


def test_outputs_that_are_initializers_are_recorded(ort: PythonOrt) -> None:
    weights = [numpy_helper.from_array(np.arange(size, dtype=np.float32), f"w{size}") for size in (2, 2000)]
    outputs = [info("y", FLOAT, None), *(info(each.name, FLOAT, list(each.dims)) for each in weights)]
    index = index_of([node("Neg", ["x"], ["y"])], outputs, *weights)
    recorded = record(index, x(), timeout=ENOUGH, runtime=ort)
    for weight in weights:
        assert np.array_equal(recorded[weight.name].array, numpy_helper.to_array(weight))


def test_a_runtime_of_its_own_is_closed() -> None:
    recorded = record(index_of(chain(2)), x(), timeout=ENOUGH)
    assert recorded["y"].array.tolist() == [1, 2]
    recorded.close()


def test_bodies_and_weights_of_every_kind_record(ort: PythonOrt) -> None:
    """Models of the shared cases with If bodies, quantised weights and half floats."""
    for name in ("real/silero_vad_openvino_16k", "real/rawi_int8", "real/slovorez"):
        path = subsets.case(name)
        feeds = subsets.feeds_of(path)
        index = subsets.indexed(path, feeds)
        recorded = record(index, feeds, timeout=ENOUGH, runtime=ort)
        assert set(recorded) >= {*feeds, *(value for value in index.producer if index.promotable(value))}
        recorded.close()
