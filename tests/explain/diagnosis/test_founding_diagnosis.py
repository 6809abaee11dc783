"""The fault that this project began with, and other sightings of it, diagnosed in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import faults
import founding_models
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from planted_outputs import Tools, node, recorded
from subsets import CASES

from onnxreduce.errors import SetupError
from onnxreduce.explain.diagnosis import Diagnosis, DiagnosisKind, Rerun, diagnose
from onnxreduce.graph.candidate import Candidate, cut, whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.choose import Settings, choose
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.runtimes.base import Status, request

pytestmark = pytest.mark.browser

JSEP, WASM = "ort-web@1.27.0/webgpu", "ort-web@1.27.0/wasm"
WEB = CASES / "web"


@pytest.fixture(scope="module")
def oracle() -> Iterator[BuiltOracle]:
    spec = choose("webgpu-vs-wasm", Settings(JSEP, WASM))
    assert isinstance(spec, OracleSpec)
    try:
        made = BuiltOracle(spec, Setup())
        made.describe()
    except SetupError as error:
        pytest.skip(f"nothing to run: {error}")
    yield made
    made.close()


def candidate_of(proto: ModelProto, feeds: faults.Arrays) -> Candidate:
    return whole(normalise(load(proto)), {name: StoredTensor.from_array(array) for name, array in feeds.items()})


def reruns(oracle: BuiltOracle, tools: Tools) -> Rerun:
    """The suspect itself on other inputs."""

    def rerun(candidate: Candidate) -> tuple[faults.Arrays, faults.Arrays] | None:
        if tools.reference.record(candidate) is None:
            return None
        result = oracle.suspect.run(request(candidate), timeout=60, fresh=True)
        return (recorded(candidate, tools), dict(result.outputs)) if result.status is Status.OK else None

    return rerun


def said(candidate: Candidate, oracle: BuiltOracle, tools: Tools, *, again: bool = True) -> list[Diagnosis]:
    values = recorded(candidate, tools)
    actual = oracle.suspect.run(request(candidate), timeout=60, fresh=True).outputs
    wrong = [name for name in candidate.outputs if compare(name, values[name], actual[name], Tolerance()).kind]
    assert wrong == ["D"]
    rerun = reruns(oracle, tools) if again else None
    return diagnose(candidate, values, actual, wrong, Tolerance(), rerun=rerun, recomputer=tools.recomputer)


def founding() -> Candidate:
    proto = founding_models.build(3)
    return candidate_of(proto, founding_models.inputs(proto))


def four(tools: Tools) -> Candidate:
    """Its minimum by deletion."""
    candidate = founding()
    index = GraphIndex(candidate.model, candidate.feeds)
    kept = [at for at, each in enumerate(index.nodes) if each.op_type in ("Cast", "Div", "ReduceMean", "Add")]
    values = tools.reference.record(candidate)
    assert values is not None
    return cut(index, kept, values)


def test_the_founding_fault(oracle: BuiltOracle, tools: Tools) -> None:
    """3e3 and 3e3 + 1e-6 are the same in float32: only other inputs tell whether the mean was there, or the sum."""
    (alone,) = said(founding(), oracle, tools, again=False)
    assert alone.kind is DiagnosisKind.OVERWRITTEN_INPUT
    assert "f was overwritten by mn before Div read it (or, as likely: f was overwritten by ad" in alone.statement
    (found,) = said(founding(), oracle, tools)
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert found.matched == found.total == 194 * 32
    assert found.statement.startswith("D equals Div(mn, ts) to ")
    assert "f was overwritten by mn before Div read it; so too for" in found.statement


def test_its_minimum(oracle: BuiltOracle, tools: Tools) -> None:
    (found,) = said(four(tools), oracle, tools)
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert "f was overwritten by mn before Div read it; so too for" in found.statement


def test_its_plainest_form_of_one_element(oracle: BuiltOracle, tools: Tools) -> None:
    """D is Neg(Neg(pw)): so are pw and ad. Only another operator in the place of one Neg tells them apart."""
    nodes = [
        node("Cast", ["P"], ["f"], to=TensorProto.FLOAT),
        node("Neg", ["f"], ["D"]),
        node("Neg", ["pw"], ["mn"]),
        node("Neg", ["mn"], ["ad"]),
    ]
    ends = [faults.tensor_info("P", TensorProto.INT64, [1]), faults.floats("pw", [1])]
    proto = faults.model(nodes, ends, [faults.floats("D", [1]), faults.floats("ad", [1])], opset=13)
    (found,) = said(candidate_of(proto, {"P": np.array([1]), "pw": np.ones(1, np.float32)}), oracle, tools)
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert (found.matched, found.total) == (1, 1)
    assert "D equals Neg(mn) in 1 of 1 elements: f was overwritten by mn before the Neg that gives D" in found.statement


@pytest.mark.parametrize("name, value, by", [("race_int64_mul", "pf", "g3"), ("race_topk", "tv", "g2")])
def test_other_sightings(oracle: BuiltOracle, tools: Tools, name: str, value: str, by: str) -> None:
    if not WEB.exists():
        pytest.skip(f"no models in {WEB}")
    with np.load(WEB / f"{name}.npz") as feeds:
        candidate = candidate_of(onnx.load(WEB / f"{name}.onnx"), dict(feeds))
    (found,) = said(candidate, oracle, tools)
    assert (found.kind, found.confidence) == (DiagnosisKind.OVERWRITTEN_INPUT, "certain")
    assert f"{value} was overwritten by {by} before" in found.statement
