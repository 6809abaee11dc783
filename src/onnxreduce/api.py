"""The library: `reduce`, `check` and `explain`. The command line is a thin shell over these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from onnx import ModelProto

from onnxreduce import scratch
from onnxreduce.emit import PASSING_DATA, PASSING_MODEL, write_report
from onnxreduce.explain.explain import EXPLANATION, PATIENCE, Explainer, Limits
from onnxreduce.explain.explanation import Explanation
from onnxreduce.explain.reduced import read_reduced
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.prepare import GivenInputs, InputOptions, prepare
from onnxreduce.oracle import spec as specs
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.choose import choose
from onnxreduce.oracle.hire import oracle_for
from onnxreduce.oracle.verdict import Golden, Oracle
from onnxreduce.reduction.driver import Run, Shrinks
from onnxreduce.reduction.identity import identity
from onnxreduce.reduction.leave import ALSO_FOUND
from onnxreduce.reduction.place import JOURNAL, alone, held
from onnxreduce.reduction.problem import Budget
from onnxreduce.reduction.result import Reduction
from onnxreduce.reduction.resume import earlier, finished
from onnxreduce.reduction.steps import STEPS
from onnxreduce.reduction.watcher import Watcher

OURS = (
    JOURNAL, "summary.json", "reduced.onnx", "build_repro.py", "repro.html", "test_data_set_0", "weights", STEPS,
    ALSO_FOUND, EXPLANATION, PASSING_MODEL, PASSING_DATA,
)  # fmt: skip
"""What a reduction writes into its folder."""


@dataclass(frozen=True)
class Check:
    """One verdict, what was learnt with it, the targets' facts, and notes on inputs that were made."""

    golden: Golden
    targets: dict[str, dict[str, str]]
    notes: list[str]


def reduce(
    model: str | Path | ModelProto,
    oracle: str | specs.OracleSpec | Oracle = "webgpu-vs-wasm",
    inputs: GivenInputs | None = None,
    *,
    output: str | Path | None = None,
    force: bool = False,
    resume: bool = False,
    options: InputOptions | None = None,
    setup: Setup | None = None,
    budget: Budget | None = None,
    shrinks: Shrinks | None = None,
    watcher: Watcher | None = None,
) -> Reduction:
    """Reduce a faulty model to the few nodes that still show the fault.

    `model`: path or `ModelProto`. `oracle`: a shipped name, the path of a TOML file, `command: ...`,
    `PATH.py:FUNCTION`, an `OracleSpec` (see `choose`), or any object of the `Oracle` protocol, which the caller closes.
    `inputs`: arrays by name, an `.npz`, or a folder with `input_0.pb`, ...; what is missing is made, see
    `InputOptions`. `output`: folder to write into; nothing is written without it. Where an earlier run of the same was
    cut off there, this one goes on from it; where it was brought to its end, its result is given. Another run's files
    are replaced only with `force`, which also starts the same over. `resume`: there must be something to go on from.
    `shrinks`: what follows the deletion of nodes.

    Raises BadInputError (the model, inputs, oracle or options are at fault), SetupError (browser, adapter, package or
    provider is missing), DoesNotFailError (the original shows no fault).
    """
    spec = _spec(oracle)
    subject = prepare(model, inputs, options or InputOptions())
    folder = Path(output) if output is not None else None
    scratch.clear()
    watcher, shrinks = watcher or Watcher(), shrinks or Shrinks()
    setup = setup or Setup(report=watcher.stage)
    with ExitStack() as stack:
        journal = stack.enter_context(held(folder, OURS, force=force, resume=resume)) if folder else None
        for note in subject.notes:
            watcher.stage(note)
        judge = oracle_for(spec, setup)
        if judge is not oracle:
            stack.callback(judge.close)
        about = identity(subject, judge, [one.name for one in shrinks.passes], shrinks.keep, setup.memory)
        past = earlier(journal, about, judge, watcher.stage, OURS) if journal and not force else None
        if folder and past and (done := finished(folder)):
            watcher.stage(f"{folder} holds the result of this run already (--force starts over)")
            return done
        return Run(subject, judge, folder, budget or Budget(), watcher, shrinks, about, past)()


def check(
    model: str | Path | ModelProto,
    oracle: str | specs.OracleSpec | Oracle = "webgpu-vs-wasm",
    inputs: GivenInputs | None = None,
    *,
    options: InputOptions | None = None,
    setup: Setup | None = None,
) -> Check:
    """One verdict on a model as it is in its file. Arguments and errors as for `reduce`."""
    spec = _spec(oracle)
    subject = prepare(model, inputs, options or InputOptions())
    judge = oracle_for(spec, setup or Setup())
    try:
        golden = judge.golden(whole(subject.model, subject.feeds))
        targets = {side: dict(facts) for side, facts in judge.describe().items()}
        return Check(golden, targets, subject.notes)
    finally:
        if judge is not oracle:
            judge.close()


def explain(
    folder: str | Path,
    *,
    setup: Setup | None = None,
    limits: Limits | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Explanation:
    """Find out more about the reduced model in a folder that `reduce` has written, and write it there.

    Writes `explanation.json`; where a model that differs in one thing is right, `passing.onnx` with its data set, and
    into `build_repro.py` how to build it; then the reports once more. `limits`: what it may cost. `report` gets a line
    at each step. An interrupt keeps what is known, or an earlier explanation where there is one.

    Raises BadInputError (no such folder, or damaged), SetupError (browser, adapter, package or provider is missing),
    DoesNotFailError (the reduced model shows no fault here).
    """
    setup = replace(setup or Setup(report=report), jobs=1, cluster=None)
    with alone(Path(folder)):
        reduced = read_reduced(Path(folder))
        oracle = reduced.oracle(replace(setup, patience=setup.patience or PATIENCE))
        try:
            explanation = Explainer(reduced, oracle, limits or Limits(), report)()
        finally:
            oracle.close()
        write_report(reduced.folder)
    return explanation


def _spec(oracle: str | specs.OracleSpec | Oracle) -> specs.OracleSpec | Oracle:
    return choose(oracle) if isinstance(oracle, str) else oracle
