"""Judge the founding models with and without the fix, in the browser, and measure what the fix costs.

    python verify.py [--versions 1.22.0 1.27.0 1.30.0] [--cases FOLDER] [--runs 5] [--no-cost]

Prints two Markdown tables. The models are built by `examples/founding_models.py`; `--cases` adds real ones where their
folder is there: the SmolVLA exports, two races and Silero's voice detector. A version is fetched through npm.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from fix import fix_package

import onnxreduce
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.prepare import InputOptions, prepare
from onnxreduce.oracle.build import Setup
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.packages import ort_web_package
from onnxreduce.runtimes.target import Target

HERE = Path(__file__).resolve().parent
REAL = (
    "smolvla/smolvla_prefill",
    "smolvla/smolvla",
    "web/race_int64_mul",
    "web/race_topk",
    "real/silero_vad_openvino_16k",
)
COST_OF = ("synth_depth3", "synth_depth5", "smolvla_prefill")


def models(folder: Path, cases: Path | None) -> list[Path]:
    """The founding models, built, and the real ones that are there."""
    subprocess.run(
        [sys.executable, HERE.parent / "founding_models.py", "-o", folder], check=True, stdout=subprocess.DEVNULL
    )
    found = sorted(folder.glob("synth_*.onnx"))
    if cases is not None:
        found += [path for name in REAL if (path := cases / f"{name}.onnx").is_file()]
    return found


def inputs_of(model: Path) -> Path | None:
    """The inputs beside a model, if there are any."""
    given = model.with_suffix(".npz")
    return given if given.is_file() else None


def judged(model: Path, package: Path) -> str:
    """One verdict, with the largest difference as a share of its output's scale."""
    found = onnxreduce.check(model, "webgpu-vs-wasm", inputs_of(model), setup=Setup(ort_web=str(package)))
    verdict = found.golden.verdict
    worst = max((each.relative for each in verdict.differences), default=0.0)
    if verdict.outcome is onnxreduce.Outcome.PASSES:
        return f"agrees ({worst:.0e})"
    count = f"{len(verdict.wrong_outputs)} of {len(verdict.differences)} outputs"
    return f"**{verdict.outcome.value}** ({verdict.signature}, {count}, {worst:.2g})"


def cost(model: Path, before: Path, after: Path, runs: int) -> tuple[float, float]:
    """Median seconds of a run without and with the fix, taken in turn in one browser; the first of each is left out."""
    subject = prepare(model, inputs_of(model), InputOptions())
    asked = request(whole(subject.model, subject.feeds))
    with BrowserHost() as host:
        runtimes = [
            host.runtime(Target("ort-web", "local", "webgpu"), ort_web_package(str(folder)))
            for folder in (before, after)
        ]
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs + 1):
            for place, runtime in zip(seconds, runtimes, strict=True):
                result = runtime.run(asked, timeout=900)
                assert result.status is Status.OK, result.message
                place.append(result.seconds_run)
    return statistics.median(seconds[0][1:]), statistics.median(seconds[1][1:])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", nargs="*", default=["1.22.0", "1.27.0", "1.30.0"])
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-cost", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        found = models(place, arguments.cases)
        packages = {}
        for version in arguments.versions:
            before, after = ort_web_package(version).dist, place / version
            fix_package(before, after)
            packages[version] = before, after
        print("| model | version | as released | with the flush |\n|---|---|---|---|")
        for model in found:
            for version, (before, after) in packages.items():
                cells = model.stem, version, judged(model, before), judged(model, after)
                print(f"| {' | '.join(cells)} |", flush=True)
        if arguments.no_cost:
            return
        print("\n| model | version | run, s | with the flush, s | ratio |\n|---|---|---|---|---|")
        for model in (each for each in found if each.stem in COST_OF):
            for version, (before, after) in packages.items():
                old, new = cost(model, before, after, arguments.runs)
                print(f"| {model.stem} | {version} | {old:.4f} | {new:.4f} | {new / old:.2f} |", flush=True)


if __name__ == "__main__":
    main()
