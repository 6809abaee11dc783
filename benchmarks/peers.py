"""onnxreduce beside textbook ddmin and Polygraphy's `debug reduce`, under the same oracle, in one run.

    pip install polygraphy onnx-graphsurgeon
    python benchmarks/peers.py MODEL [--inputs FILE.npz] [--oracle NAME] [--jobs 1 2] [--limit 600] [--adapter MODE]

Node deletion only, which is what the peers do. Each is stopped after `--limit` seconds; what it has by then is shown.
Prints a Markdown table. A call of Polygraphy's is one run of its `--check` command, here a process that judges the
candidate under the oracle with all recorded values as inputs; it starts a browser of its own each time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import onnxreduce
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import normalise
from onnxreduce.graph.prepare import InputOptions, prepare
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.choose import choose
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.evidence import evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import Budget, Problem, StoppedError
from onnxreduce.runtimes.recording import record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "reduction"))
_planted = importlib.util.spec_from_file_location("benchmark_planted", Path(__file__).with_name("planted.py"))
assert _planted is not None and _planted.loader is not None
_module = importlib.util.module_from_spec(_planted)
sys.modules[_planted.name] = _module
_planted.loader.exec_module(_module)  # a module of tests has the same name
ddmin = _module.ddmin

CALLS, VALUES, ORACLE, ADAPTER = "PEERS_CALLS", "PEERS_VALUES", "PEERS_ORACLE", "PEERS_ADAPTER"


@dataclass(frozen=True)
class Row:
    """What one tool did. `equivalents`: nodes of all models judged over those of the original."""

    tool: str
    calls: int
    equivalents: float
    nodes: int
    seconds: float
    note: str = ""

    def __str__(self) -> str:
        cells = self.tool, self.calls, f"{self.equivalents:.2f}", self.nodes, f"{self.seconds:.0f}", self.note
        return f"| {' | '.join(map(str, cells))} |"


def ours(arguments: argparse.Namespace, jobs: int) -> Row:
    """Deletion with this many workers."""
    found = onnxreduce.reduce(
        arguments.model, arguments.oracle, arguments.inputs, shrinks=Shrinks(()),
        setup=Setup(adapter=arguments.adapter, jobs=jobs), budget=Budget(seconds=arguments.limit),
    )  # fmt: skip
    summary = found.summary
    share = 100 * summary["seconds_in_runtime"] / summary["seconds"]
    notes = [f"{share:.0f} % in the runtimes", f"{summary['wasted_calls']} calls wasted"]
    if "peak_memory_mib" in summary:
        notes.append(f"{summary['peak_memory_mib']} MiB at most")
    return Row(
        f"onnxreduce, {jobs} worker{'s' if jobs > 1 else ''}", summary["oracle_calls"],
        summary["full_model_equivalents"], summary["nodes_after"], summary["seconds"], ", ".join(notes),
    )  # fmt: skip


def textbook(arguments: argparse.Namespace) -> Row:
    """ddmin, with the same door to the oracle, recording and confirmation."""
    begun = time.monotonic()
    subject = prepare(arguments.model, arguments.inputs, InputOptions())
    index = GraphIndex(normalise(subject.model), subject.feeds)
    spec = choose(arguments.oracle)
    assert isinstance(spec, OracleSpec)
    oracle = BuiltOracle(spec, Setup(adapter=arguments.adapter))
    recorded = record(index, subject.feeds, timeout=900)
    journal, note = Journal(), ""
    try:
        candidate = whole(index.model, subject.feeds)
        golden = oracle.golden(candidate, lambda: recorded)
        journal.add("golden", candidate.nodes, golden.verdict)
        left = arguments.limit - (time.monotonic() - begun)
        problem = Problem(index, recorded, oracle, golden, journal, Budget(seconds=left))
        try:
            ddmin(problem, evidence(index, golden.verdict))
            problem.settle()
        except StoppedError:
            note = "stopped"
        equivalents = journal.nodes_judged / problem.size
        return Row("ddmin", journal.calls, equivalents, len(problem.best), time.monotonic() - begun, note)
    finally:
        oracle.close()
        recorded.close()


def polygraphy(arguments: argparse.Namespace) -> Row:
    """`polygraphy debug reduce --mode bisect`, with this file as its check."""
    subject = prepare(arguments.model, arguments.inputs, InputOptions())
    index = GraphIndex(normalise(subject.model), subject.feeds)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        onnx.save(index.model.with_weights_inside(), place / "model.onnx")
        with closing(record(index, subject.feeds, timeout=900)) as recorded:
            arrays = {name: tensor.array for name, tensor in recorded.items() if tensor.array.dtype != object}
            np.savez(place / "values.npz", names=list(arrays), **{f"v{at}": a for at, a in enumerate(arrays.values())})
        settings = {CALLS: place / "calls", VALUES: place / "values.npz", ORACLE: arguments.oracle}
        settings |= {ADAPTER: arguments.adapter}
        command = ["polygraphy", "debug", "reduce", "model.onnx", "-o", "reduced.onnx", "--mode", "bisect"]
        command += ["--fail-code", "1", "--check", sys.executable, str(Path(__file__).resolve()), "--check"]
        begun, note = time.monotonic(), ""
        try:
            done = subprocess.run(
                command, cwd=place, env=os.environ | {key: str(value) for key, value in settings.items()},
                capture_output=True, text=True, timeout=arguments.limit, check=False,
            )  # fmt: skip
            lines = (done.stdout + done.stderr).strip().splitlines()
            note = "" if done.returncode == 0 else f"failed: {lines[-1] if lines else done.returncode}"
        except FileNotFoundError:
            return Row("Polygraphy", 0, 0, 0, 0, "not installed")
        except subprocess.TimeoutExpired:
            note = "stopped"
        calls = [json.loads(line) for line in (place / "calls").read_text().splitlines()]
        left = [call["nodes"] for call in calls if call["fails"]]
        result = place / "reduced.onnx"
        nodes = len(onnx.load(result).graph.node) if result.is_file() else min(left, default=len(index))
        judged = sum(call["nodes"] for call in calls) / len(index)
        return Row("Polygraphy", len(calls), judged, nodes, time.monotonic() - begun, note)


def check_one() -> int:
    """Polygraphy's check: 1 where the candidate fails."""
    model = onnx.load("polygraphy_debug.onnx")
    with np.load(os.environ[VALUES]) as archive:
        places = {str(name): f"v{at}" for at, name in enumerate(archive["names"])}
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = {v.name: archive[places[v.name]] for v in model.graph.input if v.name not in held}
    fails = False
    try:
        found = onnxreduce.check(model, os.environ[ORACLE], inputs, setup=Setup(adapter=os.environ[ADAPTER]))
        fails = found.golden.verdict.outcome is onnxreduce.Outcome.FAILS
    except onnxreduce.OnnxReduceError as error:
        print(error)
    with Path(os.environ[CALLS]).open("a") as file:
        file.write(json.dumps({"nodes": len(model.graph.node), "fails": fails}) + "\n")
    return int(fails)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--inputs", type=Path)
    parser.add_argument("--oracle", default="webgpu-vs-wasm")
    parser.add_argument("--adapter", default="auto")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("--only", nargs="*", choices=("ours", "ddmin", "polygraphy"))
    arguments = parser.parse_args()
    tools: list[tuple[str, Callable[[], Row]]] = [
        *(("ours", lambda jobs=jobs: ours(arguments, jobs)) for jobs in arguments.jobs),  # type: ignore[misc]
        ("ddmin", lambda: textbook(arguments)),
        ("polygraphy", lambda: polygraphy(arguments)),
    ]
    print("| tool | calls | full-model equivalents | nodes left | seconds | |\n|---|---|---|---|---|---|")
    for name, tool in tools:
        if not arguments.only or name in arguments.only:
            print(tool(), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(check_one())
    main()
