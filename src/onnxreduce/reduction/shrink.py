"""Shrinking what node deletion has left: the problem that passes work on, and the loop over their table.

A pass edits a draft of the best so far and offers it. What is accepted is valid, strictly smaller in the one order of
`graph.order`, right and well-conditioned under the reference, and fails with the signature of the original, in a warm
runtime and again in a fresh one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.order import Size, size
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance, compare
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Oracle, Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import Budget, StoppedError
from onnxreduce.runtimes.base import Status, request
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER
from onnxreduce.runtimes.target import Target

SECOND_WAY = Target("ort", provider="cpu", options={"level": "all"})
CONDITION_MARGIN = 10.0
"""Two ways to run the reference must agree this many times better than the tolerance."""
RECORD_SECONDS = 60.0
ROUNDS = 20
"""More rounds than any model has needed; a bound all the same."""
KINDS_KEPT = ("dtype", "opset", "operators", "shape", "values", "order")


@dataclass
class PassCount:
    """What one pass cost and gave. `before` and `after`: nodes, ends and elements around its first and last success."""

    name: str
    offered: int = 0
    calls: int = 0
    accepted: int = 0


@dataclass
class Shrinking:
    """The problem of shrinking: the only door to the oracle for passes.

    `keep` names kinds of change that are forbidden. `repeats`: runs that a verdict takes, as learnt before. `values`:
    every value of the best so far under the reference.
    """

    best: Candidate
    oracle: Oracle
    signature: Signature
    journal: Journal
    budget: Budget = field(default_factory=Budget)
    keep: Collection[str] = ()
    repeats: int = 1
    tolerance: Tolerance = field(default_factory=Tolerance)
    progress: Callable[[Shrinking], None] = lambda problem: None

    def __post_init__(self) -> None:
        self._recorder = PythonOrt(RECORDER)
        self._second = PythonOrt(SECOND_WAY)
        self._answers: dict[str, bool] = {}
        self.counts: dict[str, PassCount] = {}
        self.also_found: dict[str, tuple[Candidate, Verdict]] = {}
        self.current = PassCount("start")
        self.seconds_recording = 0.0
        self.values: Mapping[str, StoredTensor] = {}
        self.best_size: Size = size(self.best)

    def start(self) -> bool:
        """Record the values of the first best; False when the reference cannot run it alone."""
        values = self._record(Draft(self.best).candidate())
        self.values = values or {}
        return values is not None

    def draft(self) -> Draft:
        """The best so far, to be edited."""
        return Draft(self.best)

    def attempt(self, draft: Draft) -> bool:
        """Offer an edited draft; True when it was accepted as the new best. Raises StoppedError past the budget."""
        found = self._judged(draft, smaller=True)
        if found is None:
            return False
        self.best, self.values = found
        self.best_size = size(self.best)
        self.current.accepted += 1
        self.progress(self)
        return True

    def still_fails(self, draft: Draft) -> Draft | None:
        """The draft, made valid, when it fails as the original does, whatever its size; the best stays as it is."""
        found = self._judged(draft, smaller=False)
        return Draft(found[0]) if found else None

    def close(self) -> None:
        """End the reference's processes."""
        self._recorder.close()
        self._second.close()

    def _judged(self, draft: Draft, *, smaller: bool) -> tuple[Candidate, Mapping[str, StoredTensor]] | None:
        self.current.offered += 1
        draft.tidy()
        if not draft.proto.graph.node or not draft.proto.graph.output:
            return None
        bare = draft.candidate()
        if smaller and not size(bare) < self.best_size:
            return None
        key = _digest(bare)
        if self._answers.get(key) is False:
            return None
        values = self._record(bare)
        found = values and self._sound(draft, bare, values)
        if not found or not self._shows(found):
            self._answers[key] = False
            return None
        self._answers[key] = True
        assert values is not None
        return found, values

    def _record(self, bare: Candidate) -> dict[str, StoredTensor] | None:
        """Every tensor of a candidate under the reference, or None when it cannot run."""
        exposed = onnx.ModelProto()
        exposed.CopyFrom(bare.model.proto)
        names = [name for node in exposed.graph.node for name in node.output if name]
        del exposed.graph.output[:]
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        asked = replace(bare, model=replace(bare.model, proto=exposed), outputs=names)
        result = self._recorder.run(request(asked), timeout=RECORD_SECONDS)
        self.seconds_recording += result.seconds
        if result.status is not Status.OK:
            return None
        values = {name: StoredTensor.from_array(array) for name, array in result.outputs.items()}
        return {**bare.feeds, **values}

    def _sound(self, draft: Draft, bare: Candidate, values: Mapping[str, StoredTensor]) -> Candidate | None:
        """The candidate with its types, when the checker takes it and the reference is finite and well-conditioned."""
        if any(name not in values for name in bare.outputs):
            return None
        candidate = draft.candidate(values)
        try:
            onnx.checker.check_model(candidate.model.with_weights_inside())
        except (onnx.checker.ValidationError, ValueError):
            return None
        second = self._second.run(request(candidate), timeout=RECORD_SECONDS)
        self.seconds_recording += second.seconds
        if second.status is not Status.OK:
            return None
        strict = Tolerance(
            {name: self.tolerance.for_dtype(np.dtype(name)) / CONDITION_MARGIN for name in ("float32", "float64")},
            self.tolerance.absolute,
        )
        for name in candidate.outputs:
            array = values[name].array
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                return None
            if compare(name, array, second.outputs.get(name), strict).kind is not None:
                return None
        return replace(candidate, expected={name: values[name] for name in candidate.outputs})

    def _shows(self, candidate: Candidate) -> bool:
        for _ in range(self.repeats):
            if self._fails(candidate, self._judge(candidate, alone=True)):
                return self._fails(candidate, self._judge(candidate, fresh=True))
        return False

    def _fails(self, candidate: Candidate, verdict: Verdict) -> bool:
        if verdict.outcome is not Outcome.FAILS or verdict.signature is None:
            return False
        if self.signature.matches(verdict.signature):
            return True
        kept = self.also_found.get(str(verdict.signature))
        if kept is None or size(candidate) < size(kept[0]):
            self.also_found[str(verdict.signature)] = (candidate, verdict)
        return False

    def _judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        if self.journal.calls >= self.budget.calls or self.journal.elapsed > self.budget.seconds:
            raise StoppedError
        verdict = self.oracle.judge(candidate, fresh=fresh, alone=alone)
        self.current.calls += 1
        what = "confirm" if fresh else "candidate"
        self.journal.add(what, candidate.nodes, verdict, fresh=fresh, by=self.current.name, size=list(size(candidate)))
        return verdict


@dataclass(frozen=True)
class Pass:
    """A row of the table. `changes`: the kind that `--keep` forbids, if any."""

    name: str
    run: Callable[[Shrinking], None]
    help: str
    changes: str = ""


def shrink(problem: Shrinking, passes: Sequence[Pass]) -> None:
    """Run the passes over and over, from cheap to dear, until a whole round accepts nothing."""
    for _ in range(ROUNDS):
        before = problem.best_size
        for one in passes:
            if one.changes in problem.keep:
                continue
            problem.current = problem.counts.setdefault(one.name, PassCount(one.name))
            one.run(problem)
        if problem.best_size == before:
            return


def _digest(candidate: Candidate) -> str:
    hasher = hashlib.blake2b(candidate.model.proto.SerializeToString(deterministic=True), digest_size=16)
    for name, tensor in candidate.feeds.items():
        hasher.update(f"{name} {tensor.elem_type} {tensor.shape} {tensor.blob.digest}\n".encode())
    return hasher.hexdigest()
