"""The record of every verdict: appended as it is given, one JSON line each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.verdict import Verdict
from onnxreduce.reduction.steps import Steps


class Journal:
    """Appends verdicts to a file, from `keep_in` on; until then, and without a file, it holds them in memory.

    `steps`: candidates accepted so far; `calls`: oracle calls so far; `nodes_judged`: the sum of the nodes of all
    models judged; `seconds`: time that runtimes took.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.steps = 0
        self.nodes_judged = 0
        self.seconds = 0.0
        self._begun = time.monotonic()
        self._held: list[str] = []
        self._file: IO[str] | None = None
        self._models: Steps | None = None

    def keep_in(self, path: Path) -> None:
        """Write what is held, and all that follows, to a file; an older one is replaced. Small models lie beside it."""
        self._models = Steps(path.parent)
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(self._held)
        self._held = []
        self._file.flush()

    def header(self, facts: dict[str, Any]) -> None:
        """What the run is about, as the first line."""
        self._write(facts)

    def note(self, text: str) -> None:
        """What is worth telling beside the verdicts."""
        self._write({"at": round(self.elapsed, 3), "note": text})

    def add(self, what: str, nodes: Iterable[int], verdict: Verdict, **more: Any) -> None:
        """Record one oracle call on a model of the given nodes."""
        listed = sorted(nodes)
        self.calls += 1
        self.nodes_judged += len(listed)
        self.seconds += verdict.seconds
        self._write(
            {
                "call": self.calls,
                "at": round(self.elapsed, 3),
                "what": what,
                "size": len(listed),
                "nodes": ranges(listed),
                **verdict.summary(),
                **more,
            }
        )

    def step(self, by: str, candidate: Candidate) -> None:
        """Record that a pass has made a candidate the best so far."""
        self.steps += 1
        graph = candidate.model.proto.graph
        self._write(
            {
                "step": self.steps,
                "at": round(self.elapsed, 3),
                "calls": self.calls,
                "by": by,
                "left": len(graph.node),
                "ends": len(candidate.feeds) + len(candidate.outputs),
                "model": self._models.keep(self.steps, by, candidate) if self._models else "",
            }
        )

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line) + "\n"
        if self._file is None:
            self._held.append(text)
        else:
            self._file.write(text)
            self._file.flush()


def ranges(nodes: Iterable[int]) -> str:
    """Positions in short form, such as `0-15,18`."""
    parts: list[list[int]] = []
    for node in nodes:
        if parts and node == parts[-1][1] + 1:
            parts[-1][1] = node
        else:
            parts.append([node, node])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
