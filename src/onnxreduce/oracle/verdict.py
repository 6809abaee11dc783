"""What an oracle answers."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Signature


class Outcome(enum.Enum):
    """Fails: the fault shows. Passes: the targets agree. Unresolved: nothing can be said."""

    FAILS = "fails"
    PASSES = "passes"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class Verdict:
    """An oracle's answer on one candidate.

    `seconds`: time spent in runtimes. `message`: the whole text behind an error or an unresolved outcome.
    """

    outcome: Outcome
    signature: Signature | None = None
    differences: Sequence[Difference] = ()
    message: str = ""
    seconds: float = 0.0

    @property
    def wrong_outputs(self) -> list[str]:
        """Names of the outputs that differ."""
        return [difference.output for difference in self.differences if difference.kind is not None]

    def shows(self, signature: Signature) -> bool:
        """Whether it fails with this signature."""
        return self.outcome is Outcome.FAILS and self.signature is not None and signature.matches(self.signature)

    def summary(self) -> dict[str, Any]:
        """For journal and record: JSON types only."""
        found: dict[str, Any] = {"outcome": self.outcome.value, "seconds": round(self.seconds, 4)}
        if self.signature:
            found["signature"] = str(self.signature)
        if self.message:
            found["message"] = self.message[:1000]
        worst = max((d for d in self.differences if d.kind), key=lambda d: d.relative, default=None)
        if worst:
            keys = ("output", "relative", "wrong", "cosine", "ulp", "nan")
            found["worst"] = {key: value for key, value in worst.to_json().items() if key in keys}
        return found


@dataclass(frozen=True)
class Golden:
    """What the original gave: the verdict, and what was learnt for judging candidates.

    `noise`: relative difference of the reference to a second way to run it. `timeout`: seconds for a candidate.
    """

    verdict: Verdict
    noise: float = 0.0
    timeout: float = 60.0


class Oracle(Protocol):
    """Judges candidates. Not thread-safe."""

    name: str

    def golden(self, candidate: Candidate, recorded: Callable[[], Mapping[str, StoredTensor]] | None = None) -> Golden:
        """Judge the original and learn from it; `recorded` gives every value by a second way to run the reference."""

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        """Judge a candidate. `fresh`: in an instance of the runtime that has run nothing before.

        `alone`: the candidate's recorded outputs, where it has them, stand for the reference.
        """

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """Facts on each side, for the record: `reference` and `suspect`."""

    def close(self) -> None:
        """Release the runtimes."""
