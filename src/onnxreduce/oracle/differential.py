"""Two ways to run one model: the suspect fails where it differs from the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from onnxreduce.errors import BadInputError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import UNSTABLE, Difference, Tolerance, compare
from onnxreduce.oracle.signature import WRONG_VALUES, Expectation, Kind, Signature, normalised
from onnxreduce.oracle.speed import REPEATS, slowness
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict
from onnxreduce.runtimes.base import RunRequest, RunResult, Runtime, Status, request

FIRST_TIMEOUT = 900.0
"""Seconds for the original model, before anything is known."""
TIMEOUT_FACTOR = 5.0
SHORTEST_TIMEOUT = 20.0
"""A candidate is given five times what the original took, and never less than this many seconds."""

MORE_ENDS = 2
"""How often an original is run again whose runtime ended under it: did the model do it, or something else?"""

_KINDS = {
    Status.CREATE_ERROR: Kind.CREATE_ERROR,
    Status.RUN_ERROR: Kind.RUN_ERROR,
    Status.SHADER_ERROR: Kind.SHADER_ERROR,
    Status.HANG: Kind.HANG,
    Status.LOST_DEVICE: Kind.LOST_DEVICE,
    Status.OUT_OF_MEMORY: Kind.OUT_OF_MEMORY,
    Status.DEAD: Kind.DEAD,
}
_ENDED = (Status.DEAD, Status.LOST_DEVICE)
_TOO_OLD = (
    "unsupported model ir version",
    "unsupported model ir_version",
    "is under development and support for this",
    "no op registered for",
    "is not a registered function/op",
    "is too old to take tensors",
)


class DifferentialOracle:
    """An oracle of two targets. `followed`: the class of the original's failure, once it is known.

    A runtime that ends under a model may have been ended by something else on the machine, want of memory or a person.
    Unless that is the fault that is followed, such a run is made once more, and the second answer counts.

    With `slower` it is also a failure when right outputs take more than so many times the reference's time (see
    `speed`); where slowness is the expected class, whatever the outputs are.
    """

    def __init__(
        self,
        name: str,
        reference: Runtime,
        suspect: Runtime,
        tolerance: Tolerance | None = None,
        timeout: float | None = None,
        expectation: Expectation | None = None,
        slower: float | None = None,
    ) -> None:
        self.name = name
        self.reference = reference
        self.suspect = suspect
        self.tolerance = tolerance or Tolerance()
        self.timeout = timeout or FIRST_TIMEOUT
        self.expectation = expectation or Expectation()
        self.slower = slower
        self._given_timeout = timeout
        self.followed = self.expectation.kind
        self._torn = False

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        """See `Oracle.judge`. A reference that cannot run the candidate makes it unresolved."""
        torn, self._torn = self._torn, True
        verdict = self._judge(candidate, fresh=fresh or torn, alone=alone, torn=torn)
        self._torn = False
        return verdict

    def _judge(self, candidate: Candidate, *, fresh: bool, alone: bool, torn: bool) -> Verdict:
        """`torn`: an interrupt came while a target ran, so that an answer to another question may be on its way."""
        asked = self._request(candidate)
        right = None
        if alone and candidate.expected is not None and self.slower is None:
            expected = {name: candidate.expected[name].array for name in candidate.outputs}
        else:
            right = self._run(self.reference, asked, fresh=torn)
            if right.status is not Status.OK:
                text = f"the reference fails: {right.status.value}: {right.message}"
                return Verdict(Outcome.UNRESOLVED, message=text, seconds=right.seconds)
            expected = dict(right.outputs)
        result = self._run(self.suspect, asked, fresh=fresh, followed=self.followed)
        return self._verdict(candidate, expected, result, right, first_look=alone)

    def _run(self, runtime: Runtime, asked: RunRequest, *, fresh: bool, followed: Kind | None = None) -> RunResult:
        """A run; another one in its place where the runtime ended under it."""
        result = runtime.run(asked, timeout=self.timeout, fresh=fresh)
        if result.status in _ENDED and _KINDS[result.status] is not followed:
            result = runtime.run(asked, timeout=self.timeout, fresh=True)
        return result

    def _run_original(self, asked: RunRequest) -> RunResult:
        """A run of the suspect. Its end under the model counts as the model's doing where it is seen twice."""
        result = first = self.suspect.run(asked, timeout=self.timeout, fresh=True)
        if first.status in _ENDED and _KINDS[first.status] is not self.followed:
            for _ in range(MORE_ENDS):
                result = self.suspect.run(asked, timeout=self.timeout, fresh=True)
                if result.status in _ENDED:
                    return result
        return result

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        """Judge the original and learn timeout and noise floor from it.

        `recorded` gives values by a second, independent way to run the reference; it is called once the targets have
        run, so that both can go on at the same time. Raises BadInputError when the reference cannot run the model,
        holds NaN, or is unstable.
        """
        asked = self._request(candidate)
        right = self._run(self.reference, asked, fresh=False)
        if right.status is not Status.OK:
            if recorded is not None:
                recorded()  # names the operator where it fails too
            reason = " ".join(right.message.split())[:400]
            raise BadInputError(f"the reference cannot run the model: {right.status.value}: {reason}")
        _refuse_nan(right)
        result = self._run_original(asked)
        noise = 0.0
        if recorded is not None:
            noise = self._noise(right, recorded())
            self.tolerance = self.tolerance.with_noise(noise)
        verdict = self._verdict(candidate, right.outputs, result, right)
        self.followed = verdict.signature.kind if verdict.signature else self.expectation.kind
        if recorded is None and verdict.signature is not None and verdict.signature.kind in WRONG_VALUES:
            self._refuse_unstable(right, self.reference.run(asked, timeout=self.timeout, fresh=True))
        if self._given_timeout is None and result.status is not Status.HANG:
            self.timeout = max(SHORTEST_TIMEOUT, TIMEOUT_FACTOR * max(right.seconds, result.seconds))
        return Golden(verdict, noise, self.timeout)

    def learn(self, golden: Golden) -> None:
        """Take over noise floor and time limit from a golden run that another oracle of the same targets made."""
        self.tolerance = self.tolerance.with_noise(golden.noise)
        self.timeout = golden.timeout
        self.followed = golden.verdict.signature.kind if golden.verdict.signature else self.expectation.kind

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """Facts on each side."""
        return {"reference": dict(self.reference.describe()), "suspect": dict(self.suspect.describe())}

    def close(self) -> None:
        """Release both runtimes."""
        self.suspect.close()
        self.reference.close()

    def expected(self, candidate: Candidate) -> dict[str, StoredTensor] | None:
        """What the reference gives for a candidate; None where it fails."""
        right = self.reference.run(self._request(candidate), timeout=self.timeout)
        if right.status is not Status.OK:
            return None
        return {name: StoredTensor.from_array(array) for name, array in right.outputs.items()}

    def _request(self, candidate: Candidate) -> RunRequest:
        return request(candidate, 0 if self.slower is None else REPEATS)

    def _verdict(
        self,
        candidate: Candidate,
        expected: Mapping[str, np.ndarray],
        result: RunResult,
        right: RunResult | None,
        *,
        first_look: bool = False,
    ) -> Verdict:
        seconds = result.seconds + (right.seconds if right else 0.0)
        verdict = self._any_verdict(candidate, expected, result, seconds)
        if right is not None and self.slower is not None and result.status is Status.OK:
            slow = slowness(self.slower, right, result, first_look=first_look)
            if slow and (verdict.signature is None or self.expectation.kind is Kind.SLOW):
                signature = Signature(Kind.SLOW, f"{self.slower:g} times the reference")
                verdict = replace(verdict, outcome=Outcome.FAILS, signature=signature, message=slow)
        if verdict.signature is None or self.expectation.met_by(verdict.signature, verdict.message):
            return verdict
        text = f"it fails, but not as expected: {verdict.signature}"
        return replace(verdict, outcome=Outcome.UNRESOLVED, signature=None, message=text)

    def _any_verdict(
        self, candidate: Candidate, expected: Mapping[str, np.ndarray], result: RunResult, seconds: float
    ) -> Verdict:
        differences: list[Difference] = []
        if result.status in (Status.OK, Status.SHADER_ERROR):
            differences = [
                compare(name, expected[name], result.outputs.get(name), self.tolerance)
                for name in candidate.outputs
                if name in expected
            ]
        if result.status is not Status.OK:
            if any(text in result.message.lower() for text in _TOO_OLD):
                return Verdict(Outcome.UNRESOLVED, message=result.message, seconds=seconds)
            kind = _KINDS[result.status]
            # which allocation fails, and who notices, hangs on what else is alive
            signature = Signature(kind, "" if kind is Kind.OUT_OF_MEMORY else normalised(result.message))
            return Verdict(Outcome.FAILS, signature, differences, result.message, seconds)
        kinds = {difference.kind for difference in differences if difference.kind is not None}
        if not kinds:
            return Verdict(Outcome.PASSES, None, differences, "", seconds)
        order = (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.NAN, Kind.NUMERIC, Kind.ZEROS)
        return Verdict(
            Outcome.FAILS, Signature(next(kind for kind in order if kind in kinds)), differences, "", seconds
        )

    def _refuse_unstable(self, right: RunResult, again: RunResult) -> None:
        """Where there is no second way to run the reference, it should at least agree with itself."""
        for name, array in right.outputs.items():
            difference = compare(name, array, again.outputs.get(name), self.tolerance)
            if again.status is not Status.OK or difference.kind is not None:
                raise BadInputError(
                    f"the reference is unstable: output {name!r} under {right_name(self.reference)} differs from one "
                    "run to the next; choose other inputs or another reference"
                )

    def _noise(self, right: RunResult, recorded: Mapping[str, StoredTensor]) -> float:
        noise = 0.0
        for name, array in right.outputs.items():
            if name not in recorded:
                continue
            difference = compare(name, recorded[name].array, array, self.tolerance)
            if difference.kind is None:
                noise = max(noise, difference.relative)
            elif difference.kind is not Kind.NUMERIC or difference.relative > UNSTABLE or difference.relative == 0:
                raise BadInputError(
                    f"the reference is unstable: output {name!r} under {right_name(self.reference)} and under Python "
                    f"onnxruntime differs ({difference.kind.value}, {difference.relative:.2g} of its scale); "
                    "choose other inputs or another reference"
                )
            else:
                noise = max(noise, difference.relative)
        return noise


def right_name(runtime: Runtime) -> str:
    """The reference's target, for messages."""
    return str(getattr(runtime, "target", "the reference"))


def _refuse_nan(right: RunResult) -> None:
    for name, array in right.outputs.items():
        if array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float")):
            bad = int(np.isnan(np.asarray(array, dtype=np.float64)).sum())
            if bad:
                raise BadInputError(
                    f"the reference itself gives NaN in {bad} of {array.size} elements of output {name!r}: "
                    "nothing can be compared with it; check the inputs"
                )
