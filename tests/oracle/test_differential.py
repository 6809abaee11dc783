"""Two real targets of Python onnxruntime: the fault of issue 30513 shows, and no false reference is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import faults
import numpy as np
import pytest
from onnx import TensorProto

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.differential import SHORTEST_TIMEOUT, DifferentialOracle
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.base import RunRequest, RunResult, Status
from onnxreduce.runtimes.recording import Recording, record


@pytest.fixture(scope="module")
def oracle() -> Iterator[BuiltOracle]:
    made = faults.levels()
    yield made
    made.close()


@pytest.fixture
def recorded() -> Iterator[Callable[[faults.Case], Callable[[], Mapping[str, StoredTensor]]]]:
    """Gives the second way to run a reference, as a reduction does."""
    made: list[Recording] = []

    def make(case: faults.Case) -> Callable[[], Mapping[str, StoredTensor]]:
        def run() -> Mapping[str, StoredTensor]:
            feeds = faults.candidate(case).feeds
            made.append(record(GraphIndex(normalise(load(case[0])), feeds), feeds, timeout=60))
            return made[-1]

        return run

    yield make
    for recording in made:
        recording.close()


class Scripted:
    """A runtime of the protocol that answers what it is told, for answers that no healthy machine gives."""

    def __init__(self, *results: RunResult) -> None:
        self.results = list(results)
        self.asked: list[tuple[float, bool]] = []

    def run(self, request: RunRequest, *, timeout: float, fresh: bool = False) -> RunResult:
        self.asked.append((timeout, fresh))
        return self.results.pop(0)

    def describe(self) -> Mapping[str, str]:
        return {"runtime": "scripted"}

    def close(self) -> None:
        pass


def test_the_fault_shows_between_levels(oracle: BuiltOracle) -> None:
    golden = oracle.golden(faults.candidate(faults.normalisation()))
    assert golden.verdict.outcome is Outcome.FAILS
    assert golden.verdict.signature == Signature(Kind.NUMERIC)
    assert golden.verdict.wrong_outputs == ["out"]
    assert golden.verdict.differences[0].relative > 0.1
    assert golden.verdict.seconds > 0


def test_levels_below_extended_are_right() -> None:
    right = faults.levels(suspect="ort/cpu?level=basic")
    wrong = faults.levels(suspect="ort/cpu?level=extended")
    try:
        assert right.golden(faults.candidate(faults.normalisation())).verdict.outcome is Outcome.PASSES
        assert wrong.golden(faults.candidate(faults.normalisation())).verdict.outcome is Outcome.FAILS
    finally:
        right.close()
        wrong.close()


def test_the_optimizer_at_fault_can_be_switched_off() -> None:
    healed = faults.levels(suspect="ort/cpu?disabled_optimizers=SimplifiedLayerNormFusion")
    try:
        assert healed.golden(faults.candidate(faults.normalisation())).verdict.outcome is Outcome.PASSES
    finally:
        healed.close()


def test_a_healthy_model_passes_every_time(oracle: BuiltOracle) -> None:
    candidate = faults.candidate(faults.healthy())
    for fresh in (False, True, False):
        verdict = oracle.judge(candidate, fresh=fresh)
        assert (verdict.outcome, verdict.signature, verdict.wrong_outputs) == (Outcome.PASSES, None, [])


def test_recorded_outputs_stand_for_the_reference(oracle: BuiltOracle) -> None:
    proto, arrays = faults.normalisation()
    feeds = {name: StoredTensor.from_array(array) for name, array in arrays.items()}
    index = GraphIndex(normalise(load(proto)), feeds)
    recording = record(index, feeds, timeout=60)
    try:
        whole = cut(index, index.every_node, recording)
        half = cut(index, index.every_node[:4], recording)
        assert oracle.judge(whole, alone=True).outcome is Outcome.FAILS
        assert oracle.judge(half, alone=True).outcome is Outcome.PASSES
    finally:
        recording.close()


def test_the_noise_floor_and_the_time_limit_are_learnt(oracle: BuiltOracle, recorded) -> None:
    case = faults.hosted(2, 2)
    golden = oracle.golden(faults.candidate(case), recorded(case))
    assert golden.noise < 1e-5
    assert golden.timeout >= SHORTEST_TIMEOUT
    assert oracle.tolerance.noise == golden.noise


def test_a_reference_of_nan_is_refused(oracle: BuiltOracle, recorded) -> None:
    case = faults.not_a_number()
    with pytest.raises(BadInputError, match="NaN in 2 of 3 elements of output 'y'"):
        oracle.golden(faults.candidate(case), recorded(case))


def test_an_unstable_reference_is_refused(oracle: BuiltOracle, recorded) -> None:
    case = faults.random()
    with pytest.raises(BadInputError, match="unstable: output 'y'"):
        oracle.golden(faults.candidate(case), recorded(case))


def test_an_unstable_reference_is_refused_without_a_recording_too(oracle: BuiltOracle) -> None:
    with pytest.raises(BadInputError, match="unstable: output 'y'"):
        oracle.golden(faults.candidate(faults.random()))


def test_a_reference_that_cannot_load_names_the_operator(oracle: BuiltOracle, recorded) -> None:
    case = faults.unknown_operator()
    for second in (None, recorded(case)):
        with pytest.raises(BadInputError, match="NoSuchOperator"):
            oracle.golden(faults.candidate(case), second)


def test_a_reference_that_cannot_run_names_the_operator(oracle: BuiltOracle, recorded) -> None:
    case = faults.cannot_run()
    for second in (None, recorded(case)):
        with pytest.raises(BadInputError, match="Reshape"):
            oracle.golden(faults.candidate(case), second)


def test_a_candidate_that_the_reference_cannot_run_is_unresolved(oracle: BuiltOracle) -> None:
    verdict = oracle.judge(faults.candidate(faults.cannot_run()))
    assert verdict.outcome is Outcome.UNRESOLVED
    assert "reference fails: run error" in verdict.message


def test_strings_and_sequences_of_dtypes_are_judged(oracle: BuiltOracle) -> None:
    nodes = [
        faults.node("Identity", ["s"], ["t"]),
        faults.node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        faults.node("Shape", ["x"], ["n"]),
        faults.node("Greater", ["x", "x"], ["b"]),
    ]
    outputs = [("t", TensorProto.STRING), ("h", TensorProto.FLOAT16), ("n", TensorProto.INT64), ("b", TensorProto.BOOL)]
    ends = [faults.floats("x", (2, 0))], [faults.tensor_info(name, kind, None) for name, kind in outputs]
    proto = faults.model(nodes, *ends, {"s": np.array(["a", "ß"], object)}, opset=16)
    case = proto, {"x": np.zeros((2, 0), np.float32)}
    verdict = oracle.golden(faults.candidate(case)).verdict
    assert verdict.outcome is Outcome.PASSES
    assert [difference.dtype for difference in verdict.differences] == ["object", "float16", "int64", "bool"]


STATUSES = [
    (Status.CREATE_ERROR, Kind.CREATE_ERROR),
    (Status.RUN_ERROR, Kind.RUN_ERROR),
    (Status.SHADER_ERROR, Kind.SHADER_ERROR),
    (Status.HANG, Kind.HANG),
    (Status.LOST_DEVICE, Kind.LOST_DEVICE),
    (Status.OUT_OF_MEMORY, Kind.OUT_OF_MEMORY),
    (Status.DEAD, Kind.DEAD),
]


@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_every_way_to_fail_is_a_class_of_its_own(status: Status, kind: Kind) -> None:
    candidate = faults.candidate(faults.healthy())
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    broken = RunResult(status, message="it broke")
    oracle = DifferentialOracle("scripted", Scripted(right), Scripted(broken, broken))
    verdict = oracle.golden(candidate).verdict
    assert verdict.outcome is Outcome.FAILS
    assert verdict.signature is not None
    assert verdict.signature.kind is kind


@pytest.mark.parametrize("status", [Status.DEAD, Status.LOST_DEVICE])
@pytest.mark.parametrize("ends", [0, 1, 2])
def test_an_end_that_the_model_does_not_bring_about_again_is_not_its_doing(status: Status, ends: int) -> None:
    """Of the original it takes two ends in three runs; of a candidate the second answer counts."""
    candidate = faults.candidate(faults.healthy())
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    ended = [RunResult(status)] * ends
    suspect = Scripted(*ended, right, right, *ended, right)
    oracle = DifferentialOracle("scripted", Scripted(*ended[:1], right, *ended[:1], right), suspect)
    golden = oracle.golden(candidate)
    assert golden.verdict.outcome is (Outcome.FAILS if ends == 2 else Outcome.PASSES)
    suspect.results = [*ended, right]
    verdict = oracle.judge(candidate)
    assert verdict.outcome is (Outcome.FAILS if ends == 2 else Outcome.PASSES)
    again = ends == 1
    assert len(suspect.results) == (0 if ends < 2 else 2), "where that is the fault that is followed, one run decides"
    assert suspect.asked[-1][1] is again, "the second run is a fresh one"


def test_where_memory_runs_out_is_no_part_of_the_failure() -> None:
    candidate = faults.candidate(faults.healthy())
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    found = []
    for message in ("std::bad_alloc", "Failed to allocate memory for requested buffer of size 9"):
        suspect = Scripted(RunResult(Status.OUT_OF_MEMORY, message=message))
        found.append(DifferentialOracle("scripted", Scripted(right), suspect).golden(candidate).verdict)
    assert found[0].signature == found[1].signature == Signature(Kind.OUT_OF_MEMORY)
    assert [verdict.message for verdict in found] == ["std::bad_alloc", message]


def test_a_model_that_is_too_new_for_the_suspect_is_unresolved() -> None:
    candidate = faults.candidate(faults.healthy())
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    message = "Unsupported model IR version: 99, max supported IR version: 10"
    oracle = DifferentialOracle("scripted", Scripted(right), Scripted(RunResult(Status.CREATE_ERROR, message=message)))
    assert oracle.golden(candidate).verdict.outcome is Outcome.UNRESOLVED


def test_the_time_limit_is_five_times_what_the_original_took() -> None:
    candidate = faults.candidate(faults.healthy())
    y = -candidate.feeds["x"].array
    slow = RunResult(Status.OK, {"y": y}, seconds_create=10, seconds_run=20)
    oracle = DifferentialOracle("scripted", Scripted(slow), Scripted(RunResult(Status.OK, {"y": y})))
    assert oracle.golden(candidate).timeout == 150
    given = DifferentialOracle("scripted", Scripted(slow), Scripted(RunResult(Status.OK, {"y": y})), timeout=7)
    assert given.golden(candidate).timeout == 7


def test_the_suspect_of_the_golden_run_is_fresh() -> None:
    candidate = faults.candidate(faults.healthy())
    suspect = Scripted(RunResult(Status.OK, {"y": -candidate.feeds["x"].array}))
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    DifferentialOracle("scripted", Scripted(right), suspect).golden(candidate)
    assert [fresh for _, fresh in suspect.asked] == [True]


def test_a_missing_output_fails() -> None:
    candidate = faults.candidate(faults.healthy())
    right = RunResult(Status.OK, {"y": -candidate.feeds["x"].array})
    verdict = DifferentialOracle("scripted", Scripted(right), Scripted(RunResult(Status.OK))).golden(candidate).verdict
    assert verdict.signature == Signature(Kind.WRONG_SHAPE)


def test_targets_are_described(oracle: BuiltOracle) -> None:
    sides = oracle.describe()
    assert set(sides) == {"reference", "suspect"}
    assert sides["suspect"]["runtime"] == "onnxruntime (Python)"
