"""What an earlier run has left in its journal: its verdicts, and the questions that it did not live to see answered."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxreduce.oracle.record import restored, restored_golden
from onnxreduce.oracle.verdict import Golden, Verdict

ASKS, WITHDRAWN, KEY = "asks", "withdrawn", "key"
"""Keys of lines: a question that is put to the oracle now, one that was given up in good order, one with a verdict."""
GOLDEN = "golden"


@dataclass
class Past:
    """The lines of a journal up to the first that is torn.

    `length`: bytes of them. `at`: seconds at which the last was written. `steps`: accepted candidates. `deaths`: how
    often a run ended while a question was open that has no verdict yet. `torn`: number of the first torn line, or 0.
    """

    header: Mapping[str, Any] = field(default_factory=dict)
    golden: Golden | None = None
    length: int = 0
    at: float = 0.0
    steps: int = 0
    torn: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    _answers: dict[str, deque[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(deque))

    @property
    def left(self) -> int:
        """Verdicts that were not asked for yet."""
        return sum(map(len, self._answers.values()))

    def knows(self, key: str) -> bool:
        """Whether there is a verdict on a question that was not asked for yet."""
        return bool(self._answers.get(key))

    def answer(self, key: str) -> Verdict | None:
        """The next verdict on a question, in the order in which they were given; None where there is no other."""
        return restored(self._answers[key].popleft()) if self.knows(key) else None

    def take(self, line: Mapping[str, Any]) -> None:
        """Take note of a line. Raises KeyError, TypeError or ValueError for one that nobody could have written."""
        if not self.header:
            self.header = line
        elif ASKS in line:
            self.deaths[line[ASKS]] += 1  # until its verdict follows
        elif WITHDRAWN in line:
            del self.deaths[line[WITHDRAWN]]
        elif line.get("what") == GOLDEN:
            self.golden = restored_golden(line)
        elif KEY in line:
            restored(line)
            self._answers[line[KEY]].append(line)
            del self.deaths[line[KEY]]
        elif "step" in line:
            self.steps = line["step"]
        self.at = max(self.at, float(line.get("at", 0.0)))


def read(path: Path) -> Past:
    """Read a journal. What follows a torn line is ignored: a crash of the machine may have lost what lay between.

    Raises OSError when the file cannot be read.
    """
    past = Past()
    for number, raw in enumerate(_lines(path.read_bytes()), 1):
        try:
            line = json.loads(raw)
            if not raw.endswith(b"\n") or not isinstance(line, dict):
                raise ValueError("torn")
            past.take(line)
        except (KeyError, TypeError, ValueError, RecursionError):
            past.torn = number
            break
        past.length += len(raw)
    return past


def _lines(content: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(content):
        end = content.find(b"\n", start) + 1 or len(content)
        yield content[start:end]
        start = end
