"""The folder that leaves: laid out as ONNX's tools expect, rewritten without leftovers, and its script runs."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxreduce.emit import folder as folder_module
from onnxreduce.emit import script as script_module
from onnxreduce.emit.canonical import same_model
from onnxreduce.emit.folder import run_script, write_atomically, write_reduction, write_test_data_set
from onnxreduce.emit.script import Script, builder_script
from onnxreduce.errors import OnnxReduceError
from onnxreduce.graph.input_files import read_inputs
from onnxreduce.graph.tensors import StoredTensor

NOISE = np.random.default_rng(0).uniform(size=(9, 9)).astype(np.float32)


def model_with_inputs(*names: str, default: str = "") -> onnx.ModelProto:
    """The sum of all inputs and of a weight; one input may have a default."""
    outputs = [f"sum_{position}" for position in range(len(names))]
    nodes = [
        helper.make_node("Add", [before, name], [after])
        for before, name, after in zip(["w", *outputs], names, outputs, strict=False)
    ]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [9, 9]) for name in {*names, *outputs}}
    initializers = [numpy_helper.from_array(NOISE, "w")]
    if default:
        initializers.append(numpy_helper.from_array(NOISE, default))
    graph = helper.make_graph(nodes, "g", [infos[n] for n in names], [infos[outputs[-1]]], initializers)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def feeds_of(*names: str) -> dict[str, StoredTensor]:
    return {name: StoredTensor.from_array(NOISE + position) for position, name in enumerate(names)}


def write(folder: Path, model: onnx.ModelProto, feeds: dict[str, StoredTensor]) -> None:
    expected = {model.graph.output[0].name: StoredTensor.from_array(NOISE)}
    script = builder_script(model, feeds, title_lines=["A title"])
    write_reduction(folder, model, feeds, expected, script, {"nodes": len(model.graph.node)})


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_reduction_is_complete_and_its_script_makes_it_again(tmp_path: Path) -> None:
    model, feeds = model_with_inputs("x", "y"), feeds_of("x", "y")
    write(tmp_path, model, feeds)
    data = [f"test_data_set_0/{name}_{n}.pb" for name, n in (("input", 0), ("input", 1), ("output", 0))]
    assert files(tmp_path) == ["build_repro.py", "reduced.onnx", "summary.json", *data, "weights/0_w.pb"]
    assert json.loads((tmp_path / "summary.json").read_text()) == {"nodes": 2}
    assert same_model(onnx.load(tmp_path / "reduced.onnx"), model)
    built, inputs = run_script(tmp_path, timeout=60)
    assert same_model(built, model)
    assert {name: each.blob.digest for name, each in inputs.items()} == {n: t.blob.digest for n, t in feeds.items()}
    assert list(read_inputs(tmp_path)) == ["x", "y"]


def test_a_smaller_reduction_leaves_nothing_of_the_larger(tmp_path: Path) -> None:
    write(tmp_path, model_with_inputs("x", "y", "z"), feeds_of("x", "y", "z"))
    (tmp_path / "weights" / "mine.txt").write_text("kept")
    small = model_with_inputs("x")
    small.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((9, 9), np.float32), "w"))
    write(tmp_path, small, feeds_of("x"))
    data = ["test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"]
    assert files(tmp_path) == ["build_repro.py", "reduced.onnx", "summary.json", *data, "weights/mine.txt"]


def test_inputs_with_a_default_are_counted_last(tmp_path: Path) -> None:
    model = model_with_inputs("d", "x", default="d")
    write_test_data_set(tmp_path, model, feeds_of("d", "x"), {})
    names = [onnx.load_tensor(tmp_path / f"test_data_set_0/input_{n}.pb").name for n in (0, 1)]
    assert names == ["x", "d"]
    with pytest.raises(ValueError, match="graph output"):
        write_test_data_set(tmp_path, model, {}, {"x": StoredTensor.from_array(NOISE)})
    with pytest.raises(ValueError, match="graph input"):
        write_test_data_set(tmp_path, model, feeds_of("q"), {})


@pytest.mark.parametrize(
    "names", [("file", "x"), ("a\x00b", "a\x00c"), ("../../up", "/etc/x", "a.npy"), ("日本", "q'\"")], ids=str
)
def test_hostile_input_names_come_back(tmp_path: Path, names: tuple[str, ...]) -> None:
    model, feeds = model_with_inputs(*names), feeds_of(*names)
    write(tmp_path / "folder", model, feeds)
    _, inputs = run_script(tmp_path / "folder", timeout=60)
    assert {name: each.blob.digest for name, each in inputs.items()} == {n: t.blob.digest for n, t in feeds.items()}


def test_types_that_numpy_cannot_name_come_back(tmp_path: Path) -> None:
    feeds = {
        "bf": StoredTensor.from_array(np.linspace(-1, 1, 99).astype(ml_dtypes.bfloat16)),
        "i4": StoredTensor.from_array(np.array([-8, 7, 1], ml_dtypes.int4)),
        "s": StoredTensor.from_array(np.array(["", "ab"], object)),
    }
    infos = [helper.make_tensor_value_info(name, each.elem_type, each.shape) for name, each in feeds.items()]
    model = helper.make_model(helper.make_graph([], "g", infos, []))
    write_reduction(tmp_path, model, feeds, {}, builder_script(model, feeds, title_lines=[]), {})
    _, inputs = run_script(tmp_path, timeout=60)
    for name, tensor in feeds.items():
        assert (inputs[name].elem_type, inputs[name].blob.digest) == (tensor.elem_type, tensor.blob.digest)


def test_a_large_model_is_saved_with_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_module, "MAX_INLINE_BYTES", 100)
    monkeypatch.setattr(folder_module, "MAX_INLINE_BYTES", 100)
    big = np.random.default_rng(0).uniform(size=(20, 20)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["w", "w"], ["y"])],
        "g",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [20, 20])],
        [numpy_helper.from_array(big, "w")],
    )
    model = helper.make_model(graph, ir_version=9)
    for _ in range(2):
        write_reduction(tmp_path, model, {}, {}, builder_script(model, {}, title_lines=[]), {})
    assert {"reduced.onnx", "reduced.onnx.data"} <= set(files(tmp_path))
    assert same_model(onnx.load(tmp_path / "reduced.onnx"), model)
    assert same_model(run_script(tmp_path, timeout=60)[0], model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('no such luck')", "ValueError: no such luck"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("pass", "no model"),
        ("import time; time.sleep(60)", "within 1 seconds"),
        ("open('model.onnx', 'w').write('nonsense')", "no model"),
    ],
)
def test_a_failing_script_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    write_atomically(tmp_path / "build_repro.py", Script(text, {}).text.encode())
    with pytest.raises(OnnxReduceError, match=message) as caught:
        run_script(tmp_path, timeout=1 if "sleep" in text else 60)
    assert "\n" not in str(caught.value)


def test_the_script_sees_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    write_atomically(tmp_path / "build_repro.py", b"import os; raise SystemExit(sorted(os.environ))")
    with pytest.raises(OnnxReduceError) as caught:
        run_script(tmp_path, timeout=60)
    assert "SOME_TOKEN" not in str(caught.value) and "PYTHONINSPECT" not in str(caught.value)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"old")

    def fail(self: Path, content: bytes) -> int:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old" and files(tmp_path) == ["a"]
