"""Environments of other versions: made once, in one step, with what the client says told in one line."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes import environments
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.environments import Plugin, environment, python_for
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.target import Target

OLD = "1.16.3"
ENOUGH = 60.0
PIP_NOT_FOUND = """
ERROR: Could not find a version that satisfies the requirement onnxruntime==9.9.9 (from versions: 1.15.0, 1.32.0)
ERROR: No matching distribution found for onnxruntime==9.9.9
"""
UV_NOT_FOUND = """
  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of onnxruntime==9.9.9 and you require
      onnxruntime==9.9.9, we can conclude that your requirements are
      unsatisfiable.
"""
PIP_NO_NETWORK = """
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(...)': /onnxruntime/
ERROR: Could not find a version that satisfies the requirement onnxruntime==1.16.3 (from versions: none)
ERROR: No matching distribution found for onnxruntime==1.16.3
"""


class Client:
    """Stands for venv and pip: makes the files that they make, or says what it is told to say."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], what: str, seconds: float = 0) -> None:
        self.commands.append(command)
        if what.startswith("making"):
            python = environments._python_of(Path(command[-1]))
            python.parent.mkdir(parents=True)
            python.write_text(command[0] if command[1:2] == ["-m"] else command[-2])
        elif any(Path(command[0]).read_text().endswith(name) for name in self.refused):
            raise environments._NotFoundError("pip: No matching distribution found")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """No network, no uv, and one other Python on PATH."""
    fake = Client()
    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(environments, "_client", fake)
    monkeypatch.setattr(environments.shutil, "which", lambda _: None)
    monkeypatch.setattr(
        environments, "_interpreters", lambda: iter([(sys.executable, "3.97"), ("/python3.98", "3.98")])
    )
    return fake


def made(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "python").iterdir())


def test_the_installed_version_needs_no_environment(client: Client) -> None:
    assert python_for(Target.parse("ort/cpu")) == sys.executable
    assert python_for(Target.parse(f"ort@{onnxruntime.__version__}/cpu")) == sys.executable
    assert not client.commands


@pytest.mark.parametrize("version", ["1.20.1..1.25.1", "latest", "1.20.1;rm"])
def test_what_is_no_version(version: str, client: Client) -> None:
    with pytest.raises(BadInputError, match="not a version"):
        python_for(Target("ort", version, "cpu"))


def test_it_is_made_once_and_kept(client: Client, tmp_path: Path) -> None:
    said: list[str] = []
    first = python_for(Target.parse(f"ort@{OLD}/cpu"), said.append)
    assert made(tmp_path) == [f"onnxruntime-{OLD}-py3.97"]
    assert Path(first).is_file()
    assert client.commands[-1][-2:] == [f"onnxruntime=={OLD}", "numpy<2"]
    count = len(client.commands)
    assert python_for(Target.parse(f"ort@{OLD}/cpu?level=basic"), said.append) == first
    assert len(client.commands) == count
    assert len(said) == 1


@pytest.mark.parametrize(
    ("target", "requirements"),
    [
        ("ort@1.19.0/cpu", ["onnxruntime==1.19.0", "numpy"]),
        ("ort@1.18.1/cuda", ["onnxruntime-gpu==1.18.1", "numpy<2"]),
        ("ort@1.22.0/tensorrt", ["onnxruntime-gpu==1.22.0", "numpy"]),
        ("ort@1.22.0/dml", ["onnxruntime-directml==1.22.0", "numpy"]),
        ("ort@1.22.0/openvino", ["onnxruntime-openvino==1.22.0", "numpy"]),
        ("ort@1.22.0/coreml", ["onnxruntime==1.22.0", "numpy"]),
        ("ort@1.24.1/plugin?library=some_ep@0.4.0", ["onnxruntime==1.24.1", "numpy", "some-ep==0.4.0"]),
        ("ort@1.24.1/plugin?library=some_ep", ["onnxruntime==1.24.1", "numpy", "some-ep"]),
    ],
)
def test_the_package_follows_the_provider(target: str, requirements: list[str], client: Client) -> None:
    python_for(Target.parse(target))
    assert list(client.commands[-1][-len(requirements) :]) == requirements


def test_another_python_is_tried_where_ours_has_no_wheels(client: Client, tmp_path: Path) -> None:
    client.refused = (sys.executable,)
    python_for(Target.parse(f"ort@{OLD}/cpu"))
    assert made(tmp_path) == [f"onnxruntime-{OLD}-py3.98"]


def test_no_such_version_is_one_line_and_leaves_nothing(client: Client, tmp_path: Path) -> None:
    client.refused = (sys.executable, "/python3.98")
    with pytest.raises(SetupError, match=r"onnxruntime 9\.9\.9 cannot be had for Python 3\.97, 3\.98.*: pip: No match"):
        python_for(Target.parse("ort@9.9.9/cpu"))
    assert made(tmp_path) == []


def test_what_was_broken_off_is_made_anew(client: Client, tmp_path: Path) -> None:
    half = tmp_path / "python" / f"onnxruntime-{OLD}-py3.97"
    (half / "lib").mkdir(parents=True)
    python = Path(python_for(Target.parse(f"ort@{OLD}/cpu")))
    assert python.is_relative_to(half)
    assert not (half / "lib").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(client: Client) -> None:
    python = Path(python_for(Target.parse(f"ort@{OLD}/cpu")))
    python.unlink()
    assert python_for(Target.parse(f"ort@{OLD}/cpu")) == str(python)
    assert python.is_file()


def test_two_at_once_end_with_one_whole_environment(client: Client, tmp_path: Path) -> None:
    together, found = threading.Barrier(2), list[Path]()
    plain = Client.__call__

    def slow(command: Sequence[str], what: str, seconds: float) -> None:
        if what.startswith("installing"):
            together.wait(10)
        plain(client, command, what)

    environments._client = slow  # type: ignore[assignment]  # the fixture puts it back
    threads = [threading.Thread(target=lambda: found.append(environment("onnxruntime", OLD))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0].is_file()
    assert made(tmp_path) == [f"onnxruntime-{OLD}-py3.97"]


def test_a_cache_that_cannot_be_written(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(SetupError, match=f"cannot write to the cache .*{environments.CACHE_VARIABLE}"):
        python_for(Target.parse(f"ort@{OLD}/cpu"))


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        (PIP_NOT_FOUND, environments._NotFoundError, "pip: No matching distribution found for onnxruntime==9.9.9"),
        (UV_NOT_FOUND, environments._NotFoundError, "pip: No solution found .* are unsatisfiable"),
        (PIP_NO_NETWORK, SetupError, "cannot reach the package index"),
        ("ERROR: No space left on device", SetupError, "pip: No space left on device"),
        ("", SetupError, "pip: exit code 1"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="a shell script stands for pip")
def test_what_the_client_says_becomes_one_line(said: str, error: type[Exception], told: str, tmp_path: Path) -> None:
    pip = tmp_path / "python"  # is told what to say as its third word
    pip.write_text('#!/bin/sh\nprintf %s "$3" >&2\nexit 1\n')
    pip.chmod(0o755)
    with pytest.raises(error, match=told) as caught:
        environments._client([str(pip), "-m", "pip", said], "it")
    assert "\n" not in str(caught.value)


def test_a_plugin_is_a_module_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "libsome.so"
    file.write_text("")
    assert Plugin.parse("onnxruntime-ep-webgpu@0.4.0").module == "onnxruntime_ep_webgpu"
    assert Plugin.parse("onnxruntime_ep_webgpu").requirement == "onnxruntime-ep-webgpu"
    assert Plugin.parse(str(file)).requirement is None
    with pytest.raises(SetupError, match="no plugin library"):
        Plugin.parse(str(tmp_path / "other.so"))
    for text in ("", "9x", "a b", "some_ep@new"):
        with pytest.raises(BadInputError):
            Plugin.parse(text)


def candidate(
    node: NodeProto, *, opset: int = 17, ir_version: int = 8, elem_type: int = TensorProto.FLOAT
) -> Candidate:
    values = [helper.make_tensor_value_info(name, elem_type, [2]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    x = numpy_helper.to_array(helper.make_tensor("x", elem_type, [2], [1.0, 2.0]))
    return whole(load(model), {"x": StoredTensor.from_proto(numpy_helper.from_array(x))})


@pytest.fixture(scope="module")
def old() -> Iterator[PythonOrt]:
    """A real old version; made in the user's cache at the first use."""
    target = Target.parse(f"ort@{OLD}/cpu")
    try:
        python = python_for(target)
    except SetupError as error:
        pytest.skip(f"no {target}: {error}")
    runtime = PythonOrt(target, python)
    yield runtime
    runtime.close()


@pytest.mark.slow
def test_an_old_version_runs(old: PythonOrt) -> None:
    result = old.run(request(candidate(helper.make_node("Neg", ["x"], ["y"]))), timeout=ENOUGH)
    assert (result.status, result.outputs["y"].tolist()) == (Status.OK, [-1, -2])
    assert old.describe()["version"] == OLD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "settings"),
    [
        (helper.make_node("Neg", ["x"], ["y"]), {"ir_version": 10}),
        (helper.make_node("Neg", ["x"], ["y"]), {"opset": 21}),
        (helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft"), {"opset": 21}),
        (helper.make_node("Identity", ["x"], ["y"]), {"elem_type": TensorProto.BFLOAT16}),
    ],
    ids=["IR version", "opset", "opset of a contrib operator", "element type"],
)
def test_what_an_old_version_cannot_load_is_unresolved(
    old: PythonOrt, node: NodeProto, settings: dict[str, int]
) -> None:
    given = candidate(node, **settings)
    expected = {"y": StoredTensor.from_array(np.zeros(2, np.float32))}
    oracle = DifferentialOracle("old", old, old)
    verdict = oracle.judge(dataclasses.replace(given, expected=expected), alone=True)
    assert verdict.outcome is Outcome.UNRESOLVED
    assert not verdict.message.startswith("the reference fails")


@pytest.mark.slow
@pytest.mark.parametrize(("disabled", "right"), [("ConstantFolding", False), ("MatMulAddFusion", True)])
def test_optimizers_are_disabled_in_old_versions_too(disabled: str, right: bool, old: PythonOrt) -> None:
    """Issue 32228: a Transpose that changes nothing is fused into Gemm as one that does."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("a", "y")]
    weights = [
        numpy_helper.from_array(np.eye(2, dtype=np.float32), "b"),
        numpy_helper.from_array(np.zeros(2, "f4"), "c"),
    ]
    nodes = [
        helper.make_node("Transpose", ["a"], ["at"], perm=[0, 1]),
        helper.make_node("MatMul", ["at", "b"], ["m"]),
        helper.make_node("Add", ["m", "c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    runtime = PythonOrt(Target.parse(f"ort@{OLD}/cpu?level=basic&disabled_optimizers={disabled}"), old._python)
    result = runtime.run(request(whole(load(model), {"a": StoredTensor.from_array(a)})), timeout=ENOUGH)
    runtime.close()
    assert np.array_equal(result.outputs["y"], a) is right
