"""examples/onnxruntime-32134/conditions.py: its models are valid, and right where nothing is wrong with the runtime."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "onnxruntime-32134"))

import conditions

ROWS = conditions.conditions()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.words)
def test_a_model_is_valid_and_no_two_of_its_values_are_equal(row):
    """A value that another has replaced shows only where the two differ."""
    onnx.checker.check_model(row.model, full_check=True)
    names = [value.name for value in row.model.graph.output]
    results = dict(zip(names, ReferenceEvaluator(row.model).run(None, dict(row.feeds)), strict=True))
    assert {name: list(result.shape) for name, result in results.items()} == {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in row.model.graph.output
    }
    firsts = [abs(float(np.ravel(results[name])[0])) for name in names if name in {"D", "E", "Y"}]
    assert len(set(firsts)) == len(firsts)
    assert set(row.wrong) <= set(names)


def test_rows_have_words_of_their_own():
    assert len({row.words for row in ROWS}) == len(ROWS)
