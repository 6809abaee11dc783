"""Whether what a reduction leaves reproduces by itself: each file copied into an empty folder and used as it says.

    python benchmarks/evidence.py [--cases FOLDER] [--only WORD ...]

Each case is reduced under its oracle. Then, of what lies in the folder:

- `build_repro.py`, with the data files that it names, if any, is run by a Python that has onnx, numpy and onnxruntime
  and nothing of ours; the model and inputs that it writes are judged under the same oracle, and must fail with the
  same signature.
- `test_data_set_0` must hold what the reference itself gives for `reduced.onnx`, within the oracle's tolerance.
- `repro.html` is opened as a file in the browser and told the package's folder; class and message must be the same,
  and every figure equal to the tool's.
- `test_repro.py` is run in the same Python: it must fail on the suspect with the fault, and pass on the reference where
  it has one. `operator_test.jsonc` is made a model as upstream's runner does, and judged as the script's.
  `browser_test.js` must throw in a page with the suspect's options, and not with the reference's.

Prints a Markdown table and exits with 1 when a row does not reproduce. The cases are not part of this repository: by
default they are looked for in ../shared/cases beside it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cases import CASES, MORE, SHARED, Case
from evidence_browser import browser_test_reproduces, opened, page_reproduces
from operator_tests import model_of, operator_tests
from reductions import kind, reduced

import onnxreduce
from onnxreduce.emit.report.facts import read_facts
from onnxreduce.explain.reduced import read_reduced
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.environments import PACKAGE, environment

Json = Mapping[str, Any]
Judge = Callable[[Any, Any], list[str]]
HEAD = ("case", "suspect", "class", "script reproduces", "expected outputs", "page reproduces", "test file", "note")
FOLDERS = ("ops/", "web/", "real/")
DATA = re.compile(r'"((?:weights|test_data_set_0)/[\w-]+\.pb)"')
SECONDS = 300
NONE = "–"


@dataclass
class Row:
    """One case: a cell for each thing that is tried, and what is to be said of it."""

    case: Case
    summary: Json
    cells: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def add(self, done: str, tried: Callable[[], list[str]]) -> None:
        """Try one thing, `done` in words."""
        try:
            wrong = tried()
        except Exception as error:  # one row that breaks off must not take the others with it
            wrong = [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        self.failed |= bool(wrong)
        self.cells.append(f"**no** ({done})" if wrong else done)
        self.notes += wrong

    def __str__(self) -> str:
        suspect = self.summary["targets"]["suspect"]["target"]
        parts = (self.case.name, f"`{suspect}`", kind(self.summary["signature"]), *self.cells, "; ".join(self.notes))
        return f"| {' | '.join(part.replace('|', '¦') for part in parts)} |"


def judge(targets: tuple[str, str] | None, signature: Signature) -> Judge:
    """Judges a model and its inputs under the oracle of a case (see there): what is wrong, if anything."""

    def judged(model: Any, inputs: Any) -> list[str]:
        suspect, reference = targets or (None, None)
        oracle = onnxreduce.choose("webgpu-vs-wasm", onnxreduce.Settings(suspect, reference))
        verdict = onnxreduce.check(model, oracle, inputs).golden.verdict
        if verdict.shows(signature):
            return []
        return [f"{verdict.outcome.value} {verdict.signature or verdict.message} instead of {signature}"]

    return judged


def clean_python(version: str | None = None) -> str:
    """A Python with onnx, numpy and onnxruntime (the installed version, if none is named) and nothing of ours."""
    return str(environment(PACKAGE, version or importlib.metadata.version(PACKAGE), ["onnx"]))


def run(python: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a Python in a folder, with no variable that tells Python where else to look."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python, *arguments],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def copy_script(folder: Path, alone: Path) -> list[str]:
    """Copy `build_repro.py` and the data files that it names; returns their names."""
    data = sorted(set(DATA.findall((folder / "build_repro.py").read_text("utf-8"))))
    for name in ("build_repro.py", *data):
        (alone / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / name, alone / name)
    return data


def script_reproduces(folder: Path, judged: Judge, python: str) -> list[str]:
    """What is wrong with `build_repro.py` alone in a folder."""
    with tempfile.TemporaryDirectory(prefix="onnxreduce-script-") as temporary:
        alone = Path(temporary)
        copy_script(folder, alone)
        code, said = run(python, alone, "build_repro.py")
        if code:
            return [f"build_repro.py ends with {code}: {said.strip().splitlines()[-1:]}"]
        return judged(alone / "model.onnx", alone / "inputs.npz")


def expected_outputs(folder: Path) -> list[str]:
    """What is wrong with the test data set beside what the reference gives."""
    left, expected = read_reduced(folder), read_facts(folder).expected
    if missing := set(left.candidate.outputs) - set(expected):
        return [f"there is no expected value for {', '.join(sorted(missing))}"]
    if left.spec is None:
        return ["the oracle has no reference to ask"]
    oracle = BuiltOracle(replace(left.spec, suspect=left.spec.reference), Setup())
    try:
        verdict = oracle.judge(replace(left.candidate, expected=expected), alone=True)
    finally:
        oracle.close()
    if verdict.outcome is Outcome.PASSES:
        return []
    return [f"the reference gives other outputs than test_data_set_0: {verdict.signature or verdict.message}"]


def unit_test_reproduces(folder: Path, summary: Json, python: str) -> list[str]:
    """What is wrong with `test_repro.py` beside what its docstring names."""
    with tempfile.TemporaryDirectory(prefix="onnxreduce-test-") as temporary:
        alone = Path(temporary)
        copy_script(folder, alone)
        shutil.copy(folder / "test_repro.py", alone)
        shutil.copytree(folder / "test_data_set_0", alone / "test_data_set_0", dirs_exist_ok=True)
        text = (alone / "test_repro.py").read_text("utf-8")
        code, said = run(python, alone, "-m", "unittest", "test_repro.Repro.test_suspect")
        shown = next(iter(summary["message_reduced"].splitlines()), "") or "FAILED (failures="
        wrong = [] if code and shown in said else [f"test_suspect says {said[-300:]!r}"]
        if "def test_reference" in text:
            code, said = run(python, alone, "-m", "unittest", "test_repro.Repro.test_reference")
            wrong += [f"test_reference says {said[-300:]!r}"] if code else []
        return wrong


def operator_test_reproduces(folder: Path, judged: Judge) -> list[str]:
    """What is wrong with the model that upstream makes of `operator_test.jsonc`."""
    (test,) = operator_tests(folder / "operator_test.jsonc")
    model, feeds, _ = model_of(test)
    return judged(model, feeds)


def tried(case: Case, folder: Path, found: onnxreduce.Reduction) -> Row:
    """Reproduce from each file that is there."""
    summary = found.summary
    row = Row(case, summary)
    if found.status is not onnxreduce.Status.REDUCED:
        row.failed = True
        row.notes.append(f"not confirmed: {summary.get('not_confirmed')}")
    judged = judge(case.targets, Signature.parse(summary["signature"]))
    row.add("yes", lambda: script_reproduces(folder, judged, clean_python()))
    row.add("right", lambda: expected_outputs(folder))
    with tempfile.TemporaryDirectory() as empty:
        if data := copy_script(folder, Path(empty)):
            row.notes.append(f"the script reads {', '.join(data)}")
    suspect = summary["targets"]["suspect"]
    if suspect["runtime"] != "onnxruntime-web":
        row.cells.append(NONE)
        _unit_test(row, folder)
        return row
    with opened(summary) as browser:
        if (folder / "repro.html").is_file():
            row.add("yes, same figures", lambda: page_reproduces(browser, folder, summary))
        else:
            row.cells.append(NONE)
            row.notes.append(f"page {summary['page']}")
        if (folder / "browser_test.js").is_file():
            row.add("`browser_test.js`", lambda: browser_test_reproduces(browser, folder, summary))
    if (folder / "operator_test.jsonc").is_file():
        row.add("`operator_test.jsonc`", lambda: operator_test_reproduces(folder, judged))
    if len(row.cells) == 3:
        row.cells.append(NONE)
    return row


def _unit_test(row: Row, folder: Path) -> None:
    if not (folder / "test_repro.py").is_file():
        row.cells.append(NONE)
        return
    version = row.summary["targets"]["suspect"]["version"]
    row.add("`test_repro.py`", lambda: unit_test_reproduces(folder, row.summary, clean_python(version)))
    if "def test_reference" not in (folder / "test_repro.py").read_text("utf-8"):
        row.notes.append("the reference is another runtime, so the test has one side")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    if not arguments.cases.is_dir():
        print(f"no folder of cases at {arguments.cases}; name it with --cases", file=sys.stderr)
        return 2
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    failed = 0
    for case in (*SHARED, *MORE):
        words = f"{case.name} {' '.join(case.targets or ())}"
        chosen = not arguments.only or any(word in words for word in arguments.only)
        model = arguments.cases / f"{case.name}.onnx"
        if not chosen or not case.name.startswith(FOLDERS) or not model.is_file():
            continue
        with tempfile.TemporaryDirectory(prefix="onnxreduce-evidence-") as temporary:
            try:
                row = tried(case, Path(temporary), reduced(case, model, Path(temporary)))
            except onnxreduce.OnnxReduceError as error:
                failed += 1
                print(f"| {case.name} | **{error}** |", flush=True)
                continue
            failed += row.failed
            print(row, flush=True)
    print(f"\n{failed or 'no'} row{'s do' if failed != 1 else ' does'} not reproduce.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
