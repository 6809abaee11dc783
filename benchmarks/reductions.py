"""Whole reductions with the real runtimes: what is left, calls, full-model equivalents, time and its share.

    python benchmarks/reductions.py [--cases FOLDER] [--only WORD ...] [--ort-web VERSION]

Without the folder of real cases it runs what `examples/` builds. Prints a Markdown table; counts can be compared from
machine to machine, seconds only within one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from cases import BUILT, CASES, MORE, SHARED, Case, built

import onnxreduce
from onnxreduce.oracle.signature import WRONG_VALUES

HEAD = (
    "case", "fault", "nodes", "by deletion", "in the end", "elements", "script lines", "calls of deletion",
    "full-model equivalents", "all calls", "seconds", "in runtimes",
)  # fmt: skip


def reduced(case: Case, model: Path, folder: Path, ort_web: str | None = None) -> onnxreduce.Reduction:
    """Reduce a case under its own oracle."""
    suspect, reference = case.targets or (None, None)
    oracle = onnxreduce.choose("webgpu-vs-wasm", onnxreduce.Settings(suspect, reference))
    setup = onnxreduce.Setup(ort_web=None if case.targets else ort_web)
    return onnxreduce.reduce(model, oracle, model.with_suffix(".npz"), output=folder, force=True, setup=setup)


def lines_of(folder: Path) -> int:
    """Lines of the emitted script, blank ones included."""
    return len((folder / "build_repro.py").read_text("utf-8").splitlines())


def kind(signature: str) -> str:
    """The class alone, without the message."""
    return signature.partition(": ")[0]


def drift(case: Case, folder: Path) -> list[str]:
    """Accepted steps, by the journal, that failed in another class than the case is known for."""
    wrong, shown, steps = [], "", 0
    for line in map(json.loads, (folder / "journal.jsonl").read_text("utf-8").splitlines()):
        if line.get("outcome") == "fails":
            shown = kind(line["signature"])
            if line["what"] in ("golden", "emitted") and not same(shown, case.fault):
                wrong.append(f"{line['what']}: {shown}")
        elif "step" in line:
            steps += 1
            if not same(shown, case.fault):
                wrong.append(f"step {line['step']}: {shown}")
    return wrong if steps or case.nodes == 1 else [*wrong, "no step"]


def same(shown: str, fault: str) -> bool:
    """Whether two classes count as one: wrong values may become NaN or zeros on the way."""
    values = {each.value for each in WRONG_VALUES}
    return shown == fault or {shown, fault} <= values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--ort-web")
    arguments = parser.parse_args()
    if not arguments.cases.is_dir():
        print("the folder of real cases is not there: only the models of examples/ are run", file=sys.stderr)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    with tempfile.TemporaryDirectory() as temporary:
        for case in (*BUILT, *SHARED, *MORE):
            if arguments.only and not any(word in case.name for word in arguments.only):
                continue
            model = arguments.cases / f"{case.name}.onnx"
            if case in BUILT:
                model = built(Path(temporary), case.name)
            elif not model.is_file():
                continue
            folder = Path(temporary) / "out"
            try:
                print(row(case, reduced(case, model, folder, arguments.ort_web), folder), flush=True)
            except onnxreduce.OnnxReduceError as error:
                print(f"| {case.name} | {error} |", flush=True)


def row(case: Case, found: onnxreduce.Reduction, folder: Path) -> str:
    """One line of the table; what is not a confirmed, 1-minimal reduction is marked behind it."""
    summary = found.summary
    deletion = summary["deletion"] or summary
    cells = [
        case.name, kind(summary["signature"]), summary["nodes_before"], len(summary["nodes"]), summary["nodes_after"],
        summary.get("elements_after", ""), lines_of(folder), deletion["oracle_calls"],
        deletion["full_model_equivalents"], summary["oracle_calls"], summary["seconds"],
        f"{100 * summary['seconds_in_runtime'] / summary['seconds']:.0f} %",
    ]  # fmt: skip
    remarks = []
    if found.status is not onnxreduce.Status.REDUCED or not summary["one_minimal"]:
        remarks.append(found.status.value)
    if found.nodes_after > case.nodes:
        remarks.append(f"more than the {case.nodes} nodes that are known to do")
    remarks += drift(case, folder)
    return f"| {' | '.join(map(str, cells))} | {'; '.join(remarks)}".rstrip()


if __name__ == "__main__":
    main()
