"""The record of every verdict, one JSON line each: cache, resume file and the source of the report.

A question is written down before it is put to the oracle, and its verdict before it is used. So a run that was cut off
can be gone on with: the search is deterministic, asks the same questions, and gets the recorded answers. A question
that a run did not outlive is asked once more; where that ends the run again, it is passed over.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from onnxreduce.errors import SetupError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.record import recorded, recorded_golden
from onnxreduce.oracle.verdict import Golden, Oracle, Outcome, Verdict
from onnxreduce.reduction.past import ASKS, GOLDEN, WITHDRAWN, Past
from onnxreduce.reduction.steps import Steps

DEATHS = 2
"""A question that so many runs did not outlive is not asked again."""
PASSED_OVER = f"onnxreduce or the machine ended {DEATHS} times while this candidate ran: it is passed over"


class Journal:
    """Appends verdicts to a file, from `keep_in` on; until then, and without a file, it holds them in memory.

    `past`: what an earlier run has left in the file. `steps`: candidates accepted so far; `calls`: oracle calls so far;
    `resumed`: those of them that the past has answered; `replays`: whether the last was one; `passed_over`: questions
    that ended two runs; `nodes_judged`: the sum of the nodes of all models judged; `seconds`: time that runtimes took.
    """

    def __init__(self, past: Past | None = None) -> None:
        self.calls = 0
        self.resumed = 0
        self.passed_over = 0
        self.steps = 0
        self.nodes_judged = 0
        self.seconds = 0.0
        self.replays = past is not None
        self._past = past or Past()
        self._begun = time.monotonic()
        self._held: list[str] = []
        self._path: Path | None = None
        self._file: IO[bytes] | None = None
        self._models: Steps | None = None

    def keep_in(self, path: Path) -> None:
        """Write what is held, and all that follows, to a file: behind the past, or in place of what is there.

        Small models lie beside it. Raises SetupError when it cannot be written, as do all that write.
        """
        self._models = Steps(path.parent, emptied=not self._past.length)
        self._path = path
        try:
            self._file = path.open("r+b" if path.exists() else "w+b", buffering=0)
            self._file.truncate(self._past.length)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._unwritable(error) from error
        held, self._held = self._held, []
        self._append("".join(held))
        self._sync()

    def header(self, facts: dict[str, Any]) -> None:
        """What the run is about, as the first line."""
        self._write(facts)

    def note(self, text: str) -> None:
        """What is worth telling beside the verdicts."""
        if not self.replays:
            self._write({"at": round(self.at, 3), "note": text})

    def golden(self, candidate: Candidate, golden: Golden) -> None:
        """Record what the original gave, unless it is known from the past."""
        if self._past.golden is not None:
            self._count(candidate.nodes, golden.verdict)
            self.resumed += 1
        else:
            self.add(GOLDEN, candidate.nodes, golden.verdict, **recorded_golden(golden), fresh=True)

    def knows(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> bool:
        """Whether the past answers this question."""
        return self._past.left > 0 and self._past.knows(_question(candidate, fresh=fresh, alone=alone))

    def ask(
        self, oracle: Oracle, what: str, candidate: Candidate, *, fresh: bool = False, alone: bool = False, **more: Any
    ) -> Verdict:
        """The oracle's verdict on a candidate, recorded; or the one that an earlier run has recorded.

        Arguments as of `Oracle.judge`; `what` and `more` are written beside it.
        """
        key = _question(candidate, fresh=fresh, alone=alone) if self._file else ""
        known = self._past.answer(key)
        self.replays = known is not None
        if known is not None:
            self._count(candidate.nodes, known)
            self.resumed += 1
            self.passed_over += known.message == PASSED_OVER
            return known
        if self._past.deaths[key] >= DEATHS:
            self.passed_over += 1
            verdict = Verdict(Outcome.UNRESOLVED, message=PASSED_OVER)
            self.add(what, candidate.nodes, verdict, key=key, fresh=fresh, **more)
            return verdict
        try:
            self._intend(key)
            verdict = oracle.judge(candidate, fresh=fresh, alone=alone)
            self.add(what, candidate.nodes, verdict, key=key, fresh=fresh, **more)
        except BaseException:  # an orderly end, by an interrupt or a runtime that is gone
            with contextlib.suppress(SetupError):
                self._withdraw(key)
            raise
        return verdict

    def add(self, what: str, nodes: Iterable[int], verdict: Verdict, **more: Any) -> None:
        """Record one oracle call on a model of the given nodes."""
        listed = self._count(nodes, verdict)
        self._write(
            {
                "call": self.calls,
                "at": round(self.at, 3),
                "what": what,
                "size": len(listed),
                "nodes": ranges(listed),
                **recorded(verdict),
                **more,
            }
        )

    def step(self, by: str, candidate: Candidate) -> None:
        """Record that a pass has made a candidate the best so far."""
        self.steps += 1
        graph = candidate.model.proto.graph
        model = self._models.keep(self.steps, by, candidate) if self._models else ""
        if self.steps <= self._past.steps:
            return
        self._write(
            {
                "step": self.steps,
                "at": round(self.at, 3),
                "calls": self.calls,
                "by": by,
                "left": len(graph.node),
                "ends": len(candidate.feeds) + len(candidate.outputs),
                "model": model,
            }
        )

    @property
    def elapsed(self) -> float:
        """Seconds since this run began, those of earlier ones not counted."""
        return time.monotonic() - self._begun

    @property
    def at(self) -> float:
        """Seconds since the first run began, without the time between runs."""
        return self._past.at + self.elapsed

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _count(self, nodes: Iterable[int], verdict: Verdict) -> list[int]:
        listed = sorted(nodes)
        self.calls += 1
        self.nodes_judged += len(listed)
        self.seconds += verdict.seconds
        return listed

    def _intend(self, key: str) -> None:
        """Write a question down, on the disk itself: it may take the machine down.

        The verdict before it is safe then too, so that one sync a call is enough.
        """
        if self._file:
            self._write({"at": round(self.at, 3), ASKS: key})
            self._sync()

    def _withdraw(self, key: str) -> None:
        if self._file:
            self._write({"at": round(self.at, 3), WITHDRAWN: key})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line) + "\n"
        if self._file is None:
            self._held.append(text)
        else:
            self._append(text)

    def _append(self, text: str) -> None:
        """Write whole lines or nothing."""
        assert self._file is not None
        data = memoryview(text.encode("ascii"))
        end = self._file.tell()
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
                self._file.seek(end)
            raise self._unwritable(error) from error

    def _sync(self) -> None:
        assert self._file is not None
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # of file systems that have no such thing
                raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> SetupError:
        reason = error.strerror or error
        return SetupError(f"{self._path} cannot be written: {reason}; once it can, the same command goes on from there")


def _question(candidate: Candidate, *, fresh: bool, alone: bool) -> str:
    return f"{candidate.digest()}{' fresh' if fresh else ''}{' alone' if alone else ''}"


def ranges(nodes: Iterable[int]) -> str:
    """Positions in short form, such as `0-15,18`."""
    parts: list[list[int]] = []
    for node in nodes:
        if parts and node == parts[-1][1] + 1:
            parts[-1][1] = node
        else:
            parts.append([node, node])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
