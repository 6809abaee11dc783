"""Shrinking what node deletion has left: the problem that passes work on.

A pass edits a draft of the best so far and offers it. What is accepted is valid, strictly smaller in the one order of
`graph.order`, right and well-conditioned under the reference, and fails with the signature of the original, in a warm
runtime and again in a fresh one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.draft import Draft
from onnxreduce.graph.order import Size, size
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Oracle, Outcome, Verdict
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.problem import CHECK_EVERY, Budget, StoppedError
from onnxreduce.reduction.reference import Reference

KINDS_KEPT = ("dtype", "opset", "operators", "shape", "values", "order")


Edit = Callable[[Draft], None]


@dataclass
class PassCount:
    """What one pass cost and gave. `before` and `after`: nodes, ends and elements around all that it accepted."""

    name: str
    offered: int = 0
    calls: int = 0
    accepted: int = 0
    before: Size = ()
    after: Size = ()


@dataclass(frozen=True)
class _Failing:
    """A candidate that fails as the original does: in a warm runtime, and in a fresh one once it is `confirmed`."""

    candidate: Candidate
    values: Mapping[str, StoredTensor]
    message: str
    confirmed: bool = False


@dataclass
class Shrinking:
    """The problem of shrinking: the only door to the oracle for passes.

    `keep` names kinds of change that are forbidden. `repeats`: runs that a verdict takes, as learnt before. `values`:
    every value of the best so far under the reference. `reference`: one that is ready, to be closed by the caller.
    `contamination_checks` and `contaminated`: see `Problem`.
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
    reference: Reference | None = None

    def __post_init__(self) -> None:
        self._reference = self.reference or Reference()
        self._answers: dict[str, _Failing | None] = {}
        self._message: str | None = None
        self._double = self._stable = self._full_check = True
        self._checked_at = self.journal.calls
        self._unchecked: list[str] = []
        self.contamination_checks = self.contaminated = 0
        self.counts: dict[str, PassCount] = {}
        self.also_found: dict[str, tuple[Candidate, Verdict]] = {}
        self.current = PassCount("start")
        self.values: Mapping[str, StoredTensor] = {}
        self.best_size: Size = size(self.best)

    @property
    def seconds_in_reference(self) -> float:
        """Time spent in the runtimes of the shrinking's own reference, which no verdict counts."""
        return self._reference.seconds

    def start(self) -> bool:
        """Record the values of the first best; False when the reference cannot run it alone.

        What does not hold for it is not asked of others: that onnx infers its shapes without complaint, that double
        precision bears it out, and that optimization changes nothing, as it does where the fault is in an optimizer.
        """
        bare = Draft(self.best).candidate()
        values = self._reference.record(bare)
        if values is None or any(name not in values for name in bare.outputs):
            return False
        self.values = values
        self._full_check = _is_valid(Draft(self.best).candidate(values), full_check=True)
        self._double = self._reference.precise(bare, values, self.tolerance)
        self._stable = self._reference.stable(bare, values, self.tolerance)
        return True

    def draft(self) -> Draft:
        """The best so far, to be edited."""
        return Draft(self.best)

    def attempt(self, draft: Draft) -> bool:
        """Offer an edited draft; True when it was accepted as the new best. Raises StoppedError past the budget."""
        key, found = self._examined(draft, smaller=True)
        if found is None:
            return False
        if not found.confirmed:
            verdict = self._first_failure(found.candidate, fresh=True)
            if verdict is None:
                self._refuse(key)
                return False
            self._answers[key] = found = replace(found, message=verdict.message, confirmed=True)
        count = self.current
        count.before = count.before or self.best_size[:3]
        self.best, self.values, self._message = found.candidate, found.values, found.message
        self.best_size = size(self.best)
        count.after = self.best_size[:3]
        count.accepted += 1
        self.journal.step(count.name, self.best)
        self.progress(self)
        return True

    def together(self, edits: Sequence[Edit]) -> bool:
        """Offer all edits in one draft; where that is refused, each half of them, down to single ones.

        An acceptance costs two calls, however much it holds.
        """
        draft = self.draft()
        for edit in edits:
            edit(draft)
        if not edits or self.attempt(draft):
            return bool(edits)
        found = False
        for part in (edits[: len(edits) // 2], edits[len(edits) // 2 :]):
            if len(part) < len(edits):
                found |= self.together(part)
        return found

    def still_fails(self, draft: Draft) -> Draft | None:
        """The draft, made valid, when it fails as the original does, whatever its size; the best stays as it is."""
        _, found = self._examined(draft, smaller=False)
        return Draft(found.candidate) if found else None

    def runs(self, draft: Draft) -> bool:
        """Whether the reference runs a draft and is sure of it. Asks nothing of the oracle; the draft is left alone."""
        other = Draft(draft.candidate())
        other.tidy()
        return bool(other.nodes) and self.sound(other) is not None

    def recorded(self, draft: Draft) -> dict[str, StoredTensor] | None:
        """Every value of a draft under the reference, or None where it cannot run. The draft is left alone."""
        other = Draft(draft.candidate())
        other.tidy()
        return self._reference.record(other.candidate())

    def message(self) -> str:
        """What the failing runtime says of the best so far."""
        if self._message is None:
            self._message = self._judge(self.best, alone=True).message
        return self._message

    def spoilt(self) -> bool:
        """Whether the best so far no longer fails in the instance that has run so many others, but in a fresh one.

        What was refused since the last check is then forgotten. Costs nothing where nothing was refused.
        """
        self._checked_at = self.journal.calls
        if not self._unchecked:
            return False
        self.contamination_checks += 1
        if self._first_failure(self.best, alone=True, what="check") is not None:
            self._unchecked.clear()
            return False
        if self._first_failure(self.best, fresh=True, what="check") is None:
            return False  # by chance: the fault does not always show
        self.contaminated += 1
        self.journal.note("a used instance was spoilt: what it judged since the last check is asked again")
        for key in self._unchecked:
            self._answers.pop(key, None)
        self._unchecked.clear()
        return True

    def close(self) -> None:
        """End the reference's processes, unless they were given."""
        if self.reference is None:
            self._reference.close()

    def _examined(self, draft: Draft, *, smaller: bool) -> tuple[str, _Failing | None]:
        """Whether a draft is valid, believed and fails in a warm runtime; with the key of the answer."""
        self.current.offered += 1
        draft.tidy()
        if not draft.proto.graph.node or not draft.proto.graph.output:
            return "", None
        bare = draft.candidate()
        if smaller and not size(bare) < self.best_size:
            return "", None
        key = bare.digest()
        if key not in self._answers:
            sound = self.sound(draft)
            if self.journal.calls - self._checked_at >= CHECK_EVERY:
                self.spoilt()
            verdict = self._first_failure(sound[0], alone=True) if sound else None
            self._answers[key] = _Failing(*sound, verdict.message) if sound and verdict else None
            if sound and verdict is None:
                self._refuse(key)
        return key, self._answers[key]

    def _refuse(self, key: str) -> None:
        """Remember that a draft does not fail, as long as the instance that said so is to be trusted."""
        self._answers[key] = None
        self._unchecked.append(key)

    def sound(self, draft: Draft) -> tuple[Candidate, Mapping[str, StoredTensor]] | None:
        """The candidate with its types and values, where the checker takes it and the reference is sure of it.

        The draft is tidy.
        """
        bare = draft.candidate()
        values = self._reference.record(bare)
        if values is None or any(name not in values for name in bare.outputs):
            return None
        if any(values[name].size == 0 for name in bare.outputs) and not self._empty_before():
            return None  # an output without elements shows nothing to a reader
        candidate = draft.candidate(values)
        if not _is_valid(candidate, full_check=self._full_check):
            return None
        if not self._reference.finite(candidate, values):
            return None
        if self._stable and not self._reference.stable(candidate, values, self.tolerance):
            return None
        if self._double and not self._reference.precise(candidate, values, self.tolerance):
            return None
        return replace(candidate, expected={name: values[name] for name in candidate.outputs}), values

    def _empty_before(self) -> bool:
        """Whether the best so far has an output without elements."""
        return any(name in self.values and self.values[name].size == 0 for name in self.best.outputs)

    def _first_failure(
        self, candidate: Candidate, *, fresh: bool = False, alone: bool = False, what: str = ""
    ) -> Verdict | None:
        """The first verdict that is the original's, in as many runs as the fault's reliability asks for."""
        runs = (self._failure(candidate, fresh=fresh, alone=alone, what=what) for _ in range(self.repeats))
        return next((verdict for verdict in runs if verdict is not None), None)

    def _failure(self, candidate: Candidate, *, fresh: bool, alone: bool, what: str) -> Verdict | None:
        """The verdict of a candidate that fails as the original does. One that fails in another way is kept aside."""
        verdict = self._judge(candidate, fresh=fresh, alone=alone, what=what)
        if verdict.outcome is not Outcome.FAILS or verdict.signature is None:
            return None
        if self.signature.matches(verdict.signature):
            return verdict
        kept = self.also_found.get(str(verdict.signature))
        if kept is None or size(candidate) < size(kept[0]):
            self.also_found[str(verdict.signature)] = (candidate, verdict)
        return None

    def _judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False, what: str = "") -> Verdict:
        if self.journal.calls >= self.budget.calls or self.journal.elapsed > self.budget.seconds:
            raise StoppedError
        what = what or ("confirm" if fresh else "candidate")
        more = {"by": self.current.name, "size": list(size(candidate))}
        verdict = self.journal.ask(self.oracle, what, candidate, fresh=fresh, alone=alone, **more)
        self.current.calls += 1
        return verdict


def _is_valid(candidate: Candidate, *, full_check: bool) -> bool:
    """Whether onnx's checker takes a model; the full check infers shapes, and knows what each opset allows."""
    try:
        onnx.checker.check_model(candidate.model.with_weights_inside(), full_check=full_check)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError):
        return False
    return True
