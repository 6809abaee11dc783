"""1,000 random candidates under suspects that crash, hang, eat memory and lie now and then, each a real child process.

What the right verdict is, is known: a suspect misbehaves on each candidate that holds the planted node, on no other.
"""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
import subsets

from onnxreduce.errors import SetupError
from onnxreduce.graph.candidate import Candidate, cut
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import load, normalise
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.build import BuiltOracle, Setup
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import CHECK_EVERY, Problem
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import Recording, record
from onnxreduce.runtimes.target import Target

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="signals")]

EACH = 200
"""Candidates under each suspect."""
PATIENCE = 2.5
"""Seconds for the suspect that hangs: a hundred times what a candidate takes, for the machine may have other work."""
LONG = 60.0
MEMORY = 512
PLANTED = "planted-here"
MARK = "ONNXREDUCE_TEST_MARK"
TARGET = Target("ort", provider="cpu", options={"level": "disabled", "threads": "1"})
WORKER = Path(__file__).with_name("misbehaving_worker.py")
REAL = ("silero_vad_openvino_16k", "silero_vad_16k_sequence", "slovorez", "rawi_int8")


class Suspect(PythonOrt):
    """Python ONNX Runtime with another worker, marked so that all it starts can be found."""

    def __init__(self, kind: str) -> None:
        super().__init__(TARGET, memory=MEMORY if kind == "memory" else None)
        self.kind = kind
        self.mark = uuid.uuid4().hex

    def _command(self) -> list[str]:
        python, *rest = super()._command()
        return [python, str(WORKER), self.kind, PLANTED, *rest]

    def _environment(self) -> Mapping[str, str]:
        return {MARK: self.mark}

    def left_behind(self) -> list[str]:
        """What still runs of all that its workers have started."""
        return _left_behind(self.mark)


def _left_behind(mark: str) -> list[str]:
    """What still runs of all that carries a mark, once those that were killed have had time to die."""
    end = time.monotonic() + 5
    while (found := _marked(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return [process.name() for process in found]


def _marked(mark: str) -> list[psutil.Process]:
    """Processes with a mark in their environment, and their children, which may have written over theirs."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.pid != os.getpid():
                found |= {each.pid: each for each in (process, *process.children(recursive=True))}
        except (psutil.Error, OSError):
            continue
    return [each for each in found.values() if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


@dataclass
class Source:
    """A model with its recording, and the node that is planted in it."""

    name: str
    index: GraphIndex
    recorded: Recording
    planted: int

    def draw(self, rng: random.Random, count: int, share: float) -> Iterator[tuple[Candidate, bool]]:
        """Random candidates, most of them small, a share of them around the planted node; and whether they hold it."""
        every = range(len(self.index))
        for at in range(count):
            start = self.planted if rng.random() < share else rng.choice(every)
            if at % 3 == 0:
                nodes = {start}
            elif at % 3 == 1:
                first = max(0, start - rng.randrange(16))
                nodes = {*range(first, min(len(every), start + 1 + rng.randrange(16)))}
            else:
                nodes = {start, *rng.sample(every, min(len(every), rng.choice((4, 16, 64))))}
            if start != self.planted and rng.random() > share:
                nodes.discard(self.planted)
            key = self.index.closed(nodes)
            if key:
                yield cut(self.index, key, self.recorded), self.planted in key


@dataclass
class Tally:
    """What came of the candidates."""

    candidates: int = 0
    planted: int = 0
    wrong: list[str] = field(default_factory=list)


def _source(name: str, proto: onnx.ModelProto, feeds: Mapping[str, StoredTensor]) -> Source:
    """Plant the name in the middle of a model, at a node whose outputs are tensors."""
    index = GraphIndex(normalise(load(proto)), feeds)
    middle = sorted(index.every_node, key=lambda at: abs(at - len(index) / 2))
    planted = next(at for at in middle if all(index.promotable(value) for value in index.writes[at]))
    index.nodes[planted].name = PLANTED
    return Source(name, index, record(index, feeds, timeout=120), planted)


@pytest.fixture(scope="module")
def sources() -> Iterator[list[Source]]:
    """The demo model, and the real models where they are there."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import smolvla_model

    proto, arrays = smolvla_model.build()
    found = [_source("smolvla", proto, {name: StoredTensor.from_array(array) for name, array in arrays.items()})]
    for name in REAL:
        path = subsets.CASES / "real" / f"{name}.onnx"
        if path.exists():
            found.append(_source(name, onnx.load(path), subsets.feeds_of(path)))
    yield found
    for source in found:
        source.recorded.close()


def _drawn(sources: Sequence[Source], rng: random.Random, share: float) -> Iterator[tuple[Source, Candidate, bool]]:
    """Half of the candidates are the demo's, where there are real models too."""
    counts = [EACH] if len(sources) == 1 else [EACH // 2, *[EACH // 2 // (len(sources) - 1)] * (len(sources) - 1)]
    for source, count in zip(sources, counts, strict=True):
        for candidate, planted in source.draw(rng, count, share):
            yield source, candidate, planted


def _expected(kind: str, verdict: Verdict) -> bool:
    signature = verdict.signature
    if verdict.outcome is not Outcome.FAILS or signature is None:
        return False
    if kind == "hang":
        return signature.kind is Kind.HANG
    expected, words = {
        "segfault": (Kind.DEAD, "SIGSEGV"),
        "memory": (Kind.OUT_OF_MEMORY, "out of memory (limit"),
    }[kind]
    return signature.kind is expected and words in verdict.message


@pytest.mark.parametrize(
    ("kind", "share"),
    [("healthy", 0.2), ("segfault", 0.1), ("memory", 0.06), ("hang", 0.03)],
    ids=str,
)
def test_every_verdict_is_right_and_nothing_is_left_behind(kind: str, share: float, sources: list[Source]) -> None:
    suspect, reference = Suspect(kind), PythonOrt(TARGET)
    oracle = DifferentialOracle(kind, reference, suspect, timeout=PATIENCE if kind == "hang" else LONG)
    rng = random.Random(kind)
    tally = Tally()
    try:
        for source, candidate, planted in _drawn(sources, rng, share):
            verdict = oracle.judge(candidate, alone=rng.random() < 0.5, fresh=rng.random() < 0.03)
            tally.candidates += 1
            tally.planted += planted
            fails = planted and kind != "healthy"
            if not (_expected(kind, verdict) if fails else verdict.outcome is Outcome.PASSES):
                tally.wrong.append(f"{source.name} {candidate.nodes} {planted=}: {verdict.summary()}")
            if fails:
                assert suspect.left_behind() == []
    finally:
        oracle.close()
    assert tally.wrong == []
    assert tally.candidates == EACH
    assert tally.planted >= 0.03 * EACH
    assert suspect.left_behind() == []


def test_a_suspect_that_lies_every_other_time(sources: list[Source]) -> None:
    """Through the problem, which repeats: never a false alarm, and few are overlooked (of pairs of runs, 3 in 4)."""
    suspect, reference, source = Suspect("flaky"), PythonOrt(TARGET), sources[0]
    oracle = DifferentialOracle("flaky", reference, suspect, timeout=LONG)
    golden = Golden(Verdict(Outcome.FAILS, Signature(Kind.NUMERIC), [Difference("x", Kind.NUMERIC)]))
    one = Problem(source.index, source.recorded, oracle, golden, Journal())
    tally, missed = Tally(), 0
    try:
        for before in range(64):  # windows around the planted node, until it is known how often it shows
            if one.trials.runs < 30:
                one.interesting(range(source.planted - before, source.planted + 1))
        for candidate, planted in source.draw(random.Random(5), EACH, 0.06):
            found = one.interesting(candidate.nodes)
            tally.candidates += 1
            tally.planted += planted
            missed += planted and not found
            if found and not planted:
                tally.wrong.append(f"{source.name} {candidate.nodes}")
    finally:
        oracle.close()
    assert tally.wrong == []
    assert tally.candidates == EACH
    assert tally.planted >= 0.03 * EACH
    assert missed <= max(4, tally.planted // 2), f"{missed} of {tally.planted} overlooked"
    assert one.trials.p is not None
    assert 0.2 < one.trials.p < 0.85
    assert one.repeats > 1
    assert 0 < one.contamination_checks <= one.journal.calls / CHECK_EVERY
    assert one.contaminated <= 2
    assert suspect.left_behind() == []


@pytest.mark.browser
@pytest.mark.parametrize("seed", [7, 10])
def test_browsers_that_are_killed_between_candidates(
    seed: int, sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the browser dies now and then; the next candidate is judged all the same, and no browser is left."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    oracle = BuiltOracle(OracleSpec("web", TARGET, Target.parse("ort-web@1.27.0/wasm")), Setup())
    rng = random.Random(seed)
    wrong, killed = [], 0
    try:
        for at, (candidate, _) in enumerate(sources[0].draw(rng, 32, 0.1)):
            try:
                verdict = oracle.judge(candidate)
            except SetupError as error:
                if at == 0:
                    pytest.skip(f"no browser to drive: {error}")
                raise
            if verdict.outcome is not Outcome.PASSES:
                wrong.append(f"{candidate.nodes}: {verdict.summary()}")
            if at % 4 == 3:
                browser = [process for process in _marked(mark) if "chrom" in process.name()]
                rng.choice(sorted(browser, key=lambda process: process.pid)).kill()
                killed += 1
    finally:
        oracle.close()
    assert wrong == []
    assert killed == 8
    assert _left_behind(mark) == []


def test_the_misbehaviour_is_what_it_says(sources: list[Source]) -> None:
    """The flaky suspect lies every other time, on every output."""
    suspect = Suspect("flaky")
    source = sources[0]
    candidate = cut(source.index, source.index.closed([source.planted]), source.recorded)
    oracle = DifferentialOracle("flaky", PythonOrt(TARGET), suspect, timeout=LONG)
    try:
        verdicts = [oracle.judge(candidate, alone=True) for _ in range(60)]
    finally:
        oracle.close()
    failed = [verdict for verdict in verdicts if verdict.outcome is Outcome.FAILS]
    assert 15 <= len(failed) <= 45
    assert all(len(verdict.wrong_outputs) == len(candidate.outputs) for verdict in failed)
    assert np.isfinite([verdict.seconds for verdict in verdicts]).all()
