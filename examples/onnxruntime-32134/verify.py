"""Show in a real browser what the repair of onnxruntime-web heals, and what it costs (onnxruntime issue 32134).

    python examples/onnxruntime-32134/verify.py                      # three releases, the models of the issue
    python examples/onnxruntime-32134/verify.py --cases DIR          # real models beside them

Prints two tables in Markdown: verdicts of `onnxreduce check` on each model with the package as published (before) and
as `fix.py` leaves it (after), and the ratios of the time that creating a session and running it takes. Ends with 0
when every verdict after the repair is that the two providers agree, and depths 3 to 5 fail before it.

The folder of cases may hold `smolvla/`, `web/` and `real/`, each with `NAME.onnx` and `NAME.npz`; what it lacks is left
out, and the table says so.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import fix  # noqa: E402
import founding_models  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402

import onnxreduce  # noqa: E402
from onnxreduce.graph.candidate import whole  # noqa: E402
from onnxreduce.graph.prepare import InputOptions, prepare  # noqa: E402
from onnxreduce.oracle.build import Setup  # noqa: E402
from onnxreduce.runtimes.base import Runtime, Status, request  # noqa: E402
from onnxreduce.runtimes.browser.host import BrowserHost  # noqa: E402
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime  # noqa: E402
from onnxreduce.runtimes.packages import ort_web_package  # noqa: E402
from onnxreduce.runtimes.target import Target  # noqa: E402

VERSIONS = ("1.22.0", "1.27.0", "latest")
CASES = (
    "smolvla/smolvla",
    "smolvla/smolvla_prefill",
    "web/race_int64_mul",
    "web/race_topk",
    "real/silero_vad_openvino_16k",
)
OTHER_FAULT = {("1.22.0", "smolvla"), ("1.22.0", "smolvla_prefill")}
"""What still fails after the repair: Softmax gives NaN for fully masked rows (alone, the one node fails too)."""
DEEP = {"synth_depth3", "synth_depth4", "synth_depth5"}
TIMED = ("synth_depth1", "synth_depth3", "synth_depth5", "smolvla_prefill")
BEFORE, AFTER = "before", "after"
TIMEOUT = 300.0  # seconds for one timed run; a loaded machine takes 90 for the largest


@dataclass
class Times:
    """Seconds on both sides, in rounds that alternate."""

    create: dict[str, list[float]] = field(default_factory=lambda: {BEFORE: [], AFTER: []})
    run: dict[str, list[float]] = field(default_factory=lambda: {BEFORE: [], AFTER: []})


def models(folder: Path, cases: Path | None) -> dict[str, Path]:
    """Write the models of the issue with their inputs, and add the cases there are: paths of .onnx files by name."""
    founding = [*map(founding_models.build, range(1, 6)), founding_models.build_workaround()]
    for model in founding:
        onnx.save(model, folder / f"{model.graph.name}.onnx")
        np.savez(folder / f"{model.graph.name}.npz", **founding_models.inputs(model))
    found = {model.graph.name: folder / f"{model.graph.name}.onnx" for model in founding}
    for case in CASES if cases else ():
        path = cases / f"{case}.onnx" if cases else Path()
        if path.is_file():
            found[path.stem] = path
        else:
            print(f"no {path}: left out", file=sys.stderr)
    return found


def verdict(model: Path, package: Path) -> str:
    """What `onnxreduce check` says of a model under a package, in words for the table."""
    golden = onnxreduce.check(
        model, "webgpu-vs-wasm", model.with_suffix(".npz"), setup=Setup(ort_web=str(package))
    ).golden
    outcome = {"passes": "agrees"}.get(golden.verdict.outcome.value, golden.verdict.outcome.value)
    differences = golden.verdict.differences
    if not differences:
        return f"{outcome} {golden.verdict.message[:60]}".strip()
    wrong, worst = len(golden.verdict.wrong_outputs), max(each.relative for each in differences)
    kind = f"{golden.verdict.signature}: " if golden.verdict.signature else ""
    return f"{outcome} ({kind}{wrong} of {len(differences)}; {worst:.2g})"


@contextmanager
def both_sides(packages: dict[str, Path]) -> Iterator[dict[str, Runtime]]:
    """The WebGPU provider of both packages, in one browser."""
    host = BrowserHost()
    try:
        target = Target.parse("ort-web/webgpu")
        yield {side: OrtWebRuntime(host, target, ort_web_package(str(path))) for side, path in packages.items()}
    finally:
        host.close()


def measure(model: Path, sides: dict[str, Runtime], rounds: int) -> Times:
    """Time one model on both sides. The first round compiles shaders and is not counted; sides take turns to go first.

    A small model is run 20 times a round, and the median of these counts.
    """
    subject = prepare(model, model.with_suffix(".npz"), InputOptions())
    small = len(subject.model.proto.graph.node) < 100
    job = request(whole(subject.model, subject.feeds), repeats=20 if small else 0)
    times = Times()
    for number in range(rounds + 1):
        for side in (BEFORE, AFTER) if number % 2 else (AFTER, BEFORE):
            result = sides[side].run(job, timeout=TIMEOUT)
            if result.status is not Status.OK:
                raise SystemExit(f"{model.name} {side} the repair: {result.status.value}: {result.message}")
            if number:
                times.create[side].append(result.seconds_create)
                times.run[side].append(result.seconds_again or result.seconds_run)
    return times


def ratio(seconds: dict[str, list[float]]) -> str:
    """Median over the rounds of after/before, with the smallest and largest, and the milliseconds behind it."""
    ratios = [after / before for before, after in zip(seconds[BEFORE], seconds[AFTER], strict=True)]
    middle = [1000 * statistics.median(seconds[side]) for side in (BEFORE, AFTER)]
    return (
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}; {middle[0]:.3g} → {middle[1]:.3g} ms)"
    )


def row(*cells: str) -> None:
    """Print one row of a table."""
    print("|", " | ".join(cells), "|", flush=True)


def expectation(version: str, side: str, name: str) -> str:
    """How a verdict has to begin."""
    if side == BEFORE:
        cases = {case.rpartition("/")[2] for case in CASES}
        return "fails" if name in DEEP | cases else "agrees"
    return "fails (NaN" if (version, name) in OTHER_FAULT else "agrees"


def verdicts(packages: dict[str, dict[str, Path]], found: dict[str, Path]) -> list[str]:
    """Print the table of verdicts; gives what is not as it should be."""
    amiss = []
    row("model", *(f"{version} {side}" for version in packages for side in (BEFORE, AFTER)))
    row(*["---"] * (1 + 2 * len(packages)))
    for name, path in found.items():
        cells = []
        for version, sides in packages.items():
            for side, package in sides.items():
                cells.append(verdict(path, package))
                expected = expectation(version, side, name)
                if not cells[-1].startswith(expected):
                    amiss.append(f"{name} {side} the repair of {version}: {cells[-1]}, not {expected}")
        row(name, *cells)
    return amiss


def costs(packages: dict[str, dict[str, Path]], found: dict[str, Path], rounds: int) -> None:
    """Print the table of ratios."""
    row("model", "version", "create, after/before", "run, after/before")
    row(*["---"] * 4)
    for version, sides in packages.items():
        with both_sides(sides) as runtimes:
            for name in (name for name in TIMED if name in found):
                times = measure(found[name], runtimes, rounds)
                row(name, version, ratio(times.create), ratio(times.run))


def main() -> int:
    """Repair the packages, print both tables."""
    parser = argparse.ArgumentParser(description="Check and time onnxruntime-web before and after its repair.")
    parser.add_argument("--version", action="append", help=f"of onnxruntime-web, repeatable (default: {VERSIONS})")
    parser.add_argument("--cases", type=Path, metavar="DIR", help="folder with smolvla/, web/ and real/")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds, 0: no timing (default: %(default)s)")
    parser.add_argument("--no-verdicts", action="store_true", help="only time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        packages = {}
        for wanted in arguments.version or VERSIONS:
            package = ort_web_package(wanted, report=lambda text: print(text, file=sys.stderr))
            repaired = Path(scratch) / package.version
            fix.repair_package(package.dist.parent, repaired)
            packages[package.version] = {BEFORE: package.dist.parent, AFTER: repaired}
        found = models(Path(scratch), arguments.cases)
        amiss = [] if arguments.no_verdicts else verdicts(packages, found)
        if arguments.rounds:
            print()
            costs(packages, found, arguments.rounds)
    for line in amiss:
        print(line, file=sys.stderr)
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
