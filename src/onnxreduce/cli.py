"""The command line: a thin shell over the library. Exit codes are part of the interface (README, "Exit codes")."""

from __future__ import annotations

import io
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from onnxreduce import terminal
from onnxreduce.cli_explain import app as explaining
from onnxreduce.cli_explain import explain_too, reporter
from onnxreduce.errors import BadInputError, OnnxReduceError, SetupError
from onnxreduce.options import (
    AdapterOption,
    BrowserOption,
    ModelOptions,
    OracleOptions,
    OrtWebOption,
    PlaceOptions,
    path,
)
from onnxreduce.oracle import spec as specs
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.result import Status
from onnxreduce.reduction.shrink import KINDS_KEPT
from onnxreduce.spread import spread
from onnxreduce.words import printable

REDUCE = "reduce"
INTERRUPTED = 130
MISTAKE = 70
"""As in sysexits.h; Python's own 1 would say that the fault shows, or that the original does not fail."""
_UsageError: Any = typer.BadParameter.__base__  # of click, which newer versions of typer carry inside
_GROUP_OPTIONS = {"--help", "-h", "--version", "--install-completion", "--show-completion"}


class _ReduceByDefault(TyperGroup):
    """`onnxreduce MODEL ...` means `onnxreduce reduce MODEL ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in _GROUP_OPTIONS:
            args = [REDUCE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ReduceByDefault,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Cut a faulty ONNX model down to the few nodes that still show the fault.",
    epilog="onnxreduce MODEL --oracle NAME is short for onnxreduce reduce MODEL --oracle NAME.",
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from onnxreduce import __version__

        print(f"onnxreduce {__version__}")
        raise typer.Exit


@app.command(REDUCE)
@spread
def reduce_command(
    model: ModelOptions,
    oracle: OracleOptions,
    places: PlaceOptions,
    ort_web: OrtWebOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", parser=path, help="Folder for the result (MODEL-reduced)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another run's files in the folder.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was cut off, or refuse.")] = False,
    passes: Annotated[
        str | None, typer.Option("--passes", metavar="NAMES", help="Only these passes after deletion; '' for none.")
    ] = None,
    skip: Annotated[str | None, typer.Option("--skip", metavar="NAMES", help="Leave these passes out.")] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="KINDS", help=f"Never change these: {', '.join(KINDS_KEPT)}.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option("--max-calls", min=1, help="Stop after this many oracle calls.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("-j", "--jobs", metavar="N", min=1, help="Workers: each has a browser or processes of its own."),
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Scheduler of a Dask cluster to use the workers of."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", min=0, help="Stop after this many seconds.")
    ] = None,
    no_explain: Annotated[
        bool, typer.Option("--no-explain", help="Leave out what `onnxreduce explain` finds out at the end.")
    ] = False,
) -> None:
    """Reduce a faulty model to the few nodes that still show the fault."""
    from onnxreduce.api import reduce
    from onnxreduce.explain.explain import EXPLANATION
    from onnxreduce.reduction.driver import Shrinks
    from onnxreduce.reduction.passes.table import chosen, kept_kinds

    unlimited = float("inf")
    shrinks = Shrinks(chosen(passes, skip), kept_kinds(keep))
    with terminal.Progress() as progress:
        reduction = reduce(
            model.model,
            oracle.chosen(),
            model.inputs,
            output=output or Path(f"{model.model.stem}-reduced"),
            force=force,
            resume=resume,
            options=model.making,
            setup=replace(places.setup(progress.stage, ort_web), jobs=jobs, cluster=cluster),
            budget=Budget(max_calls or unlimited, unlimited if time_limit is None else time_limit),
            shrinks=shrinks,
            watcher=progress.watcher(),
        )
    terminal.show_reduction(Console(), reduction)
    place = reduction.folder
    if reduction.status is Status.REDUCED and place and not no_explain and not (place / EXPLANATION).exists():
        explain_too(place, places, ort_web)
    raise typer.Exit(reduction.status.exit_code)


@app.command("check")
@spread
def check_command(
    model: ModelOptions, oracle: OracleOptions, places: PlaceOptions, ort_web: OrtWebOption = None
) -> None:
    """Run a model once under both targets: exit code 0 when they agree, 1 when the fault shows."""
    from onnxreduce.api import check

    report = reporter()
    setup = places.setup(report, ort_web)
    checked = check(model.model, oracle.chosen(), model.inputs, options=model.making, setup=setup)
    for note in checked.notes:
        report(note)
    terminal.show_check(Console(), checked)
    verdict = checked.golden.verdict
    if verdict.outcome is Outcome.UNRESOLVED:
        raise OnnxReduceError(f"nothing can be said: {verdict.message}")
    raise typer.Exit(1 if verdict.outcome is Outcome.FAILS else 0)


app.registered_commands += explaining.registered_commands


@app.command("doctor")
def doctor_command(browser: BrowserOption = None, adapter: AdapterOption = "auto") -> None:
    """Print what was found (Python, packages, npm, browser, adapter) and what to do about what is missing."""
    from onnxreduce.runtimes.doctor import findings

    found = findings(browser=browser, adapter=adapter)  # type: ignore[arg-type]
    terminal.show_findings(Console(), found)
    raise typer.Exit(0 if all(each.ok or not each.needed for each in found) else SetupError.exit_code)


@app.command("oracles")
def oracles_command() -> None:
    """List the oracles that are shipped."""
    terminal.show_oracles(Console(), [specs.read(path) for path in specs.shipped().values()])


@app.command("passes")
def passes_command() -> None:
    """List the passes that follow the deletion of nodes, in their order."""
    from onnxreduce.reduction.passes.table import PASSES

    terminal.show_passes(Console(), PASSES)


def main() -> None:
    """Entry point of the console script: errors that a user can act on are one line, and never lose the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names from models are not always in the terminal's alphabet
            stream.reconfigure(errors="backslashreplace")
    _take_as_interrupts("SIGTERM", "SIGHUP")
    try:
        # typer turns an interrupt into this exit code, or into Abort
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OnnxReduceError as error:
        _fail(str(error), error.exit_code)
    except _UsageError as error:
        _fail(f"{error.format_message()} (see onnxreduce --help)", BadInputError.exit_code)
    except BrokenPipeError:
        code = 0
    except OSError as error:  # a full disk, a folder that went away
        _fail(str(error), SetupError.exit_code)
    except Exception:
        traceback.print_exc()
        _fail("this is a mistake of onnxreduce's own: please report it with the lines above", MISTAKE)
    if code == INTERRUPTED:
        _fail("interrupted before there was anything to keep", INTERRUPTED)
    sys.exit(code)


def _take_as_interrupts(*names: str) -> None:
    """A batch system, a container that is stopped, a terminal that is closed: the best so far is kept all the same."""
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored
            signal.signal(number, signal.default_int_handler)


def _fail(text: str, code: int) -> NoReturn:
    print(f"onnxreduce: {printable(' '.join(text.split()))}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
