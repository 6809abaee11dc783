"""Weights that stay with their operator come out of the script as formulas, not as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_faults import graph, holds, shrink_with

from onnxreduce import emit
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.order import weights
from onnxreduce.reduction.shrink import Shrinking

ROPE = """(int64[1, 194] p) => (float[1, 194, 32] d) {
    u = Unsqueeze(p, last) f = Cast<to=1>(u) d = Div(f, timescale) }"""
LAST = np.array([-1])
COUNTED = {"p": np.arange(1, 195).reshape(1, 194)}
EXACT = (10000.0 ** (np.arange(32) / 32)).astype(np.float32).reshape(1, 1, 32)
SINGLE = (np.float32(10000) ** (np.arange(32, dtype=np.float32) / np.float32(32))).reshape(1, 1, 32)


def script(problem: Shrinking) -> emit.Script:
    best = problem.best
    return emit.builder_script(best.model.proto, best.feeds, title_lines=["test"], external=best.model.external)


def built(made: emit.Script) -> dict[str, np.ndarray]:
    """The initializers that the script makes."""
    names: dict[str, Any] = {"__name__": "build_repro"}
    exec(made.text, names)
    from onnx import numpy_helper

    return {tensor.name: numpy_helper.to_array(tensor) for tensor in names["model"]().graph.initializer}


def uses_timescale(candidate: Candidate) -> bool:
    """A fault that shows only with the series itself, to a few digits."""
    found = [tensor.array for tensor in weights(candidate).values() if tensor.size == 32]
    return holds("Div", "Cast")(candidate) and any(
        np.allclose(array.ravel(), EXACT.ravel(), rtol=1e-3) for array in found
    )


@pytest.mark.parametrize("keep", [("operators", "shape", "values"), ("operators",)])
def test_the_timescale_of_rotary_embeddings(keep: tuple[str, ...]) -> None:
    found = shrink_with("all", graph(ROPE, last=LAST, timescale=EXACT), uses_timescale, COUNTED, keep=keep)
    made = script(found)
    assert "10000.0 ** (np.arange(32) / 32)" in made.text
    assert not made.data
    timescale = next(array for array in built(made).values() if array.size == 32)
    assert timescale.ravel().tobytes() == EXACT.ravel().tobytes()


def test_a_timescale_computed_in_single_precision() -> None:
    """Its last bits differ from the formula's; where values may change, they become the formula's."""
    assert SINGLE.tobytes() != EXACT.tobytes()
    found = shrink_with("all", graph(ROPE, last=LAST, timescale=SINGLE), uses_timescale, COUNTED, keep=["operators"])
    made = script(found)
    assert "10000.0 ** (np.arange(32) / 32)" in made.text
    assert not made.data


def test_without_the_operators_no_weight_is_left() -> None:
    def two_nodes(candidate: Candidate) -> bool:
        return holds("Cast")(candidate) and len(candidate.model.proto.graph.node) == 2

    found = shrink_with(
        "all", graph(ROPE, last=LAST, timescale=EXACT), lambda c: holds("Cast")(c) and len(c.nodes) >= 2
    )
    assert two_nodes(found.best)
    assert weights(found.best) == {}
    assert len(script(found).text.splitlines()) <= 30
