"""What is said about a wrong output, and what a family of hypotheses puts forward to be tried."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.recompute import Recomputer

Key = tuple[str, ...]


class DiagnosisKind(enum.Enum):
    """What was computed instead of the right answer."""

    ZEROS = "all zeros"
    OTHER_VALUE = "content of another value"
    OVERWRITTEN_INPUT = "overwritten input"
    TAIL = "unwritten tail"
    REARRANGED = "right values at wrong places"
    SCALED = "scaled or offset"
    ROUNDED = "lower precision"
    RANGE = "sign or range lost"


@dataclass(frozen=True)
class Diagnosis:
    """What one wrong output holds.

    `statement`: one sentence. `matched` of `total` elements are as it says, off by at most `error` (a share of the
    output's largest magnitude; 0 where they are the same). `confidence`: `certain` or `likely`; docs/diagnosis.md says
    what either asks for.
    """

    output: str
    kind: DiagnosisKind
    statement: str
    matched: int
    total: int
    error: float
    confidence: str


@dataclass(frozen=True)
class Claim:
    """One hypothesis with what the output would hold if it were true.

    `key` names the hypothesis, the same for other inputs of the model. `predicted` has the output's shape and dtype.
    `what` follows the output's name in a sentence, `why` is a clause of its own. `parameters`: bits of what was fitted
    to the output itself. `covered`: elements of which the claim speaks (bool, the output's shape); all where None.
    `evidence`: bits that speak for it where the family counts them itself, else they follow from the match, but are
    never more than `at_most`.
    """

    kind: DiagnosisKind
    key: Key
    predicted: np.ndarray
    what: str
    why: str = ""
    parameters: float = 0.0
    covered: np.ndarray | None = None
    evidence: float | None = None
    at_most: float = float("inf")


class Family(Protocol):
    """A family of hypotheses: claims about one observation, only those with a key in `only` where that is given."""

    def __call__(self, seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None, /) -> Iterable[Claim]:
        """In an order from the plain to the far-fetched; a key may come more than once."""
