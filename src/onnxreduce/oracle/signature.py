"""The signature of a failure: what class it is of and what its message says once numbers and names are taken out.

A reduction follows one signature only, so that a wrong value never turns into a run error on the way (slippage is what
users of reducers complain of most).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Kind(enum.Enum):
    """The class of a failure."""

    NUMERIC = "numeric mismatch"
    NAN = "NaN or Inf"
    ZEROS = "all zeros"
    WRONG_SHAPE = "wrong shape"
    WRONG_DTYPE = "wrong dtype"
    CREATE_ERROR = "error at create"
    RUN_ERROR = "error at run"
    SHADER_ERROR = "shader error"
    HANG = "hang"
    LOST_DEVICE = "lost device"
    OUT_OF_MEMORY = "out of memory"
    DEAD = "dead process"
    SLOW = "slower than"  # only where a factor is asked for
    INTERESTING = "interesting"  # a command or function of the user's says so


WRONG_VALUES = frozenset({Kind.NUMERIC, Kind.NAN, Kind.ZEROS})
"""One family: corrupted values become NaN or zeros, or not, by what the nodes after them do."""


@dataclass(frozen=True)
class Signature:
    """Class and normalised message of a failure; `message` is empty for wrong values, and where memory runs out."""

    kind: Kind
    message: str = ""

    def matches(self, other: Signature) -> bool:
        """Whether two failures count as the same."""
        if self.kind in WRONG_VALUES:
            return other.kind in WRONG_VALUES
        return self.kind is other.kind and self.message == other.message

    @classmethod
    def parse(cls, text: str) -> Signature:
        """From its text; raises ValueError for a class that there is not."""
        kind, _, message = text.partition(": ")
        return cls(Kind(kind), message)

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}" if self.message else self.kind.value


@dataclass(frozen=True)
class Expectation:
    """What a failure must be like to count: of this class, if any, and with a message that matches the pattern."""

    kind: Kind | None = None
    pattern: str = ""

    def met_by(self, signature: Signature, message: str) -> bool:
        """Whether a failure counts."""
        return self.kind in (None, signature.kind) and (not self.pattern or bool(re.search(self.pattern, message)))


_RULES = (
    (re.compile(r"https?://\S+"), ""),
    (re.compile(r"\b(Load model from) .*? (failed)"), r"\1 … \2"),
    (re.compile(r"Name:\s*'.*?' (?=Status Message:)"), "Name:'…' "),
    (re.compile(r"\bwith name '.*'$"), "with name '…'"),
    (re.compile(r"\b([Nn]ode) ?\(.*?\)(?=\.?$| Op \()"), r"\1 (…)"),
    (re.compile(r"\bIn Node, \(.*\) -> \(.*?\) , Error"), "In Node, Error"),
    (re.compile(r"(?<![\w.])([A-Za-z]:)?([/\\][\w.+-]+){2,}(:\d+)?"), "…"),
    (re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`"), "'…'"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"[-+]?\b\d+(\.\d+)?([eE][-+]?\d+)?\b"), "#"),
    (re.compile(r"[\[{(]\s*#(\s*[,x]\s*#)*\s*[\]})]"), "[#]"),
    (re.compile(r"\s+"), " "),
)
LONGEST = 200


def normalised(message: str) -> str:
    """A message's first telling line without numbers, addresses, paths and quoted names."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else ""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = text.strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 2].rpartition(" ")[0] + " …"
