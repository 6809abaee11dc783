"""The options that commands share, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxreduce.oracle.choose import CLASSES


def path(text: str) -> Path:
    """A path that somebody wrote; an empty one is a variable that was not set, not the current folder."""
    if not text:
        raise typer.BadParameter("the path is empty")
    return Path(text)


ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", parser=path, help="The .onnx file.", show_default=False)
]
OracleOption = Annotated[
    str, typer.Option("--oracle", help="Which two ways to run the model are compared: a name, or a .toml file.")
]
InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs", metavar="FILE.npz|DIR", parser=path, help="Inputs: an .npz, or a folder with input_0.pb, ..."
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=EXPR",
        help="One input: uniform(lo,hi), normal(mean,std), arange(a,b), full(v), zeros, ones, or a .npy file.",
    ),
]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=N", help="Size of a dynamic dimension (or INPUT:AXIS=N).")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of generated inputs.")]
OrtWebOption = Annotated[
    str | None,
    typer.Option("--ort-web", metavar="VERSION|DIR", help="onnxruntime-web: another version, or a local build."),
]
BrowserOption = Annotated[
    str | None, typer.Option("--browser", metavar="PATH|chrome|msedge|chromium", help="Which browser to drive.")
]
AdapterOption = Annotated[
    str, typer.Option("--adapter", help="WebGPU adapter: auto (hardware if there is any), hardware, software.")
]
HeadedOption = Annotated[bool, typer.Option("--headed", help="Show the browser's window.")]
SuspectOption = Annotated[
    str | None,
    typer.Option("--suspect", metavar="TARGET", help="Suspected target, in place of the oracle's."),
]
ReferenceOption = Annotated[
    str | None,
    typer.Option("--reference", metavar="TARGET", help="Target that is right, in place of the oracle's."),
]
RtolOption = Annotated[
    float | None, typer.Option("--rtol", min=0, help="Tolerance for floats, as a share of each output's scale.")
]
AtolOption = Annotated[float | None, typer.Option("--atol", min=0, help="Absolute tolerance for floats.")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit of one run [learned].")
]
ExpectOption = Annotated[
    str | None, typer.Option("--expect", metavar="CLASS", help=f"Only this class of failure: {', '.join(CLASSES)}.")
]
MatchOption = Annotated[
    str | None, typer.Option("--match", metavar="REGEX", help="Only failures whose message matches.")
]
