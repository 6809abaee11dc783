"""Verdicts written as JSON and read again."""

from __future__ import annotations

import json
import math

import faults
import pytest

from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.record import WHOLE, recorded, recorded_golden, restored, restored_golden
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict


def again(verdict: Verdict) -> Verdict:
    return restored(json.loads(json.dumps(recorded(verdict), allow_nan=False)))


def test_a_real_verdict_comes_back_whole() -> None:
    oracle = faults.levels()
    try:
        golden = oracle.golden(faults.candidate(faults.hosted(1, 1)))
    finally:
        oracle.close()
    assert golden.verdict.differences[0].samples
    assert again(golden.verdict) == golden.verdict
    assert restored_golden(json.loads(json.dumps(recorded_golden(golden)))) == golden


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.INTERESTING])
def test_every_class_comes_back_with_its_message(kind: Kind) -> None:
    message = f"odd: {kind.value}: 'quoted' \udce9 \x00 日本\nsecond line" + "x" * 5000
    verdict = Verdict(Outcome.FAILS, Signature(kind, "odd: [#]"), (), message, 0.1 + 0.2)
    assert again(verdict) == Verdict(Outcome.FAILS, Signature(kind, "odd: [#]"), [], message, 0.1 + 0.2)


def test_of_many_outputs_those_that_agree_keep_their_names_alone() -> None:
    right = [Difference(f"right {at}", None, "float32", (3,), 1e-9, 1e-9, total=3, share=0.1) for at in range(WHOLE)]
    wrong = Difference("wrong", Kind.NAN, "float32", (3,), math.inf, math.nan, 1, 3, 1, (2,), "so", 0.1)
    many = again(Verdict(Outcome.FAILS, Signature(Kind.NAN), [*right, wrong]))
    assert [each.output for each in many.differences] == [each.output for each in [*right, wrong]]
    assert many.differences[0] == Difference("right 0", None)
    assert many.wrong_outputs == ["wrong"]
    assert many.differences[-1].first == (2,)
    assert math.isnan(many.differences[-1].relative)
    few = again(Verdict(Outcome.PASSES, None, right))
    assert few.differences == right


def test_what_is_no_verdict_is_refused() -> None:
    for line in ({}, {"outcome": "odd", "seconds": 1}, {"outcome": "fails", "seconds": "x"}, {"outcome": "fails"}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            restored(line)
    golden = Golden(Verdict(Outcome.PASSES))
    assert restored_golden(recorded_golden(golden)).timeout == golden.timeout
