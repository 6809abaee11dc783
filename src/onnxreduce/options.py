"""The options that commands share, in groups, each with its help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from onnxreduce.errors import BadInputError
from onnxreduce.graph.input_expressions import parse_assignments, parse_dims
from onnxreduce.graph.prepare import InputOptions, Subject, prepare
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.choose import CLASSES, Settings, choose
from onnxreduce.oracle.custom import CustomOracle
from onnxreduce.oracle.spec import OracleSpec


def path(text: str) -> Path:
    """A path that somebody wrote; an empty one is a variable that was not set, not the current folder."""
    if not text:
        raise typer.BadParameter("the path is empty")
    return Path(text)


BrowserOption = Annotated[
    str | None, typer.Option("--browser", metavar="PATH|chrome|msedge|chromium", help="Which browser to drive.")
]
AdapterOption = Annotated[
    str, typer.Option("--adapter", help="WebGPU adapter: auto (hardware if there is any), hardware, software.")
]
OrtWebOption = Annotated[
    str | None,
    typer.Option("--ort-web", metavar="VERSION|DIR", help="onnxruntime-web: another version, or a local build."),
]


@dataclass(frozen=True)
class ModelOptions:
    """The model and its inputs."""

    model: Annotated[Path, typer.Argument(metavar="MODEL", parser=path, help="The .onnx file.", show_default=False)]
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs", metavar="FILE.npz|DIR", parser=path, help="Inputs: an .npz, or a folder with input_0.pb, ..."
        ),
    ] = None
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=EXPR",
            help="One input: uniform(lo,hi), normal(mean,std), arange(a,b), full(v), zeros, ones, or a .npy file.",
        ),
    ] = None
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Size of a dynamic dimension (or INPUT:AXIS=N).")
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of generated inputs.")] = 0

    @property
    def making(self) -> InputOptions:
        """How inputs that are not given are made."""
        return InputOptions(parse_assignments(self.input or [], "--input"), parse_dims(self.dim or []), self.seed)

    def subject(self) -> Subject:
        """The model with all its inputs."""
        return prepare(self.model, self.inputs, self.making)


@dataclass(frozen=True)
class OracleOptions:
    """What is asked of the model."""

    oracle: Annotated[
        str, typer.Option("--oracle", help="Which two ways to run the model are compared: a name, or a .toml file.")
    ] = "webgpu-vs-wasm"
    suspect: Annotated[
        str | None, typer.Option("--suspect", metavar="TARGET", help="Suspected target, in place of the oracle's.")
    ] = None
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="TARGET", help="Target that is right, in place of the oracle's."),
    ] = None
    rtol: Annotated[
        float | None, typer.Option("--rtol", min=0, help="Tolerance for floats, as a share of each output's scale.")
    ] = None
    atol: Annotated[float | None, typer.Option("--atol", min=0, help="Absolute tolerance for floats.")] = None
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit of one run (learned).")
    ] = None
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="CLASS", help=f"Only this class of failure: {', '.join(CLASSES)}.")
    ] = None
    match: Annotated[
        str | None, typer.Option("--match", metavar="REGEX", help="Only failures whose message matches.")
    ] = None

    slower: Annotated[
        float | None,
        typer.Option(
            "--slower",
            metavar="FACTOR",
            help="It also fails when it takes more than FACTOR times the reference's time.",
        ),
    ] = None

    def chosen(self) -> OracleSpec | CustomOracle:
        """The oracle."""
        names = [field.name for field in fields(Settings)]
        return choose(self.oracle, Settings(**{name: getattr(self, name) for name in names}))

    def spec(self) -> OracleSpec:
        """The oracle, where it has to be one of two targets."""
        chosen = self.chosen()
        if not isinstance(chosen, OracleSpec):
            raise BadInputError("this command needs two targets: a command or function as oracle has none")
        return chosen


@dataclass(frozen=True)
class PlaceOptions:
    """Where runtimes run."""

    browser: BrowserOption = None
    adapter: AdapterOption = "auto"
    headed: Annotated[bool, typer.Option("--headed", help="Show the browser's window.")] = False
    memory: Annotated[
        int | None,
        typer.Option("--memory", metavar="MIB", min=1, help="Memory that a native runtime's process may hold."),
    ] = None
    connect: Annotated[
        str | None,
        typer.Option(
            "--connect", metavar="ws://...|http://...", help="A browser that runs already, here or elsewhere."
        ),
    ] = None
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="PORT|HOST:PORT", help="Where we wait for that browser's page.")
    ] = None
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="http://HOST:PORT", help="Under which address the page there finds us."),
    ] = None

    def setup(self, report: Callable[[str], None], ort_web: str | None = None) -> Setup:
        """For an oracle. Raises BadInputError where the options do not go together."""
        for name in ("listen", "address"):
            if getattr(self, name) is not None and self.connect is None:
                raise BadInputError(f"--{name} says how a browser elsewhere finds us: name that one with --connect")
        for name in ("browser", "headed"):
            if getattr(self, name) and self.connect is not None:
                raise BadInputError(f"--{name} says how to start a browser: it does not go with --connect")
        return Setup(
            ort_web=ort_web,
            browser=self.browser,
            adapter=self.adapter,
            headed=self.headed,
            report=report,
            memory=self.memory,
            connect=self.connect,
            listen=self.listen,
            address=self.address,
        )
