"""What is known about a reduced model beyond that it fails. Plain data: made by this room, read by emission as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxreduce.oracle.verdict import Verdict


@dataclass(frozen=True)
class Measured:
    """What one run gave. `outcome`: fails, passes, unresolved, or `not run` with the reason in `message`.

    `signature`: class and message of a failure. `absolute` and `relative`: the largest difference over all outputs,
    and that over its tensor's scale; None where nothing was compared. `wrong_outputs`: names of outputs that differ.
    """

    outcome: str
    signature: str = ""
    message: str = ""
    absolute: float | None = None
    relative: float | None = None
    wrong_outputs: Sequence[str] = ()

    @classmethod
    def of(cls, verdict: Verdict) -> Measured:
        """From a verdict."""
        worst = max(verdict.differences, key=lambda each: (each.kind is not None, each.relative), default=None)
        return cls(
            verdict.outcome.value,
            str(verdict.signature or ""),
            verdict.message,
            worst.absolute if worst else None,
            worst.relative if worst else None,
            tuple(verdict.wrong_outputs),
        )

    @classmethod
    def not_run(cls, reason: str) -> Measured:
        """A run that could not be made."""
        return cls("not run", message=reason)


@dataclass(frozen=True)
class Neighbour:
    """The reduced model with one thing changed.

    `kind`: node, attribute, dimension, input, output, value or order. `subject`: what was changed, such as `Add (ad)`
    or `axis 0 of X`. `change`: how, in words that follow it, such as `left out` or `194 → 2`. `heals`: it passes.
    """

    kind: str
    subject: str
    change: str
    result: Measured

    @property
    def heals(self) -> bool:
        """Whether the change makes the model right."""
        return self.result.outcome == "passes"


@dataclass(frozen=True)
class Variant:
    """The reduced model, unchanged, run in another way.

    `group`: what is varied, such as `optimization level` or `version`. `name`: the value it has here. `target`: the
    target that ran as suspect, as text. `facts`: runtime, version, bundle, wasm file, adapter as it answered.
    """

    group: str
    name: str
    target: str
    result: Measured
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What an output holds instead of what it should, as one sentence; see `explain.diagnosis`."""

    output: str
    kind: str
    statement: str
    matched: int
    total: int
    error: float
    confidence: str


@dataclass(frozen=True)
class Explanation:
    """All of it, for one reduced model.

    `reduced`: the model as it is. `closest`: the neighbour whose model is kept as the passing sibling. `optimizers`:
    the fewest named graph optimizers that heal it when disabled; None when all of them together do not, or where that
    was not asked. `bisection`: versions in order, each with an outcome; `changed`: last version before and first after
    the change. `seconds`: by stage; `oracle_calls`: runs of an oracle that explaining took. `notes`: by stage, why it
    gave nothing, or not all.
    """

    reduced: Measured | None = None
    neighbours: Sequence[Neighbour] = ()
    closest: Neighbour | None = None
    variants: Sequence[Variant] = ()
    findings: Sequence[Finding] = ()
    optimizers: Sequence[str] | None = None
    bisection: Sequence[tuple[str, str]] = ()
    changed: tuple[str, str] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    oracle_calls: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For `explanation.json`: JSON types only."""
        return asdict(self)
