"""Whole explanations of reduced models, in Python's onnxruntime and in a real browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import children
import faults
import numpy as np
import onnx
import pytest
from explain_cases import Make

import onnxreduce
from onnxreduce.api import explain
from onnxreduce.emit.folder import run_script
from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.explain.explain import Explainer, Limits
from onnxreduce.explain.explanation import Explanation
from onnxreduce.explain.reduced import read_reduced
from onnxreduce.explain.variants.run import NO_TIME
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.reduction.driver import Shrinks
from onnxreduce.reduction.result import DoesNotFailError
from onnxreduce.runtimes.target import Target

pytestmark = pytest.mark.slow

DELETION = Shrinks(passes=())
FEW = Limits(calls=12, versions=0)


def neighbours(found: Explanation) -> dict[str, bool]:
    return {f"{each.subject} {each.change}": each.heals for each in found.neighbours}


def outcomes(found: Explanation, group: str) -> dict[str, str]:
    return {each.name: each.result.outcome for each in found.variants if each.group == group}


# In Python's onnxruntime, issue 30513: an optimizer's fault.


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the faulty normalisation, reduced by deletion."""
    folder = tmp_path_factory.mktemp("levels") / "out"
    proto, feeds = faults.normalisation()
    spec = OracleSpec("levels", Target.parse(faults.REFERENCE), Target.parse(faults.SUSPECT))
    onnxreduce.reduce(proto, spec, feeds, output=folder, shrinks=DELETION)
    return folder


@pytest.fixture(scope="module")
def explained(levels: Path) -> Explanation:
    return explain(levels, limits=Limits(calls=40, versions=0))


def test_the_optimizer_behind_a_level_is_found(explained: Explanation) -> None:
    found = outcomes(explained, "optimization level")
    assert found == {"disabled": "passes", "basic": "passes", "extended": "fails", "layout": "fails", "all": "fails"}
    assert explained.optimizers == ["SimplifiedLayerNormFusion"]
    assert outcomes(explained, "other runtime")["onnx.reference"] == "passes"
    assert explained.notes == {}


def test_a_fusion_is_healed_by_looking(explained: Explanation) -> None:
    exposed = outcomes(explained, "exposed values")
    assert exposed["all"] == "passes" and len(exposed) > 3
    assert explained.closest is not None and explained.closest.change == "also a graph output"
    words = neighbours(explained)
    assert any(
        right and "keepdims of ReduceMean" in text and "dropped, which means 1" in text for text, right in words.items()
    )


def test_the_script_builds_the_passing_sibling_and_runs_both(
    levels: Path, explained: Explanation, tmp_path: Path
) -> None:
    def said(*arguments: str) -> str:
        import subprocess

        command = [sys.executable, levels / "build_repro.py", "--run", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    wrong = said().splitlines()
    assert len(wrong) == 1 and " of 9 elements differ, by " in wrong[0] and not wrong[0].startswith("out: 0 ")
    right = said("--variant", "passing").splitlines()
    assert len(right) == 2 and all(": 0 of " in line for line in right)
    proto, _ = run_script(levels, 60, "--variant", "passing")
    assert [each.name for each in proto.graph.output] == [
        each.name for each in onnx.load(levels / "passing.onnx").graph.output
    ]


def test_what_was_found_lies_in_the_folder(levels: Path, explained: Explanation) -> None:
    written = json.loads((levels / "explanation.json").read_text("utf-8"))
    assert written == json.loads(json.dumps(explained.to_json()))
    assert written["oracle_calls"] > 40
    parts = (
        "reduced", "values", "findings", "neighbours", "closest",
        "variants", "exposed values", "optimizers", "bisection",
    )  # fmt: skip
    assert tuple(written["seconds"]) == parts
    assert {"passing.onnx", "passing_data_set_0"} <= {path.name for path in levels.iterdir()}
    assert "also a graph output" in (levels / "issue.md").read_text("utf-8")


def test_explaining_again_replaces_what_was_found(levels: Path, explained: Explanation) -> None:
    before = (levels / "build_repro.py").read_text("utf-8")
    again = explain(levels, limits=Limits(calls=0, variant_seconds=0))
    assert (again.closest, list(again.neighbours)) == (None, [])
    assert not list(levels.glob("passing*"))
    after = (levels / "build_repro.py").read_text("utf-8")
    assert "def passing" in before and "def passing" not in after and "def run" in after
    found = explain(levels, limits=Limits(calls=12, variant_seconds=0))
    assert {each.result.message for each in found.variants if each.group == "optimization level"} == {NO_TIME}
    assert (levels / "build_repro.py").read_text("utf-8") == before


def test_one_part_that_fails_does_not_cost_the_others(levels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxreduce.explain.explain.ways", lambda *_: 1 / 0)
    found = explain(levels, limits=FEW)
    assert "ZeroDivisionError: division by zero" in found.notes["variants"]
    assert len(found.neighbours) > 5 and found.closest is not None


def test_an_interrupt_keeps_what_there_is(levels: Path) -> None:
    reduced = read_reduced(levels)
    oracle = reduced.oracle(Setup())
    calls = 0
    plain = oracle.judge

    def judge(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise KeyboardInterrupt
        return plain(*args, **more)

    oracle.judge = judge  # type: ignore[method-assign]
    (levels / "explanation.json").unlink(missing_ok=True)  # an earlier one would stay
    found = Explainer(reduced, oracle, FEW)()
    oracle.close()
    assert found.notes == {"neighbours": "interrupted"}
    assert 1 <= len(found.neighbours) < 6 and not found.variants
    assert json.loads((levels / "explanation.json").read_text("utf-8"))["notes"] == found.notes


def test_a_model_that_does_not_fail_here_is_told(levels: Path, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(levels, tmp_path / "copy")
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    summary["oracle_record"]["suspect"] = "ort/cpu?level=basic"
    (folder / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DoesNotFailError, match="the reduced model does not fail here: it passes"):
        explain(folder, limits=FEW)
    with pytest.raises(BadInputError, match=r"no summary\.json"):
        explain(tmp_path)


def test_at_the_command_line(levels: Path, tmp_path: Path) -> None:
    args = ["explain", levels, "--max-calls", "10", "--versions", "0"]
    done = children.onnxreduce(*args, cwd=tmp_path, env={"COLUMNS": "80"}, timeout=300)
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    said = " ".join(done.out.split())
    for text in ("with one thing changed:", "still wrong", "unchanged, run in another way", "optimization level",
                 "healed by disabling SimplifiedLayerNormFusion", "(build_repro.py --variant passing)"):  # fmt: skip
        assert text in said
    refused = children.onnxreduce("explain", tmp_path, cwd=tmp_path)
    assert (refused.code, len(refused.words)) == (2, 1)


# Oracles that are no two targets.


def test_a_command_has_neighbours_and_the_rest_says_why_not(tmp_path: Path) -> None:
    script = tmp_path / "has_pow.py"
    script.write_text(
        "import sys, onnx\n"
        "names = [node.op_type for node in onnx.load(sys.argv[1]).graph.node]\n"
        "sys.exit(0 if names[:2] == ['Neg', 'Pow'] else 1)\n"
    )
    nodes = [faults.node("Neg", ["x"], ["n"]), faults.node("Pow", ["n", "two"], ["y"])]
    proto = faults.model(
        nodes, [faults.floats("x", (3,))], [faults.floats("y", (3,))], {"two": np.array(2, np.float32)}
    )
    oracle = f"command: {sys.executable} {script} {{model}}"
    feeds = {"x": np.array([1, 2, 3], np.float32)}
    onnxreduce.reduce(proto, oracle, feeds, output=tmp_path / "out", shrinks=DELETION)
    found = explain(tmp_path / "out", limits=Limits(calls=16))
    words = neighbours(found)
    assert words["Neg (n) left out, its output fed as float input"] is True
    assert words["n also a graph output"] is False
    assert found.closest is not None and found.closest.kind == "node"
    text = "this needs an oracle of two targets; a command or function has none"
    parts = ("findings", "variants", "exposed values", "optimizers", "bisection")
    assert found.notes == dict.fromkeys(parts, text)


# In a real browser, onnxruntime issue 32134.


@pytest.fixture(scope="module")
def founding(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Explanation]:
    """Depth 3 of the founding models, reduced by deletion to Cast, Div, ReduceMean and Add, and explained."""
    import founding_models

    folder = tmp_path_factory.mktemp("founding") / "out"
    proto = founding_models.build(3)
    try:
        onnxreduce.reduce(proto, "webgpu-vs-wasm", founding_models.inputs(proto), output=folder, shrinks=DELETION)
    except SetupError as error:
        pytest.skip(f"nothing to run: {error}")
    return folder, explain(folder, limits=Limits(calls=56))


@pytest.mark.browser
def test_without_each_of_the_four_nodes_the_founding_fault_is_gone(founding: tuple[Path, Explanation]) -> None:
    words = neighbours(founding[1])
    for text in (
        "Cast (f) left out, its output fed as float input",
        "Div (D) left out",
        "ReduceMean (mn) left out, its output fed as float input",
        "Add (ad) left out",
        "Add (ad) replaced by Identity",
        "u int64 → float",
        "ReduceMean (mn) to Add (ad) moved to the front",
        "mn also a graph output",
    ):
        assert words[text] is True, text
    for text in ("Div (D) and ReduceMean (mn) swapped", "f also a graph output", "ts made a graph input"):
        assert words[text] is False, text
    sizes = {
        each.change: each.heals for each in founding[1].neighbours if each.subject == "axis 1 of pw and axis 1 of u"
    }
    assert sizes and not any(sizes.values()), "both chains in the same size class fail at every size"


@pytest.mark.browser
def test_what_the_wrong_output_holds_is_told(founding: tuple[Path, Explanation]) -> None:
    (finding,) = founding[1].findings
    assert (finding.output, finding.kind, finding.confidence) == ("D", "overwritten input", "certain")
    assert "f was overwritten by mn before Div read it" in finding.statement
    assert finding.statement in (founding[0] / "report.html").read_text("utf-8")


@pytest.mark.browser
def test_no_level_matters_and_only_jsep_is_wrong(founding: tuple[Path, Explanation]) -> None:
    _, found = founding
    assert set(outcomes(found, "optimization level").values()) == {"fails"}
    assert found.optimizers is None
    bundles = {
        each.name: (each.result.outcome, each.facts.get("implementation"))
        for each in found.variants
        if each.group == "bundle"
    }
    assert bundles == {
        "default": ("fails", "JSEP"),
        "webgpu": ("passes", "native"),
        "jspi": ("passes", "native"),
        "wasm, provider wasm": ("passes", None),
    }
    versions = outcomes(found, "version")
    ran = {version: outcome for version, outcome in versions.items() if outcome != "not run"}
    assert set(ran.values()) <= {"fails"}
    assert dict(found.bisection).get("1.27.0") == "fails" or not ran
    assert found.changed is None
    assert outcomes(found, "other runtime") == {
        "Python onnxruntime, cpu, level disabled": "passes",
        "Python onnxruntime, cpu, level all": "passes",
        "onnx.reference": "passes",
    }
    assert outcomes(found, "run of the session") == {"second": "fails"}
    captured = next(each for each in found.variants if each.name == "graph capture, second run")
    assert captured.result.outcome == "not run" and "graph capture" in captured.result.message


@pytest.mark.browser
def test_looking_heals_or_moves_the_founding_fault(founding: tuple[Path, Explanation]) -> None:
    assert outcomes(founding[1], "exposed values") == {"all": "passes", "f": "fails", "mn": "passes"}


@pytest.mark.browser
def test_the_passing_sibling_of_the_founding_fault_agrees_in_the_browser(
    founding: tuple[Path, Explanation], make: Make
) -> None:
    folder, found = founding
    assert found.closest is not None
    assert (found.closest.kind, found.closest.change) == ("order", "moved to the front")
    text = (folder / "build_repro.py").read_text("utf-8")
    assert len(text.partition("# Beside the failing model")[0].splitlines()) <= 45
    checked = onnxreduce.check(folder / "passing.onnx", inputs=folder / "passing_data_set_0")
    assert checked.golden.verdict.outcome is Outcome.PASSES
    proto, feeds = run_script(folder, 60, "--variant", "passing")
    assert [node.op_type for node in proto.graph.node] == ["ReduceMean", "Add", "Cast", "Div"]
    assert onnxreduce.check(proto, inputs=_arrays(feeds)).golden.verdict.outcome is Outcome.PASSES
    proto, feeds = run_script(folder, 60)
    assert onnxreduce.check(proto, inputs=_arrays(feeds)).golden.verdict.outcome is Outcome.FAILS


def _arrays(feeds: dict[str, StoredTensor]) -> dict[str, np.ndarray]:
    return {name: tensor.array for name, tensor in feeds.items()}
