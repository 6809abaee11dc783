import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import smolvla_model


@pytest.fixture(scope="module")
def built():
    return smolvla_model.build()


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs), strict=True))


def test_is_a_valid_model_of_opset_18(built):
    model, inputs = built
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 10
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 18)]
    assert [graph_input.name for graph_input in model.graph.input] == list(inputs)
    assert not model.functions
    assert all(not tensor.external_data for tensor in model.graph.initializer)


def test_has_the_size_and_the_operators_of_an_export(built):
    graph = built[0].graph
    operators = Counter(node.op_type for node in graph.node)
    assert len(graph.node) == 2553
    assert operators["Conv"] == 3
    assert operators["LayerNormalization"] == 3 * (2 * 12 + 1)
    assert operators["Tanh"] == 3 * 12
    assert operators["Softmax"] == 3 * 12 + 16
    assert operators["Reciprocal"] == operators["ReduceMean"] == 2 * 16 + 1
    assert operators["ScatterND"] == 4 * 16
    assert operators["Split"] == operators["Expand"] == 2 * 16
    assert operators["Sigmoid"] == operators["Where"] == 16
    for once in ("CumSum", "Div", "Sin", "Cos", "Gather", "Gemm"):
        assert operators[once] == 1
    assert sum(operators[op] for op in ("Add", "MatMul", "Mul", "Transpose", "Reshape")) > 0.7 * len(graph.node)


def test_the_angles_follow_the_first_projections_in_file_order(built):
    operators = [node.op_type for node in built[0].graph.node]
    norm = ["Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul"]
    expected = [*norm, *["MatMul", "Reshape"] * 3, "Unsqueeze", "Cast", "Div", "Unsqueeze", "Sin", "Cos"]
    end = operators.index("Cos") + 1
    assert operators[end - len(expected) : end] == expected


def test_no_initializer_is_idle_and_every_value_is_named_once(built):
    graph = built[0].graph
    used = Counter(name for node in graph.node for name in node.input)
    made = Counter(name for node in graph.node for name in node.output)
    assert all(used[tensor.name] for tensor in graph.initializer)
    assert max(made.values()) == 1
    outputs = {output.name for output in graph.output}
    assert {name for name in made if not used[name]} <= outputs


def test_a_seed_gives_the_same_bytes_again():
    model, inputs = smolvla_model.build(seed=3, layers=1)
    again, same_inputs = smolvla_model.build(seed=3, layers=1)
    other, _ = smolvla_model.build(seed=4, layers=1)
    assert model.SerializeToString() == again.SerializeToString()
    assert all(np.array_equal(inputs[name], same_inputs[name]) for name in inputs)
    assert model.SerializeToString() != other.SerializeToString()


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_each_layer_of_the_language_model_has_70_nodes_and_two_outputs(layers):
    graph = smolvla_model.build(layers=layers)[0].graph
    assert len(graph.node) == 2553 - 70 * (16 - layers)
    assert len(graph.output) == 1 + 2 * layers


def test_python_onnxruntime_computes_finite_outputs(built):
    model, inputs = built
    outputs = run(model, inputs)
    assert len(outputs) == 33
    for values in outputs.values():
        assert np.isfinite(values).all()
        assert 0.5 < values.std() < 2


def test_padding_and_state_are_hidden_from_the_words():
    model, inputs = smolvla_model.build(layers=2)
    padded = np.flatnonzero(inputs["lang_masks"][0] == 0)
    tokens = inputs["lang_tokens"].copy()
    tokens[0, padded] = (tokens[0, padded] + 1) % smolvla_model.VOCABULARY
    before = run(model, inputs)["hidden"]
    after = run(model, {**inputs, "lang_tokens": tokens, "state": inputs["state"] + 1})["hidden"]
    words = smolvla_model.IMAGES + padded[0]
    assert np.allclose(before[:, :words], after[:, :words], atol=1e-5)
    assert not np.allclose(before[:, -1], after[:, -1], atol=1e-2)


def test_the_command_line_writes_model_and_inputs(tmp_path):
    script, path = Path(smolvla_model.__file__), tmp_path / "model.onnx"
    subprocess.run([sys.executable, script, "-o", path, "--layers", "1", "--seed", "5"], check=True, timeout=60)
    model, inputs = smolvla_model.build(seed=5, layers=1)
    assert path.read_bytes() == model.SerializeToString()
    with np.load(path.with_suffix(".npz")) as stored:
        assert set(stored) == set(inputs)
        assert all(np.array_equal(stored[name], inputs[name]) for name in inputs)
