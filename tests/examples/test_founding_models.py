import subprocess
import sys
from pathlib import Path

import founding_models
import numpy as np
import onnx
import onnxruntime
import pytest

MODELS = {model.graph.name: model for model in [*map(founding_models.build, range(1, 6))]}
MODELS["synth_workaround"] = founding_models.build_workaround()


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def test_is_a_valid_model_of_opset_18(model):
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (10, 18)


def test_nodes_are_those_of_the_issue():
    positions, norm = ["Sub", "Unsqueeze", "Cast", "Div"], ["Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal"]
    for depth in range(1, 6):
        nodes = MODELS[f"synth_depth{depth}"].graph.node
        assert [node.op_type for node in nodes] == positions + norm[:depth]
    assert [node.op_type for node in MODELS["synth_workaround"].graph.node] == ["Div", *norm[:3]]


def test_python_onnxruntime_computes_angles_and_norm(model):
    inputs = founding_models.inputs(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    angles, norm = session.run(None, inputs)
    expected = np.arange(194).reshape(1, 194, 1) / 10_000 ** (np.arange(32) / 32)
    assert np.allclose(angles, expected, rtol=1e-6)
    assert np.isfinite(norm).all()


def test_inputs_are_those_of_the_issue():
    inputs = founding_models.inputs(MODELS["synth_depth3"])
    assert (inputs["X"].shape, inputs["X"].dtype) == ((1, 194, 960), np.float32)
    assert -100 <= inputs["X"].min() < -99 and 99 < inputs["X"].max() <= 100
    assert inputs["P"].tolist() == [list(range(1, 195))] and inputs["P"].dtype == np.int64
    floats = founding_models.inputs(MODELS["synth_workaround"])["F"]
    assert (floats.shape, floats.dtype) == ((1, 194, 1), np.float32)
    assert floats.ravel().tolist() == list(range(194))


def test_the_same_bytes_come_again():
    assert founding_models.build(3).SerializeToString() == founding_models.build(3).SerializeToString()
    first, second, other = (founding_models.inputs(MODELS["synth_depth1"], seed)["X"] for seed in (0, 0, 1))
    assert np.array_equal(first, second) and not np.array_equal(first, other)


def test_the_command_line_writes_six_models_with_inputs(tmp_path):
    subprocess.run([sys.executable, Path(founding_models.__file__), "-o", tmp_path], check=True, timeout=60)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}{end}" for name in MODELS for end in (".onnx", ".npz")
    }
    for name, model in MODELS.items():
        assert (tmp_path / f"{name}.onnx").read_bytes() == model.SerializeToString()
