"""The command line: a thin shell over the library. Exit codes are part of the interface (README, "Exit codes")."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from onnxreduce import terminal
from onnxreduce.errors import BadInputError, OnnxReduceError, SetupError
from onnxreduce.graph.input_expressions import parse_assignments, parse_dims
from onnxreduce.graph.prepare import InputOptions, prepare
from onnxreduce.options import (
    AdapterOption,
    AtolOption,
    BrowserOption,
    DimOption,
    ExpectOption,
    HeadedOption,
    InputOption,
    InputsOption,
    MatchOption,
    ModelArgument,
    OracleOption,
    OrtWebOption,
    ReferenceOption,
    RtolOption,
    SeedOption,
    SuspectOption,
    TimeoutOption,
    path,
)
from onnxreduce.oracle import spec as specs
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.choose import Settings, choose
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.shrink import KINDS_KEPT

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
def reduce_command(
    model: ModelArgument,
    oracle: OracleOption = "webgpu-vs-wasm",
    suspect: SuspectOption = None,
    reference: ReferenceOption = None,
    inputs: InputsOption = None,
    input: InputOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", parser=path, help="Folder for the result [MODEL-reduced]."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace another run's files in the folder.")] = False,
    ort_web: OrtWebOption = None,
    browser: BrowserOption = None,
    adapter: AdapterOption = "auto",
    headed: HeadedOption = False,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    timeout: TimeoutOption = None,
    expect: ExpectOption = None,
    match: MatchOption = None,
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
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", metavar="SECONDS", min=0, help="Stop after this many seconds.")
    ] = None,
) -> None:
    """Reduce a faulty model to the few nodes that still show the fault."""
    from onnxreduce.api import reduce
    from onnxreduce.reduction.driver import Shrinks
    from onnxreduce.reduction.passes.table import chosen, kept_kinds

    folder = output or Path(f"{model.stem}-reduced")
    unlimited = float("inf")
    shrinks = Shrinks(chosen(passes, skip), kept_kinds(keep))
    with terminal.Progress() as progress:
        reduction = reduce(
            model,
            choose(oracle, Settings(suspect, reference, rtol, atol, timeout, expect, match)),
            inputs,
            output=folder,
            force=force,
            options=_input_options(input, dim, seed),
            setup=Setup(ort_web, browser, adapter, headed, progress.stage),
            budget=Budget(max_calls or unlimited, unlimited if time_limit is None else time_limit),
            shrinks=shrinks,
            watcher=progress.watcher(),
        )
    terminal.show_reduction(Console(), reduction)
    raise typer.Exit(reduction.status.exit_code)


@app.command("check")
def check_command(
    model: ModelArgument,
    oracle: OracleOption = "webgpu-vs-wasm",
    suspect: SuspectOption = None,
    reference: ReferenceOption = None,
    inputs: InputsOption = None,
    input: InputOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    ort_web: OrtWebOption = None,
    browser: BrowserOption = None,
    adapter: AdapterOption = "auto",
    headed: HeadedOption = False,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    timeout: TimeoutOption = None,
    expect: ExpectOption = None,
    match: MatchOption = None,
) -> None:
    """Run a model once under both targets: exit code 0 when they agree, 1 when the fault shows."""
    from onnxreduce.api import check

    report = _reporter()
    checked = check(
        model,
        choose(oracle, Settings(suspect, reference, rtol, atol, timeout, expect, match)),
        inputs,
        options=_input_options(input, dim, seed),
        setup=Setup(ort_web, browser, adapter, headed, report),
    )
    for note in checked.notes:
        report(note)
    terminal.show_check(Console(), checked)
    verdict = checked.golden.verdict
    if verdict.outcome is Outcome.UNRESOLVED:
        raise OnnxReduceError(f"nothing can be said: {verdict.message}")
    raise typer.Exit(1 if verdict.outcome is Outcome.FAILS else 0)


@app.command("localize")
def localize_command(
    model: ModelArgument,
    oracle: OracleOption = "webgpu-vs-wasm",
    suspect: SuspectOption = None,
    reference: ReferenceOption = None,
    inputs: InputsOption = None,
    input: InputOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    ort_web: OrtWebOption = None,
    browser: BrowserOption = None,
    adapter: AdapterOption = "auto",
    rtol: RtolOption = None,
    atol: AtolOption = None,
    memory: Annotated[int, typer.Option("--memory", metavar="MIB", min=1, help="Values exposed at a time.")] = 256,
    move_to_cpu: Annotated[
        bool, typer.Option("--move-to-cpu", help="Native WebGPU: which nodes heal it on the CPU, graph unchanged.")
    ] = False,
) -> None:
    """Show where the difference begins, value by value, and whether looking changes it."""
    from onnxreduce.explain.localize import localize

    settings = Settings(suspect, reference, rtol, atol)
    report = _reporter()
    subject = prepare(model, inputs, _input_options(input, dim, seed))
    with closing(BuiltOracle(_spec(oracle, settings), Setup(ort_web, browser, adapter, report=report))) as built:
        found = localize(subject, built, chunk_bytes=memory << 20, move_to_cpu=move_to_cpu, report=report)
    terminal.show_localization(Console(), found)
    raise typer.Exit(1 if found.golden.outcome is Outcome.FAILS else 0)


@app.command("bisect-version")
def bisect_version_command(
    model: ModelArgument,
    suspect: Annotated[
        str, typer.Option("--suspect", metavar="TARGET", help="With a range, such as ort-web@1.20.1..1.30.0/webgpu.")
    ],
    reference: ReferenceOption = None,
    oracle: OracleOption = "webgpu-vs-wasm",
    inputs: InputsOption = None,
    input: InputOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    browser: BrowserOption = None,
    adapter: AdapterOption = "auto",
    rtol: RtolOption = None,
    atol: AtolOption = None,
    dev: Annotated[bool, typer.Option("--dev", help="Development builds too.")] = False,
) -> None:
    """Find the released version at which a model begins to fail, or to work."""
    from onnxreduce.explain.bisect import bisect_versions

    report = _reporter()
    subject = prepare(model, inputs, _input_options(input, dim, seed))
    spec = _spec(oracle, Settings(suspect, reference, rtol, atol))
    found = bisect_versions(subject, spec, Setup(None, browser, adapter, report=report), dev=dev, report=report)
    terminal.show_bisection(Console(), found)
    raise typer.Exit(0 if found.changed else 1)


@app.command("bisect-optimizer")
def bisect_optimizer_command(
    model: ModelArgument,
    oracle: OracleOption = "webgpu-vs-wasm",
    suspect: SuspectOption = None,
    reference: ReferenceOption = None,
    inputs: InputsOption = None,
    input: InputOption = None,
    dim: DimOption = None,
    seed: SeedOption = 0,
    ort_web: OrtWebOption = None,
    browser: BrowserOption = None,
    adapter: AdapterOption = "auto",
    rtol: RtolOption = None,
    atol: AtolOption = None,
) -> None:
    """Find the named graph optimizers that must be disabled to heal a model."""
    from onnxreduce.explain.bisect import bisect_optimizers

    report = _reporter()
    subject = prepare(model, inputs, _input_options(input, dim, seed))
    spec = _spec(oracle, Settings(suspect, reference, rtol, atol))
    with closing(BuiltOracle(spec, Setup(ort_web, browser, adapter, report=report))) as built:
        names = bisect_optimizers(subject, built, report=report)
    text = f"disabling {', '.join(names)} heals it" if names else "it still fails with every known optimizer disabled"
    print(text)
    raise typer.Exit(0 if names else 1)


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


def _fail(text: str, code: int) -> NoReturn:
    print(f"onnxreduce: {terminal.printable(' '.join(text.split()))}", file=sys.stderr)
    sys.exit(code)


def _spec(oracle: str, settings: Settings) -> specs.OracleSpec:
    spec = choose(oracle, settings)
    if not isinstance(spec, specs.OracleSpec):
        raise BadInputError("this command needs two targets: a command or function as oracle has none")
    return spec


def _reporter() -> Callable[[str], None]:
    console = Console(stderr=True)
    return lambda text: console.print(text, style="dim", markup=False, highlight=False)


def _input_options(texts: list[str] | None, dims: list[str] | None, seed: int) -> InputOptions:
    return InputOptions(parse_assignments(texts or [], "--input"), parse_dims(dims or []), seed)


if __name__ == "__main__":
    main()
