"""Tests for the runtime's own repository: they fail where the fault is, pass where it is not, or are not written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import faults
import jsonschema
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from operator_test_schema import SCHEMA
from report_cases import Case, Make, two_nodes

from onnxreduce.emit import write_report

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from operator_tests import model_of
from operator_tests import operator_tests as read_operator_tests


def one_node(
    node: onnx.NodeProto, feeds: dict[str, np.ndarray], expected: dict[str, np.ndarray], **weights: np.ndarray
) -> Case:
    """A model of one node; opset 13."""
    infos = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in {**feeds, **expected}.items()
    }
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "g", [infos[n] for n in feeds], [infos[n] for n in expected], initializers)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), feeds, expected


def operator_tests(folder: Path) -> list[dict[str, Any]]:
    """What stands in the file, once it is known to follow the schema."""
    found = read_operator_tests(folder / "operator_test.jsonc")
    jsonschema.validate(found, SCHEMA)
    return found


def unsigned() -> Case:
    """JSEP 1.27.0 takes the zero point of uint8 away without a sign: 1 - 2 becomes 4294967295."""
    feeds = {"x": np.array([1], np.uint8), "s": np.array([1], np.float32), "z": np.array([2], np.uint8)}
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])
    return one_node(node, feeds, {"y": np.array([-1], np.float32)})


def test_one_node_becomes_an_operator_test(web_folder: Make) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 1, 0], auto_pad="NOTSET", group=1)
    x = np.array([0.1, 1 / 3, 1e-30, 2], np.float32).reshape(1, 1, 2, 2)
    w = np.ones((1, 1, 1, 1), np.float32)
    y = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
    folder = web_folder(*one_node(node, {"x": x}, {"y": y}, w=w))
    assert set(write_report(folder)) == {"operator_test.jsonc", "repro.zip", "issue.md", "report.html"}
    text, (test,) = (folder / "operator_test.jsonc").read_text("utf-8"), operator_tests(folder)
    assert "Initializers in the reduced model, inputs here: w." in text
    assert (test["operator"], test["opset"]) == ("Conv", {"domain": "", "version": 13})
    assert test["inputShapeDefinitions"] == [[1, 1, 2, 2], [1, 1, 1, 1]]
    assert {each["name"]: (each["type"], each["data"]) for each in test["attributes"]} == {
        "pads": ("ints", [1, 0, 1, 0]),
        "auto_pad": ("string", "NOTSET"),
        "group": ("int", 1),
    }
    _, feeds, expected = model_of(test)
    for array, made in zip((x, w, y), [*feeds.values(), *expected.values()], strict=True):
        assert np.asarray(made).tobytes() == array.tobytes()
    issue = (folder / "issue.md").read_text("utf-8")
    assert "As a test for the repository: `operator_test.jsonc`, in the form of js/web/test/data/ops." in issue


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.bool_, np.int8, np.float64, np.float16], ids=str)
def test_every_bit_of_the_tensors_comes_back(web_folder: Make, dtype: type) -> None:
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype) if dtype is not np.bool_ else None
    x = np.array([True, False, True]) if info is None else np.array([info.max, info.min, 1], dtype)
    folder = web_folder(*one_node(helper.make_node("Identity", ["x"], ["y"]), {"x": x}, {"y": x}))
    write_report(folder)
    _, feeds, _ = model_of(operator_tests(folder)[0])
    assert feeds["input_0"].dtype == x.dtype and feeds["input_0"].tobytes() == x.tobytes()


def test_an_input_that_is_left_out_is_none(web_folder: Make) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")
    feeds = {"x": np.zeros((1, 2), np.float32), "s": np.array([1, 1], np.float32)}
    folder = web_folder(*one_node(node, feeds, {"y": np.zeros((1, 2), np.float32)}))
    write_report(folder)
    (test,) = operator_tests(folder)
    assert [each["data"] is None for each in test["cases"][0]["inputs"]] == [False, True, False]


def _branches() -> Case:
    body = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "b", [], [faults.floats("o", [2])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    model, feeds, expected = one_node(node, {"c": np.array(True)}, {"y": np.zeros(2, np.float32)})
    model.graph.input.append(faults.floats("x", [2]))
    return model, {**feeds, "x": np.zeros(2, np.float32)}, expected


def _identity(x: np.ndarray) -> Case:
    return one_node(helper.make_node("Identity", ["x"], ["y"]), {"x": x}, {"y": x})


@pytest.mark.parametrize(
    ("case", "operator", "browser"),
    [
        (two_nodes(), "the model has 2 nodes", ""),
        (_branches(), "attribute else_branch is neither a number", ""),
        (_identity(np.array([1, np.nan], np.float32)), "JSON has no nan", ""),
        (_identity(np.zeros(5000, np.float32)), "hold 10000 elements", "hold 10000 elements"),
        (_identity(np.zeros(2, ml_dtypes.bfloat16)), "no tensors of type bfloat16", "no tensors of type bfloat16"),
    ],
    ids=["two nodes", "bodies", "not a number", "large", "bfloat16"],
)
def test_what_a_form_cannot_express_is_said(web_folder: Make, case: Case, operator: str, browser: str) -> None:
    folder = web_folder(*case)
    (folder / "operator_test.jsonc").write_text("of an earlier model")
    written = write_report(folder)
    issue = (folder / "issue.md").read_text("utf-8")
    assert operator in issue.partition("No test for the repository: operator_test.jsonc")[2]
    assert not (folder / "operator_test.jsonc").exists()
    assert ("browser_test.js" in written) is not bool(browser)
    if browser:
        assert browser in issue.partition("No test for the repository: browser_test.js")[2]


def test_an_oracle_without_a_runtime_gives_no_test(web_folder: Make) -> None:
    folder = web_folder(*two_nodes(), targets={"suspect": {"runtime": "command: x"}, "reference": {}})
    assert set(write_report(folder)) == {"repro.zip", "issue.md", "report.html"}
    assert "the oracle does not tell in which runtime" in (folder / "issue.md").read_text("utf-8")


def run_unit_test(folder: Path) -> tuple[str, dict[str, str]]:
    """Errors and the result of each test of test_repro.py."""
    command = [sys.executable, "-m", "unittest", "-v", "test_repro"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stderr, dict(
        re.findall(r"^(test_\w+) .*?(?:^|\.\.\. )(ok|FAIL|ERROR)$", done.stderr, re.MULTILINE | re.DOTALL)
    )


def test_the_unit_test_fails_where_the_fault_is_and_passes_where_it_is_not(folder: Path) -> None:
    write_report(folder)
    errors, found = run_unit_test(folder)
    assert "FAILED (failures=1)" in errors, errors
    assert "instead of" in errors
    assert "FAIL: test_suspect" in errors
    assert "FAIL: test_reference" not in errors and "Ran 2 tests" in errors
    path = folder / "test_repro.py"
    path.write_text(path.read_text("utf-8").replace("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"), "utf-8")
    errors, found = run_unit_test(folder)
    assert errors.rstrip().endswith("OK"), (errors, found)


@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("ort/cpu?level=basic&threads=1", 'session("ORT_ENABLE_BASIC", ["CPUExecutionProvider"], threads=1)'),
        ("ort/cpu?disabled_optimizers=A,B", 'session("ORT_ENABLE_ALL", ["CPUExecutionProvider"], disabled=["A", "B"])'),
        (
            "ort/cuda?use_tf32=0",
            'session("ORT_ENABLE_ALL", [("CUDAExecutionProvider", {"use_tf32": "0"}), "CPUExecutionProvider"])',
        ),
    ],
)
def test_the_unit_test_runs_as_the_target_says(web_folder: Make, target: str, call: str) -> None:
    provider = "CUDAExecutionProvider" if "cuda" in target else "CPUExecutionProvider"
    suspect = {"target": target, "runtime": "onnxruntime (Python)", "version": "1.32.0", "provider": provider}
    folder = web_folder(*two_nodes(), targets={"suspect": suspect, "reference": {"runtime": "onnx.reference"}})
    assert "test_repro.py" in write_report(folder)
    text = (folder / "test_repro.py").read_text("utf-8")
    compile(text, "test_repro.py", "exec")
    assert f"self.check({call})" in text
    assert "test_reference" not in text


@pytest.mark.browser
def test_an_operator_test_shows_the_fault_in_the_browser(web_folder: Make) -> None:
    import onnxreduce
    from onnxreduce.errors import SetupError
    from onnxreduce.oracle.verdict import Outcome

    folder = web_folder(*unsigned())
    write_report(folder)
    model, feeds, expected = model_of(operator_tests(folder)[0])
    try:
        check = onnxreduce.check(model, "webgpu-vs-wasm", feeds)
    except SetupError as error:
        pytest.skip(f"nothing to run it: {error}")
    assert check.golden.verdict.outcome is Outcome.FAILS
    (difference,) = check.golden.verdict.differences
    assert difference.samples == (((0,), str(expected["output_0"][0]), "4.2949673e+09"),)
