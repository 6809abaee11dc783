"""Options that commands share, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import faults
import pytest
import typer
from typer.testing import CliRunner

from onnxreduce.errors import BadInputError
from onnxreduce.options import ModelOptions, PlaceOptions
from onnxreduce.oracle.build import BuiltOracle, Setup, refuse_idle
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.runtimes.target import Target
from onnxreduce.spread import spread

THERE = "http://127.0.0.1:9"


def test_groups_are_spread_with_their_defaults_beside_options_of_the_command() -> None:
    app = typer.Typer()
    seen: list[tuple[ModelOptions, PlaceOptions, bool]] = []

    @app.command()
    @spread
    def command(model: ModelOptions, places: PlaceOptions, more: bool = False) -> None:
        """What it is for."""
        seen.append((model, places, more))

    done = CliRunner().invoke(app, ["a.onnx", "--input", "x=ones", "--input", "y=zeros", "--memory", "7", "--more"])
    assert done.exit_code == 0, done.output
    assert seen == [(ModelOptions(Path("a.onnx"), input=["x=ones", "y=zeros"]), PlaceOptions(memory=7), True)]
    assert "What it is for." in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PlaceOptions(listen="9000"), "--listen .* --connect"),
        (PlaceOptions(address=THERE), "--address .* --connect"),
        (PlaceOptions(connect=THERE, browser="chrome"), "--browser .* --connect"),
        (PlaceOptions(connect=THERE, headed=True), "--headed .* --connect"),
    ],
)
def test_places_that_do_not_go_together(options: PlaceOptions, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        options.setup(print)


def test_all_that_is_said_of_places_reaches_the_runtimes() -> None:
    options = PlaceOptions(None, "software", memory=9, connect=THERE, listen="9000", address="http://localhost:9000")
    setup = options.setup(print, "1.22.0")
    assert setup == Setup("1.22.0", None, "software", False, print, 9, THERE, "9000", "http://localhost:9000")


@pytest.mark.parametrize(
    ("setup", "runtime", "said"),
    [
        (Setup(ort_web="1.22.0"), "ort/cpu", "onnxruntime-web, so --ort-web"),
        (Setup(connect=THERE), "ort/cpu", "onnxruntime-web, so --connect"),
        (Setup(memory=9), "ort-web@1.27.0/wasm", "native runtime, so --memory"),
    ],
)
def test_what_says_nothing_to_an_oracle_is_refused(setup: Setup, runtime: str, said: str) -> None:
    target = Target.parse(runtime)
    with pytest.raises(BadInputError, match=said):
        BuiltOracle(OracleSpec("own", target, target), setup)
    refuse_idle(setup, "own", ("ort-web", "ort"))


def test_the_memory_of_the_command_line_is_that_of_every_native_target() -> None:
    spec = OracleSpec("own", Target.parse(faults.REFERENCE), Target.parse("ort/cpu?memory=512"))
    oracle = BuiltOracle(spec, Setup(memory=1024))
    try:
        assert [getattr(each, "_memory", None) for each in (oracle.reference, oracle.suspect)] == [1024, 512]
    finally:
        oracle.close()
