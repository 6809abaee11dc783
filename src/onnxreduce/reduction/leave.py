"""What a reduction leaves: its summary, the files of its folder, and the confirmation of the script among them."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxreduce import emit, scratch
from onnxreduce.errors import OnnxReduceError, SetupError
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.model import load
from onnxreduce.graph.prepare import Subject
from onnxreduce.oracle.verdict import Golden, Oracle, Outcome, Verdict
from onnxreduce.reduction.changes import changes
from onnxreduce.reduction.identity import ran_with
from onnxreduce.reduction.page import repro_page
from onnxreduce.reduction.problem import Problem
from onnxreduce.reduction.result import Reduction, Status
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.reduction.watcher import Watcher
from onnxreduce.runtimes.recording import RECORDED_BY, Recording
from onnxreduce.runtimes.system import system_facts

ALSO_FOUND = "also-found"
RUNNING = "running"
"""The status in the summary of a run that goes on, or was cut off."""
KEEPING = 0.1
"""The share of time that may go into writing the best so far on the way."""
SCRIPT_TIMEOUT = 300.0


@dataclass
class Leaving:
    """The folder of one reduction, on the way and at the end. `passes`: names of those that were to run.

    `deletion`: costs up to the end of deletion; `shrinking`: once there is one.
    """

    subject: Subject
    oracle: Oracle
    golden: Golden
    recorded: Recording
    problem: Problem
    passes: Collection[str]
    folder: Path | None
    watcher: Watcher
    deletion: Mapping[str, Any] = field(default_factory=dict)
    shrinking: Shrinking | None = None

    def __post_init__(self) -> None:
        self._sides = ran_with(self.oracle)  # now, while they run
        self._kept = self._kept_at = self._took = 0.0

    def keep(self) -> None:
        """Bring the folder up to date with the best so far, so that a run that is cut off leaves it.

        That takes a share of the time at most: a model with large weights is not written for each step. What cannot be
        written is told and tried again; where nothing can be, the journal ends the run.
        """
        journal, begun = self.problem.journal, time.monotonic()
        if self.folder is None or journal.replays or journal.steps == self._kept:
            return
        if begun - self._kept_at < self._took / KEEPING:
            return
        try:
            if not self._kept:
                emit.remove_report(self.folder)
            candidate, summary = self._best(finished=False)
            self._write(self.folder, candidate, summary)
            self._kept = journal.steps
        except OSError as error:
            self.watcher.stage(f"the best so far cannot be written: {error.strerror or error}")
        self._kept_at = time.monotonic()
        self._took = self._kept_at - begun

    def __call__(self, status: Status) -> Reduction:
        """Write all files, and have the model that the script builds judged in fresh runtimes.

        Raises SetupError when they cannot be written.
        """
        try:
            return self._left(status)
        except OSError as error:
            text = f"{self.folder or tempfile.gettempdir()} cannot be written: {error.strerror or error}"
            raise SetupError(f"{text}; once it can, the same command goes on from there") from error

    def _left(self, status: Status) -> Reduction:
        candidate, summary = self._best(finished=status is Status.REDUCED)
        self.watcher.stage(f"{summary['nodes_after']} nodes left: confirming the emitted script in a fresh runtime")
        with scratch.folder("result") as temporary:
            place = self.folder or temporary
            self._write(place, candidate, summary)
            confirmed, why, shown = self._confirm(place)
            summary |= {"confirmed_fresh": confirmed, **({"not_confirmed": why} if why else {})}
            if shown is not None:
                candidate = self._with_reference_outputs(candidate, summary)
                summary |= {"signature_reduced": str(shown.signature), "message_reduced": shown.message}
                summary |= {"outputs": [each.to_json() for each in shown.differences]}
            if not confirmed and status is Status.REDUCED:
                status = Status.UNCONFIRMED
                self.watcher.stage(f"NOT confirmed: {why}")
            summary |= {"status": status.value, **self.costs()}
            summary |= {"page": self._write(place, candidate, summary, shown)}
            emit.write_neighbourhood(place, self.problem.index, self.problem.best)
            for name, (other, verdict) in (self.shrinking.also_found if self.shrinking else {}).items():
                self._write_other(place, name, other, verdict, summary)
            if self.folder:
                emit.write_report(place, of_new_model=True)
        inputs = {name: tensor.array for name, tensor in candidate.feeds.items()}
        return Reduction(status, candidate.model.with_weights_inside(), inputs, summary, self.folder)

    def _with_reference_outputs(self, candidate: Candidate, summary: dict[str, Any]) -> Candidate:
        """The candidate with the reference's own outputs as expected ones, where the oracle can be asked for them."""
        ask = getattr(self.oracle, "expected", None)
        with suppress(OnnxReduceError, KeyboardInterrupt):
            if ask is not None and (found := ask(candidate)):
                summary["expected_outputs"] = summary["reference"]
                return replace(candidate, expected=found)
        return candidate

    def costs(self) -> dict[str, Any]:
        """What it took so far."""
        started = getattr(self.oracle, "seconds_starting", 0.0)
        recording = self.recorded.seconds + (self.shrinking.seconds_in_reference if self.shrinking else 0.0)
        parts: list[Problem | Shrinking] = [self.problem, self.shrinking] if self.shrinking else [self.problem]
        journal = self.problem.journal
        return {
            "oracle_calls": journal.calls,
            "resumed_calls": journal.resumed,
            "passed_over": journal.passed_over,
            "wasted_calls": getattr(self.oracle, "wasted", 0),
            "full_model_equivalents": round(journal.nodes_judged / self.problem.size, 3),
            "seconds": round(journal.at, 2),
            "seconds_in_runtime": round(journal.seconds + recording + started, 2),
            "seconds_starting_runtime": round(started, 2),
            "contamination_checks": sum(part.contamination_checks for part in parts),
            "contaminated": sum(part.contaminated for part in parts),
        }

    def _best(self, *, finished: bool) -> tuple[Candidate, dict[str, Any]]:
        """The best so far, with its summary."""
        candidate = self._deleted()
        summary = self._summary() | {"deletion": dict(self.deletion)}
        if self.shrinking is None:
            return candidate, summary
        return self.shrinking.best, summary | self._shrunk(self.shrinking, candidate, finished=finished)

    def _deleted(self) -> Candidate:
        """What deletion has left; the original itself with its own outputs where nothing could go."""
        problem, recorded = self.problem, self.recorded
        if len(problem.best) < problem.size:
            return problem.candidate()
        original = whole(problem.index.model, self.subject.feeds)
        return replace(original, expected={name: recorded[name] for name in original.outputs if name in recorded})

    def _shrunk(self, shrinking: Shrinking, before: Candidate, *, finished: bool) -> dict[str, Any]:
        proto = shrinking.best.model.proto
        return {
            "nodes_after": len(proto.graph.node),
            "operators": [node.op_type for node in proto.graph.node],
            "elements_after": shrinking.best_size[2],
            "one_minimal": finished and "nodes" in self.passes,
            "changed": changes(before, shrinking.best),
            "passes": [asdict(count) for count in shrinking.counts.values()],
            "also_found": sorted(shrinking.also_found),
        }

    def _write_other(
        self, folder: Path, name: str, other: Candidate, verdict: Verdict, summary: Mapping[str, Any]
    ) -> None:
        """Keep a candidate that fails in another class, with a script of its own; it was never followed."""
        place = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
        kept = ("model", "oracle", "runtime", "reference", "browser", "adapter", "targets")
        facts = {key: summary[key] for key in kept}
        facts |= {
            "signature": str(verdict.signature),
            "message": verdict.message,
            "nodes_before": summary["nodes_before"],
            "nodes_after": len(other.nodes),
            "expected_outputs": RECORDED_BY,
        }
        self._write(folder / ALSO_FOUND / place, other, facts, verdict)

    def _write(
        self, folder: Path, candidate: Candidate, summary: Mapping[str, Any], verdict: Verdict | None = None
    ) -> str:
        """Write all files; the page shows `verdict`. Returns the page's name, or why there is none."""
        right = f"; right under {summary['reference']}" if summary["reference"] else ""
        title = [
            f"{summary['model']}, reduced by onnxreduce from {summary['nodes_before']} nodes to "
            f"{summary['nodes_after']}. Fault: {summary.get('signature_reduced', summary['signature'])}.",
            f"Wrong under {summary['runtime']}{right}.",
        ]
        script = emit.builder_script(
            candidate.model.proto, candidate.feeds, title_lines=title, external=candidate.model.external
        )
        page, note = repro_page(candidate, summary, self.oracle, verdict)
        emit.write_reduction(
            folder,
            candidate.model.proto,
            candidate.feeds,
            dict(candidate.expected or {}),
            script,
            {**summary, "page": note},
            external=candidate.model.external,
            page=page,
        )
        return note

    def _confirm(self, folder: Path) -> tuple[bool, str, Verdict | None]:
        """Build the model with the emitted script and judge that, both targets, fresh.

        Returns whether it fails as the original does, why not, and the verdict where it does.
        """
        why = ""
        try:
            proto, feeds = emit.run_script(folder, SCRIPT_TIMEOUT)
            built = whole(load(proto), feeds)
            for _ in range(self.problem.repeats):
                verdict = self.problem.journal.ask(self.oracle, "emitted", built, fresh=True)
                if verdict.outcome is not Outcome.FAILS or verdict.signature is None:
                    why = f"the model that the script builds {verdict.outcome.value} {verdict.message}".strip()
                elif not self.problem.signature.matches(verdict.signature):
                    why = f"the model that the script builds fails in another way: {verdict.signature}"
                else:
                    return True, "", verdict
        except (OnnxReduceError, OSError) as error:
            why = str(error)
        except KeyboardInterrupt:
            why = "interrupted"
        return False, why, None

    def _summary(self) -> dict[str, Any]:
        problem = self.problem
        sides = self._sides
        suspect = sides.get("suspect", {})
        failed, runs = problem.reliability
        return {
            "model": self.subject.model.name.encode(
                "utf-8", "replace"
            ).decode(),  # file names are bytes on some systems
            "oracle": self.oracle.name,
            "signature": str(problem.signature),
            "nodes_before": problem.size,
            "nodes_after": len(problem.best),
            "nodes": list(problem.best),
            "operators": [problem.index.nodes[at].op_type for at in problem.best],
            "one_minimal": problem.one_minimal(),
            "status": RUNNING,
            "confirmed_fresh": False,
            **self.costs(),
            "reliability": f"{failed} of {runs} runs" if runs else "not measured",
            "reliability_p": _rounded(problem.trials.p),
            "reliability_confidence": _rounded(problem.trials.confidence),
            "repeats": problem.repeats,
            "noise_floor": self.golden.noise,
            "runtime": _words(suspect),
            "reference": _words(sides.get("reference", {})),
            "expected_outputs": RECORDED_BY,
            "browser": " ".join(filter(None, (suspect.get("browser"), suspect.get("browser_version")))),
            "adapter": suspect.get("adapter", ""),
            "adapter_software": suspect.get("adapter_software", ""),
            "targets": {side: dict(facts) for side, facts in sides.items()},
            "oracle_record": getattr(self.oracle, "as_record", dict)(),
            "system": system_facts(),
        }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _words(facts: Mapping[str, str]) -> str:
    parts = (facts.get("runtime"), facts.get("version"), facts.get("provider"), facts.get("bundle"))
    return " ".join(part for part in parts if part)
