"""Where a difference begins: in real runtimes, with real faults."""

from __future__ import annotations

import io
from pathlib import Path

import children
import faults
import numpy as np
import pytest
from explain_cases import Make, conv, subject
from onnx import helper
from rich.console import Console

from onnxreduce import terminal
from onnxreduce.errors import BadInputError
from onnxreduce.explain.localize import localize
from onnxreduce.oracle.signature import Kind
from onnxreduce.oracle.verdict import Outcome

JSEP = "ort-web@1.27.0/webgpu"
WASM = "ort-web@1.27.0/wasm"
NATIVE = "ort-web@1.30.0/webgpu?bundle=webgpu"
NATIVE_WASM = "ort-web@1.30.0/wasm?bundle=webgpu"


@pytest.mark.parametrize("case", [faults.normalisation, faults.hosted], ids=lambda each: each.__name__)
def test_a_fusion_is_healed_by_looking_and_that_is_said(make: Make, case: faults.Case) -> None:
    told: list[str] = []
    found = localize(subject(case()), make(faults.SUSPECT, faults.REFERENCE), report=told.append)
    nodes = len(case()[0].graph.node)
    assert found.golden.outcome is Outcome.FAILS
    assert (list(found.wrong), found.compared, found.runs) == ([], nodes, 2)
    assert list(found.healed) == found.golden.wrong_outputs
    assert (list(found.still_wrong), list(found.broken), found.moved) == ([], [], None)
    assert list(found.suspects) == list(range(nodes)), "one output: every node feeds it"
    assert len(told) == 2


def test_looking_at_a_part_at_a_time_can_leave_the_fault_in_place(make: Make) -> None:
    """Only where the fused values themselves are exposed does the fault go; then the block's own result is wrong."""
    proto, feeds = faults.hosted()
    found = localize(subject((proto, feeds)), make(faults.SUSPECT, faults.REFERENCE), chunk_bytes=1 << 12)
    assert found.runs > 10
    assert found.compared == len(proto.graph.node)
    assert list(found.still_wrong) == found.golden.wrong_outputs
    assert list(found.healed) == []
    begin = found.wrong[0]
    assert [value.node for value in found.wrong] == sorted(value.node for value in found.wrong)
    inside = [at for at, node in enumerate(proto.graph.node) if node.name.startswith("planted/")]
    assert min(inside) <= begin.node, "nothing before the fault is wrong"
    assert begin.operator == proto.graph.node[begin.node].op_type


def test_a_healthy_model_is_run_once(make: Make) -> None:
    found = localize(subject(faults.healthy()), make(faults.SUSPECT, faults.REFERENCE))
    assert found.golden.outcome is Outcome.PASSES
    assert (list(found.wrong), found.compared, found.runs) == ([], 0, 1)


def test_a_run_that_breaks_heals_nothing(make: Make) -> None:
    """A suspect whose process may hold too little memory dies with exposed values as it does without."""
    nodes = [
        helper.make_node("Expand", ["x", "to"], ["large"], name="grow"),
        helper.make_node("ReduceSum", ["large"], ["y"], keepdims=0),
    ]
    weights = {"to": np.array([48 << 20], np.int64)}
    case = faults.model(nodes, [faults.floats("x", (1,))], [faults.floats("y", ())], weights, opset=13)
    oracle = make("ort/cpu?memory=256&threads=1&level=disabled", faults.REFERENCE)
    found = localize(subject((case, {"x": np.ones(1, np.float32)})), oracle)
    assert found.golden.outcome is Outcome.FAILS
    assert len(found.broken) == found.runs - 1 > 0
    assert (list(found.wrong), list(found.healed), found.compared) == ([], [], 0)


def test_a_model_that_the_reference_cannot_run_is_refused(make: Make) -> None:
    with pytest.raises(BadInputError):
        localize(subject(faults.cannot_run()), make(faults.SUSPECT, faults.REFERENCE))


def test_at_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(faults.LEVELS)
    model, data = faults.save(faults.normalisation(), tmp_path)
    done = children.onnxreduce("localize", model, "--inputs", data, "--oracle", "levels.toml", cwd=tmp_path)
    assert done.code == 1, done.err
    said = " ".join(done.out.split())
    assert "0 of 8 values differ when exposed, in 2 runs" in said
    assert "exposing values heals: 1 of 1 wrong outputs became right" in said
    model, data = faults.save(faults.healthy(), tmp_path)
    done = children.onnxreduce("localize", model, "--inputs", data, "--oracle", "levels.toml", cwd=tmp_path)
    assert (done.code, done.out) == (0, "agrees: there is nothing to localize\n")
    done = children.onnxreduce("localize", model, "--inputs", data, "--oracle", "command: true", cwd=tmp_path)
    assert (done.code, len(done.words)) == (2, 1)


@pytest.mark.browser
def test_the_founding_fault_is_healed_by_looking(make: Make) -> None:
    import founding_models

    proto = founding_models.build(3)
    found = localize(subject((proto, founding_models.inputs(proto))), make(JSEP, WASM))
    assert found.golden.wrong_outputs == ["D"]
    assert (len(found.wrong), found.compared) == (0, 7)
    assert list(found.healed) == ["D"]
    assert list(found.suspects) == [0, 1, 2, 3], "the right output's branch is not suspected"


@pytest.mark.browser
def test_a_wrong_kernel_is_found_and_heals_on_the_cpu(make: Make) -> None:
    oracle = make(NATIVE, NATIVE_WASM, "native-vs-wasm")
    found = localize(subject(conv()), oracle, move_to_cpu=True)
    assert [(value.node, value.operator, value.name) for value in found.wrong] == [
        (1, "Conv", "six"),
        (2, "Tanh", "after"),
    ]
    assert found.compared == 3
    assert (list(found.healed), list(found.still_wrong)) == ([], ["y"])
    assert found.moved == ["six"]


@pytest.mark.browser
def test_a_refused_shader_is_told_from_the_values_around_it(make: Make) -> None:
    """A Concat of nine inputs binds too many buffers, and everything in its batch is zero, what comes before it too."""
    names = [f"x{at}" for at in range(8)]
    nodes = [
        faults.node("Relu", ["x"], ["r"], name="before"),
        faults.node("Concat", ["r", *names], ["c"], axis=1, name="nine"),
        faults.node("Neg", ["c"], ["y"], name="after"),
    ]
    feeds = {name: np.full((1, 4), 2, np.float32) for name in ("x", *names)}
    case = faults.model(nodes, [faults.floats(name, (1, 4)) for name in feeds], [faults.floats("y", (1, 36))]), feeds
    found = localize(subject(case), make(JSEP, WASM))
    assert found.golden.signature is not None and found.golden.signature.kind is Kind.SHADER_ERROR
    assert list(found.blamed) == ["node 'nine' (Concat)"]
    assert [value.name for value in found.wrong][:1] == ["before"]
    said = io.StringIO()
    terminal.show_localization(Console(file=said, width=200), found)
    assert "the error itself names node 'nine' (Concat)" in said.getvalue()


@pytest.mark.browser
def test_jsep_moves_nothing_to_the_cpu(make: Make) -> None:
    """It has no such option, which is said, and is no verdict."""
    import founding_models

    proto = founding_models.build(3)
    found = localize(subject((proto, founding_models.inputs(proto))), make(JSEP, WASM), move_to_cpu=True)
    assert found.moved is None
