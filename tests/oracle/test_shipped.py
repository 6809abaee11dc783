"""Every shipped oracle is one readable file, and those that can run here agree on a healthy model."""

from __future__ import annotations

import platform
from contextlib import closing

import faults
import pytest

from onnxreduce.errors import SetupError
from onnxreduce.oracle.build import RUNTIMES, BuiltOracle, Setup
from onnxreduce.oracle.spec import find, read, shipped
from onnxreduce.oracle.verdict import Outcome

NAMES = (
    "coreml-vs-cpu", "cuda-vs-cpu", "jsep-vs-native", "native-vs-wasm", "optimized-vs-unoptimized",
    "optimized-vs-unoptimized-web", "ort-vs-reference", "plugin-webgpu-vs-cpu", "version-vs-version", "wasm-vs-cpu",
    "webgpu-vs-cpu", "webgpu-vs-wasm",
)  # fmt: skip
HARDWARE = {"cuda-vs-cpu", "coreml-vs-cpu"}
ALWAYS = {"optimized-vs-unoptimized", "ort-vs-reference"}
"""These need nothing beyond what the project installs."""


def test_all_are_there() -> None:
    assert set(NAMES) <= set(shipped())


@pytest.mark.parametrize("name", shipped())
def test_each_says_what_it_compares_in_one_line(name: str) -> None:
    spec = read(shipped()[name])
    assert spec.name == name
    assert 20 < len(spec.description) <= 120
    assert "\n" not in spec.description
    assert spec.reference != spec.suspect
    assert {spec.reference.runtime, spec.suspect.runtime} <= set(RUNTIMES)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", shipped())
def test_each_that_can_run_here_agrees_on_a_healthy_model(name: str) -> None:
    try:
        with closing(BuiltOracle(find(name), Setup())) as oracle:
            golden = oracle.golden(faults.candidate(faults.healthy()))
            facts = oracle.describe()
    except SetupError as error:
        assert name not in ALWAYS, error
        assert "\n" not in str(error)
        pytest.skip(str(error))
    assert golden.verdict.outcome is Outcome.PASSES, golden.verdict
    assert facts["reference"] != facts["suspect"]


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_without_the_hardware_it_is_an_error_of_the_setup(name: str) -> None:
    import onnxruntime

    if platform.system() == "Darwin" or "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("there may be such hardware")
    with closing(BuiltOracle(find(name), Setup())) as oracle, pytest.raises(SetupError, match="ExecutionProvider"):
        oracle.golden(faults.candidate(faults.healthy()))
