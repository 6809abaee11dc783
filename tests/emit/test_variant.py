"""What a script can do beside building the failing model: the passing one as an edit, and a run of either."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxreduce.emit.canonical import same_model
from onnxreduce.emit.edits import edits
from onnxreduce.emit.folder import (
    PASSING_DATA,
    PASSING_MODEL,
    remove_passing,
    run_script,
    write_passing,
    write_reduction,
)
from onnxreduce.emit.script import Script, builder_script
from onnxreduce.emit.variant import Passing, PythonRun, extended
from onnxreduce.graph.tensors import StoredTensor

VALUE = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT
Change = Callable[[ModelProto], None]


def chains() -> ModelProto:
    """Two independent chains, four nodes."""
    nodes = [
        helper.make_node("Cast", ["u"], ["f"], to=FLOAT),
        helper.make_node("Neg", ["f"], ["D"]),
        helper.make_node("Neg", ["pw"], ["mn"]),
        helper.make_node("Add", ["mn", "eps"], ["ad"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [VALUE("u", TensorProto.INT64, [1]), VALUE("pw", FLOAT, [1])],
        [VALUE("D", FLOAT, [1]), VALUE("ad", FLOAT, [1])],
        [numpy_helper.from_array(np.float32(0.5), "eps")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def feeds() -> dict[str, StoredTensor]:
    arrays = {"u": np.array([3]), "pw": np.array([2], np.float32)}
    return {name: StoredTensor.from_array(array) for name, array in arrays.items()}


def reordered(model: ModelProto) -> None:
    model.graph.node.sort(key=lambda node: ["mn", "ad", "f", "D"].index(node.output[0]))


def without_add(model: ModelProto) -> None:
    del model.graph.node[3]
    del model.graph.initializer[:]
    model.graph.output[1].name = "mn"


def float_fed(model: ModelProto) -> None:
    del model.graph.node[0]
    model.graph.input[0].CopyFrom(VALUE("f", FLOAT, [1]))


def exposed(model: ModelProto) -> None:
    model.graph.output.insert(1, VALUE("f", FLOAT, [1]))


def constant(model: ModelProto) -> None:
    del model.graph.input[0]
    model.graph.initializer.append(numpy_helper.from_array(np.array([3]), "u"))
    model.ir_version = 9


CHANGES = {
    reordered: ['made.graph.node.sort(key=lambda node: ["mn", "ad", "f", "D"].index(node.output[0]))'],
    without_add: [
        "del made.graph.node[3]",
        'made.graph.output[1].CopyFrom(tensor_info("mn", TP.FLOAT, [1]))',
        "del made.graph.initializer[0]",
    ],
    float_fed: ["del made.graph.node[0]", 'made.graph.input[0].CopyFrom(tensor_info("f", TP.FLOAT, [1]))'],
    exposed: ['made.graph.output.insert(1, tensor_info("f", TP.FLOAT, [1]))'],
    constant: [
        "del made.graph.input[0]",
        'made.graph.initializer.append(numpy_helper.from_array(np.array([3], np.int64), "u"))',
        "made.ir_version = 9",
    ],
}


def changed(change: Change) -> ModelProto:
    model = chains()
    change(model)
    return model


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_small_change_is_told_in_few_lines(change: Change) -> None:
    assert edits(chains(), changed(change), {}) == CHANGES[change]


def base() -> Script:
    return builder_script(chains(), feeds(), title_lines=["A fault."])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_edit_builds_the_passing_model(execute: Callable[[Script], dict[str, object]], change: Change) -> None:
    after = changed(change)
    inputs = feeds() | {"f": StoredTensor.from_array(np.array([3], np.float32))}
    inputs = {value.name: inputs[value.name] for value in after.graph.input}
    script = extended(base().text, chains(), feeds(), Passing("it: right", after, inputs), None)
    names = execute(Script(script.text, {**base().data, **script.data}))
    made, values = names["passing"]()  # type: ignore[operator]
    assert same_model(made, after)
    assert {name: array.tolist() for name, array in values.items()} == {
        name: tensor.array.tolist() for name, tensor in inputs.items()
    }
    assert same_model(names["model"](), chains())  # type: ignore[operator]


def test_the_failing_part_stays_and_what_is_added_can_be_replaced_and_taken_away() -> None:
    before = base().text
    passing = Passing("Neg moved: right", changed(reordered), feeds())
    first = extended(before, chains(), feeds(), passing, None).text
    failing = before.partition('if __name__ == "__main__":')[0]
    assert first.startswith(failing)
    assert len(failing.splitlines()) <= 30
    assert max(map(len, first.splitlines())) <= 120
    other = Passing("Add left out: right", changed(without_add), feeds())
    second = extended(first, chains(), feeds(), other, None).text
    assert second == extended(before, chains(), feeds(), other, None).text
    assert extended(second, chains(), feeds(), None, None).text == before


def test_a_title_may_hold_any_words() -> None:
    hostile = '# Beside the failing model: \nif __name__ == "__main__":\ndef inputs():'
    script = builder_script(chains(), feeds(), title_lines=[hostile])
    passing = Passing(f'it """ {hostile}\\', changed(reordered), feeds())
    again = extended(script.text, chains(), feeds(), passing, None)
    names: dict[str, object] = {"__name__": "build_repro"}
    exec(compile(again.text, "build_repro.py", "exec"), names)
    assert same_model(names["passing"]()[0], changed(reordered))  # type: ignore[operator]
    assert extended(again.text, chains(), feeds(), None, None).text == script.text


def written(folder: Path, passing: Passing | None, run: PythonRun | None) -> None:
    write_reduction(folder, chains(), feeds(), expected(chains(), feeds()), base(), {})
    script = extended(base().text, chains(), feeds(), passing, run)
    if passing is None:
        (folder / "build_repro.py").write_text(script.text, "utf-8")
    else:
        outputs = expected(passing.model, passing.inputs)
        write_passing(folder, script, passing.model, passing.inputs, outputs, {})


def expected(model: ModelProto, inputs: dict[str, StoredTensor] | object) -> dict[str, StoredTensor]:
    import onnx.reference

    values = {name: tensor.array for name, tensor in dict(inputs).items()}  # type: ignore[call-overload]
    names = [value.name for value in model.graph.output]
    found = onnx.reference.ReferenceEvaluator(model).run(names, values)
    return {name: StoredTensor.from_array(np.asarray(each)) for name, each in zip(names, found, strict=True)}


def large() -> tuple[ModelProto, dict[str, StoredTensor]]:
    """A passing model that no short edit makes, with an input that no short expression gives."""
    model = changed(float_fed)
    noise = np.random.default_rng(0).normal(size=(9, 9)).astype(np.float32)
    model.graph.input[1].CopyFrom(VALUE("pw", FLOAT, [9, 9]))
    model.graph.output[1].CopyFrom(VALUE("ad", FLOAT, [9, 9]))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(noise, "eps"))
    arrays = {"f": np.array([3], np.float32), "pw": noise}
    return model, {name: StoredTensor.from_array(array) for name, array in arrays.items()}


def test_what_is_too_large_for_code_lies_beside_the_script(tmp_path: Path) -> None:
    model, inputs = large()
    written(tmp_path, Passing("it: right", model, inputs), None)
    text = (tmp_path / "build_repro.py").read_text("utf-8")
    assert f'made, values = onnx.load(HERE / "{PASSING_MODEL}"), inputs()' in text
    assert f'onnx.load_tensor(HERE / "{PASSING_DATA}/input_1.pb")' in text
    made, values = run_script(tmp_path, 60, "--variant", "passing")
    assert same_model(made, model)
    assert values["pw"].blob.digest == inputs["pw"].blob.digest
    made, _ = run_script(tmp_path, 60)
    assert same_model(made, chains())
    remove_passing(tmp_path)
    assert not list(tmp_path.glob("passing*"))


STORED = PythonRun("1.2.3", "CPUExecutionProvider", "ORT_ENABLE_ALL")
LEVELS = PythonRun("1.2.3", "CPUExecutionProvider", "ORT_ENABLE_ALL", "ORT_DISABLE_ALL", ("EliminateIdentity",))


@pytest.mark.parametrize("run", [STORED, LEVELS], ids=["stored", "levels"])
def test_a_run_prints_the_difference_of_each_output(tmp_path: Path, run: PythonRun) -> None:
    written(tmp_path, Passing("f put out: right", changed(exposed), feeds()), run)
    place = tmp_path / "elsewhere"
    place.mkdir()

    def said(*arguments: str) -> list[str]:
        command = [sys.executable, "../build_repro.py", "--run", *arguments]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    right = "0 of 1 elements differ, by 0 at most"
    assert said() == [f"D: {right}", f"ad: {right}"]
    assert said("--variant", "passing") == [f"D: {right}", f"f: {right}", f"ad: {right}"]
    assert sorted(path.name for path in place.iterdir()) == ["inputs.npz", "model.onnx"]


def test_a_run_tells_a_difference_from_what_is_stored_and_an_error(tmp_path: Path) -> None:
    written(tmp_path, None, STORED)
    stored = numpy_helper.from_array(np.array([-2.5], np.float32), "D")
    (tmp_path / "test_data_set_0" / "output_0.pb").write_bytes(stored.SerializeToString())
    command = [sys.executable, "build_repro.py", "--run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "D: 1 of 1 elements differ, by 0.5 at most"
    text = (tmp_path / "build_repro.py").read_text("utf-8")
    (tmp_path / "build_repro.py").write_text(text.replace("np.array([3], np.int64)", "np.array([3, 3], np.int64)"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " fails: " in done.stdout and "invalid dimensions" in done.stdout


def test_without_arguments_the_script_does_what_it_did(tmp_path: Path) -> None:
    written(tmp_path, Passing("it: right", changed(reordered), feeds()), LEVELS)
    made, values = run_script(tmp_path, 60)
    assert same_model(made, chains())
    assert {name: tensor.blob.digest for name, tensor in values.items()} == {
        name: tensor.blob.digest for name, tensor in feeds().items()
    }
    assert onnx.load(tmp_path / "reduced.onnx").graph.node[0].op_type == "Cast"
