"""Through which optimizer, and since which version: real faults of real runtimes."""

from __future__ import annotations

from pathlib import Path

import children
import faults
import pytest
from explain_cases import Make, conv, gemm, subject

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.explain.bisect import OPTIMIZERS, bisect_optimizers, bisect_versions, versions
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.choose import Settings, choose
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.packages import npm_command

CPU = "ort/cpu?level=disabled"
needs_npm = pytest.mark.skipif(npm_command() is None, reason="npm lists the versions of onnxruntime-web")


def spec(suspect: str, reference: str = CPU) -> OracleSpec:
    found = choose("webgpu-vs-wasm", Settings(suspect, reference))
    assert isinstance(found, OracleSpec)
    return found


@pytest.mark.parametrize("case", [faults.normalisation, lambda: faults.hosted(2, 2)], ids=["alone", "hosted"])
def test_the_optimizer_behind_the_faulty_normalisation(make: Make, case: faults.Case) -> None:
    told: list[str] = []
    found = bisect_optimizers(subject(case()), make(faults.SUSPECT, CPU), report=told.append)
    assert found == ["SimplifiedLayerNormFusion"]
    assert told[0] == f"disabling all {len(OPTIMIZERS)} known optimizers"
    assert told[-1] == "1 disabled still heal it"


def test_a_fault_without_an_optimizer_is_not_healed(make: Make) -> None:
    """Cosh in double precision has no kernel in onnxruntime, with and without optimizers."""
    import numpy as np
    from onnx import TensorProto, helper

    ends = [[helper.make_tensor_value_info(name, TensorProto.DOUBLE, (3,))] for name in ("x", "y")]
    case = faults.model([helper.make_node("Cosh", ["x"], ["y"])], *ends), {"x": np.arange(3, dtype=np.float64)}
    assert bisect_optimizers(subject(case), make("ort/cpu", "onnx-reference")) is None


def test_a_healthy_model_has_nothing_to_heal(make: Make) -> None:
    with pytest.raises(BadInputError, match="does not fail: there is nothing to heal"):
        bisect_optimizers(subject(faults.healthy()), make(faults.SUSPECT, CPU))


def test_no_optimizer_is_listed_twice() -> None:
    assert len(set(OPTIMIZERS)) == len(OPTIMIZERS)
    assert all(name.replace("_", "").isalnum() for name in OPTIMIZERS)


def test_at_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(faults.LEVELS)
    model, data = faults.save(faults.normalisation(), tmp_path)
    done = children.onnxreduce("bisect-optimizer", model, "--inputs", data, "--oracle", "levels.toml", cwd=tmp_path)
    assert (done.code, done.out) == (0, "disabling SimplifiedLayerNormFusion heals it\n")


@pytest.mark.parametrize(
    "text", ["ort-web@1.27.0/wasm", "ort-web/wasm", "ort-web@1.27.0../wasm", "ort-web@..1.30.0/wasm"]
)
def test_a_target_without_a_range_is_told(text: str) -> None:
    with pytest.raises(BadInputError, match="names no range of versions such as"):
        bisect_versions(subject(gemm()), spec(text), Setup(), report=lambda text: None)


def test_versions_of_what_has_none_are_told() -> None:
    with pytest.raises(BadInputError, match="cannot be listed; known: ort-web, ort"):
        versions("onnx-reference")


@needs_npm
@pytest.mark.slow
def test_released_versions_are_listed_in_order() -> None:
    try:
        found, dev = versions("ort-web"), versions("ort-web", dev=True)
    except SetupError as error:
        pytest.skip(f"no registry answers: {error}")
    assert [each for each in found if each in ("1.22.0", "1.27.0", "1.30.0")] == ["1.22.0", "1.27.0", "1.30.0"]
    assert not [each for each in found if "dev" in each]
    assert set(found) < set(dev)


@needs_npm
@pytest.mark.slow
@pytest.mark.browser
def test_the_version_that_mended_a_fault(make: Make) -> None:
    make("ort-web@1.30.0/wasm", CPU)  # skips where nothing can be run
    told: list[str] = []
    try:
        found = bisect_versions(subject(gemm()), spec("ort-web@1.27.0..1.30.0/wasm"), Setup(), report=told.append)
    except SetupError as error:
        pytest.skip(f"no registry answers: {error}")
    assert found.changed is not None
    older, newer = found.changed
    assert (older.outcome, newer.outcome, newer.version) == (Outcome.FAILS, Outcome.PASSES, "1.30.0")
    assert found.steps[0].version == "1.27.0"
    assert str(older.note) == "numeric mismatch"
    assert told[0].endswith("1.30.0")


@needs_npm
@pytest.mark.slow
@pytest.mark.browser
def test_a_fault_that_all_versions_have(make: Make) -> None:
    make("ort-web@1.30.0/webgpu?bundle=webgpu", CPU)
    try:
        asked = spec("ort-web@1.27.0..1.30.0/webgpu?bundle=webgpu")
        found = bisect_versions(subject(conv()), asked, Setup(), report=lambda text: None)
    except SetupError as error:
        pytest.skip(f"no registry answers: {error}")
    assert found.changed is None
    assert {step.outcome for step in found.steps} == {Outcome.FAILS}


@pytest.mark.browser
def test_an_optimizer_in_the_browser(make: Make) -> None:
    assert bisect_optimizers(subject(gemm()), make("ort-web@1.27.0/wasm", CPU)) == ["GemmTransposeFusion"]
