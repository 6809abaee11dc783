"""What the command line changes about an oracle, from the words to the verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import children
import faults
import numpy as np
import pytest
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.choose import CLASSES, Settings, choose
from onnxreduce.oracle.custom import CommandOracle, FunctionOracle
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome, Verdict

FILE = """
description = "optimized against as it is"
reference = "ort/cpu?level=disabled"
suspect = "ort/cpu?level=all"
timeout = 40
[tolerance]
float32 = 0.01
absolute = 1e-4
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "levels.toml"
    path.write_text(FILE)
    return str(path)


def spec(text: str, settings: Settings | None = None) -> OracleSpec:
    found = choose(text, settings)
    assert isinstance(found, OracleSpec)
    return found


def verdict(chosen: OracleSpec, case: faults.Case) -> Verdict:
    oracle = BuiltOracle(chosen, Setup())
    try:
        return oracle.judge(faults.candidate(case))
    finally:
        oracle.close()


def test_without_settings_the_file_stands(file: str) -> None:
    found = spec(file)
    assert (found.name, found.timeout) == ("levels", 40)
    assert (str(found.reference), str(found.suspect)) == (faults.REFERENCE, faults.SUSPECT)
    assert found.tolerance.for_dtype(np.dtype("float32")) == 0.01
    assert found.tolerance.absolute == 1e-4
    assert found.expectation.kind is None


def test_targets_replace_the_oracles_and_its_name(file: str) -> None:
    found = spec(file, Settings(suspect="ort/cpu?level=extended"))
    assert (str(found.suspect), str(found.reference)) == ("ort/cpu?level=extended", faults.REFERENCE)
    assert found.name == "ort/cpu?level=extended against ort/cpu?level=disabled"
    found = spec(file, Settings(reference="onnx-reference"))
    assert str(found.reference) == "onnx-reference"
    assert spec(file, Settings(suspect=faults.SUSPECT)).name == "levels", "nothing has changed"


def test_a_target_that_cannot_be_read_is_told(file: str) -> None:
    with pytest.raises(BadInputError, match="is not of the form"):
        choose(file, Settings(suspect="ORT cpu"))


def test_tolerances_and_time_limit(file: str) -> None:
    found = spec(file, Settings(rtol=0.5, atol=0.25, timeout=3))
    assert found.tolerance.for_dtype(np.dtype("float32")) == 0.5
    assert found.tolerance.for_dtype(np.dtype("float16")) == 0.5
    assert found.tolerance.for_dtype(np.dtype("int32")) == 0
    assert (found.tolerance.absolute, found.timeout) == (0.25, 3)
    assert spec(file, Settings(rtol=0.5)).tolerance.absolute == 1e-4
    assert spec(file, Settings(atol=0)).tolerance.absolute == 0
    exact = spec(file, Settings(rtol=0, atol=0))
    assert exact.tolerance.for_dtype(np.dtype("float32")) == 0


@pytest.mark.parametrize(("rtol", "outcome"), [(None, Outcome.FAILS), (0.01, Outcome.FAILS), (100.0, Outcome.PASSES)])
def test_a_tolerance_decides(file: str, rtol: float | None, outcome: Outcome) -> None:
    assert verdict(spec(file, Settings(rtol=rtol)), faults.normalisation()).outcome is outcome


@pytest.mark.parametrize("level", ["disabled", "basic", "extended", "all"])
def test_a_suspect_decides(file: str, level: str) -> None:
    found = verdict(spec(file, Settings(suspect=f"ort/cpu?level={level}")), faults.normalisation())
    assert found.outcome is (Outcome.FAILS if level in ("extended", "all") else Outcome.PASSES)


def test_another_reference_says_the_same(file: str) -> None:
    found = verdict(spec(file, Settings(reference="onnx-reference")), faults.normalisation())
    assert found.outcome is Outcome.FAILS
    assert verdict(spec(file, Settings(faults.REFERENCE, "onnx-reference")), faults.normalisation()).outcome is (
        Outcome.PASSES
    )


def test_every_class_but_that_of_the_users_own_has_a_word() -> None:
    assert set(CLASSES.values()) == set(Kind) - {Kind.INTERESTING}
    assert CLASSES["run-error"] is Kind.RUN_ERROR


@pytest.mark.parametrize(
    ("expect", "outcome"),
    [("numeric", Outcome.FAILS), ("nan", Outcome.UNRESOLVED), ("run-error", Outcome.UNRESOLVED)],
)
def test_an_expected_class_decides(file: str, expect: str, outcome: Outcome) -> None:
    found = verdict(spec(file, Settings(expect=expect)), faults.normalisation())
    assert found.outcome is outcome
    if outcome is Outcome.UNRESOLVED:
        assert found.message == "it fails, but not as expected: numeric mismatch"
        assert found.signature is None


@pytest.mark.parametrize(
    ("expect", "match", "outcome"),
    [
        (None, None, Outcome.FAILS),
        (None, r"implementation for Cosh\(\d+\)", Outcome.FAILS),
        (None, "implementation for Sinh", Outcome.UNRESOLVED),
        ("create-error", "Cosh", Outcome.FAILS),
        ("run-error", "Cosh", Outcome.UNRESOLVED),
    ],
)
def test_an_expected_message_decides(file: str, expect: str | None, match: str | None, outcome: Outcome) -> None:
    """onnxruntime has no Cosh in double precision for the CPU; onnx.reference has."""
    cosh = faults.node("Cosh", ["x"], ["y"])
    ends = [faults.tensor_info(name, TensorProto.DOUBLE, (3,)) for name in ("x", "y")]
    case = faults.model([cosh], ends[:1], ends[1:]), {"x": np.arange(3, dtype=np.float64)}
    found = verdict(spec(file, Settings(reference="onnx-reference", expect=expect, match=match)), case)
    assert found.outcome is outcome
    if outcome is Outcome.FAILS:
        assert found.signature is not None and found.signature.kind is Kind.CREATE_ERROR


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is the system's, and Linux has a true one")
@pytest.mark.parametrize("expect", [None, "out-of-memory", "dead", "run-error"])
def test_too_little_memory_is_a_class(file: str, expect: str | None) -> None:
    suspect = "ort/cpu?level=disabled&memory=512"
    found = verdict(spec(file, Settings(suspect=suspect, expect=expect)), faults.hungry(400))
    if expect in (None, "out-of-memory"):
        assert (found.outcome, found.signature) == (Outcome.FAILS, Signature(Kind.OUT_OF_MEMORY))
        assert found.message.startswith("out of memory (limit 512 MiB): ")
    else:
        assert (found.outcome, found.signature) == (Outcome.UNRESOLVED, None)


@pytest.mark.parametrize("name", ["rtol", "atol", "timeout"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_number_must_be_finite_and_not_negative(file: str, name: str, value: float) -> None:
    with pytest.raises(BadInputError, match=f"--{name}"):
        choose(file, Settings(**{name: value}))  # type: ignore[arg-type]


def test_slowness_is_asked_for_by_its_factor(file: str) -> None:
    assert spec(file).slower is None
    found = spec(file, Settings(slower=10.0, expect="slow"))
    assert (found.slower, found.expectation.kind) == (10, Kind.SLOW)
    with pytest.raises(BadInputError, match="--slower FACTOR"):
        choose(file, Settings(expect="slow"))
    for factor in (1.0, 0.0, float("nan"), float("inf")):
        with pytest.raises(BadInputError, match=f"--slower {factor} is not a factor above 1"):
            choose(file, Settings(slower=factor))


def test_words_that_are_wrong_are_told(file: str) -> None:
    with pytest.raises(BadInputError, match=r"--expect 'wrong' is not one of numeric, nan, zeros"):
        choose(file, Settings(expect="wrong"))
    with pytest.raises(BadInputError, match=r"--match '\(' is not a regular expression"):
        choose(file, Settings(match="("))
    with pytest.raises(BadInputError, match=r"unknown oracle 'nothing'; known: .*webgpu-vs-wasm"):
        choose("nothing")


def test_a_command_takes_a_time_limit_only(tmp_path: Path) -> None:
    found = choose("command: true", Settings(timeout=7))
    assert isinstance(found, CommandOracle)
    assert found.timeout == 7
    for name in ("suspect", "reference", "expect", "match"):
        with pytest.raises(BadInputError, match=f"--{name} does not go with a command"):
            choose("command: true", Settings(**{name: "ort/cpu"}))
    for name in ("rtol", "atol"):
        with pytest.raises(BadInputError, match=f"--{name} does not go with a command"):
            choose("command: true", Settings(**{name: 0.0}))


def test_a_function_takes_no_setting(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def judge(model, inputs):\n    return True\n")
    assert isinstance(choose(f"{tmp_path}/mine.py:judge"), FunctionOracle)
    with pytest.raises(BadInputError, match="--timeout does not go with a function"):
        choose(f"{tmp_path}/mine.py:judge", Settings(timeout=3))


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ([], 1),
        (["--suspect", "ort/cpu?level=basic"], 0),
        (["--suspect", "ort/cpu?level=extended"], 1),
        (["--rtol", "100"], 0),
        (["--atol", "1e6"], 0),
        (["--expect", "numeric"], 1),
        (["--expect", "hang"], 2),
        (["--match", "anything"], 2),
        (["--timeout", "30"], 1),
        (["--suspect", "nothing"], 2),
        (["--expect", "odd"], 2),
    ],
    ids=str,
)
def test_at_the_command_line(file: str, tmp_path: Path, more: list[str], code: int) -> None:
    model, data = faults.save(faults.normalisation(), tmp_path)
    done = children.onnxreduce("check", model, "--inputs", data, "--oracle", file, *more, cwd=tmp_path)
    assert done.code == code, done.err
    assert len(done.words) == (code == 2)
