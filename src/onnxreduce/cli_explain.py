"""The commands that find out more about a fault: `explain`, `localize` and the bisects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from onnxreduce import terminal
from onnxreduce.errors import OnnxReduceError
from onnxreduce.options import ModelOptions, OracleOptions, OrtWebOption, PlaceOptions, path
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.spread import spread
from onnxreduce.tables import show_explanation
from onnxreduce.words import printable

app = typer.Typer()


@app.command("explain")
@spread
def explain_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", parser=path, help="A folder that a reduction has written.")],
    places: PlaceOptions,
    ort_web: OrtWebOption = None,
    max_calls: Annotated[
        int, typer.Option("--max-calls", min=0, help="Oracle calls for models that differ in one thing.")
    ] = 80,
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", min=0, help="Seconds for each of the parts.")
    ] = 60,
    versions: Annotated[
        int, typer.Option("--versions", metavar="N", min=0, help="Other released versions to run.")
    ] = 3,
    fetch: Annotated[
        int, typer.Option("--fetch", metavar="N", min=0, help="Versions to fetch for that, beside the latest.")
    ] = 0,
) -> None:
    """Find out more about a reduced model: what heals it, and where else it fails."""
    from onnxreduce.api import explain
    from onnxreduce.explain.explain import INTERRUPTED, Limits
    from onnxreduce.reduction.result import Status

    report = reporter()
    setup = places.setup(report, ort_web)
    found = explain(
        folder, setup=setup, limits=Limits(max_calls, time_limit, time_limit, versions, fetch), report=report
    )
    show_explanation(Console(), found)
    if INTERRUPTED in found.notes.values():
        raise typer.Exit(Status.STOPPED.exit_code)


@app.command("localize")
@spread
def localize_command(
    model: ModelOptions,
    oracle: OracleOptions,
    places: PlaceOptions,
    ort_web: OrtWebOption = None,
    exposed: Annotated[
        int, typer.Option("--exposed", metavar="MIB", min=1, help="Values that are exposed at a time.")
    ] = 256,
    move_to_cpu: Annotated[
        bool, typer.Option("--move-to-cpu", help="Native WebGPU: which nodes heal it on the CPU, graph unchanged.")
    ] = False,
) -> None:
    """Show where the difference begins, value by value, and whether looking changes it."""
    from onnxreduce.explain.localize import localize

    report = reporter()
    setup = places.setup(report, ort_web)
    subject = model.subject()
    with closing(BuiltOracle(oracle.spec(), setup)) as built:
        found = localize(subject, built, chunk_bytes=exposed << 20, move_to_cpu=move_to_cpu, report=report)
    terminal.show_localization(Console(), found)
    raise typer.Exit(1 if found.golden.outcome is Outcome.FAILS else 0)


@app.command("bisect-version")
@spread
def bisect_version_command(
    model: ModelOptions,
    oracle: OracleOptions,
    places: PlaceOptions,
    dev: Annotated[bool, typer.Option("--dev", help="Development builds too.")] = False,
) -> None:
    """Find the released version at which a model begins to fail, or to work.

    The versions are a range in the suspect's target, such as --suspect ort-web@1.20.1..1.30.0/webgpu.
    """
    from onnxreduce.explain.bisect import bisect_versions

    report = reporter()
    setup = places.setup(report)
    found = bisect_versions(model.subject(), oracle.spec(), setup, dev=dev, report=report)
    terminal.show_bisection(Console(), found)
    raise typer.Exit(0 if found.changed else 1)


@app.command("bisect-optimizer")
@spread
def bisect_optimizer_command(
    model: ModelOptions, oracle: OracleOptions, places: PlaceOptions, ort_web: OrtWebOption = None
) -> None:
    """Find the named graph optimizers that must be disabled to heal a model."""
    from onnxreduce.explain.bisect import bisect_optimizers

    report = reporter()
    setup = places.setup(report, ort_web)
    subject = model.subject()
    with closing(BuiltOracle(oracle.spec(), setup)) as built:
        names = bisect_optimizers(subject, built, report=report)
    text = f"disabling {', '.join(names)} heals it" if names else "it still fails with every known optimizer disabled"
    print(text)
    raise typer.Exit(0 if names else 1)


def explain_too(folder: Path, places: PlaceOptions, ort_web: str | None) -> None:
    """Explain a reduction that stands, whatever becomes of its explanation."""
    from onnxreduce.api import explain

    report = reporter()
    try:
        show_explanation(Console(), explain(folder, setup=places.setup(report, ort_web), report=report), short=True)
    except (OnnxReduceError, OSError) as error:
        report(f"not explained: {printable(' '.join(str(error).split()))}")
    except KeyboardInterrupt:
        report("not explained: interrupted")


def reporter() -> Callable[[str], None]:
    """Prints what takes long, dimly, to standard error."""
    console = Console(stderr=True)
    return lambda text: console.print(text, style="dim", markup=False, highlight=False)
