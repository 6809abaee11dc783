"""The quality table: what is left of each case, and at how many oracle calls. Counts are checked, seconds never are."""

import sys
from pathlib import Path

import pytest

import onnxreduce

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from cases import BUILT, CASES, SHARED, Case, built  # noqa: E402
from reductions import drift, lines_of, reduced  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("case", BUILT, ids=lambda case: case.name)
def test_built_case(case: Case, tmp_path: Path) -> None:
    check(case, built(tmp_path, case.name), tmp_path / "out")


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case.name)
def test_real_case(case: Case, tmp_path: Path) -> None:
    model = CASES / f"{case.name}.onnx"
    if not model.is_file():
        pytest.skip("the folder of real cases is not there")
    check(case, model, tmp_path / "out")


def check(case: Case, model: Path, folder: Path) -> None:
    try:
        found = reduced(case, model, folder)
    except onnxreduce.SetupError as error:
        pytest.skip(f"a target cannot run here: {error}")
    summary = found.summary
    deletion = summary["deletion"]
    assert found.status is onnxreduce.Status.REDUCED and summary["confirmed_fresh"] and summary["one_minimal"]
    assert found.nodes_after <= case.nodes
    assert drift(case, folder) == []
    assert deletion["oracle_calls"] <= case.deletion
    assert summary["oracle_calls"] <= case.calls
    if case.equivalents is not None:
        assert deletion["full_model_equivalents"] <= case.equivalents
    if case.elements is not None:
        assert summary["elements_after"] <= case.elements
        assert not found.model.graph.initializer
        assert sum(array.size for array in found.inputs.values()) <= case.elements
    if case.lines is not None:
        assert lines_of(folder) <= case.lines
        assert not (folder / "weights").exists() and "load_tensor" not in (folder / "build_repro.py").read_text("utf-8")
