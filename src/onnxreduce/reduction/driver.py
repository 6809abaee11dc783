"""The whole loop: golden run and recording, search, confirmation through the emitted script."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from onnxreduce import emit
from onnxreduce.errors import BadInputError, OnnxReduceError
from onnxreduce.graph.candidate import Candidate, whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, load, normalise
from onnxreduce.graph.prepare import Subject
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.verdict import Golden, Oracle, Outcome, Verdict
from onnxreduce.reduction.changes import changes
from onnxreduce.reduction.evidence import evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.page import repro_page
from onnxreduce.reduction.passes.table import PASSES
from onnxreduce.reduction.problem import Budget, Problem, RetractedError, StoppedError
from onnxreduce.reduction.result import DoesNotFailError, Reduction, Status
from onnxreduce.reduction.rounds import Pass, shrink
from onnxreduce.reduction.search import Evidence, reduce_nodes
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER, Recording, record
from onnxreduce.runtimes.system import system_facts

JOURNAL = "journal.jsonl"
ALSO_FOUND = "also-found"
SHRINK_UP_TO = 64
"""Nodes; passes that look at each value of each node pay for what is left of a reduction, not for whole models."""
RECORDING_TIMEOUT = 900.0
SCRIPT_TIMEOUT = 300.0


@dataclass(frozen=True)
class Watcher:
    """Who is told: `stage` gets a line at each step, `progress` and `shrinking` the problem on the way."""

    stage: Callable[[str], None] = lambda text: None
    progress: Callable[[Problem], None] = lambda problem: None
    shrinking: Callable[[Shrinking], None] = lambda problem: None


@dataclass(frozen=True)
class Shrinks:
    """What happens after the deletion of nodes: which passes, and which kinds of change are forbidden."""

    passes: Sequence[Pass] = PASSES
    keep: Collection[str] = ()


@dataclass
class Run:
    """One reduction from start to end."""

    subject: Subject
    oracle: Oracle
    folder: Path | None
    budget: Budget
    watcher: Watcher
    shrinks: Shrinks = Shrinks()

    def __post_init__(self) -> None:
        self._begun = time.monotonic()
        self._journal = Journal()

    def __call__(self) -> Reduction:
        """Reduce. Raises DoesNotFailError when the original shows no fault; an interrupt ends with the best so far."""
        model = normalise(self.subject.model)
        index = GraphIndex(model, self.subject.feeds)
        self._journal.header({"model": model.name, "nodes": len(index), "oracle": self.oracle.name})
        recorder = PythonOrt(RECORDER)
        with ThreadPoolExecutor(1) as pool:
            recording = pool.submit(record, index, self.subject.feeds, timeout=RECORDING_TIMEOUT, runtime=recorder)
            try:
                golden = self._golden(model, recording.result)
                recorded = recording.result()
            except BaseException:
                recording.add_done_callback(_close)
                raise
            finally:
                recorder.close()  # ends a recording that is under way
        try:
            return self._reduce(index, recorded, golden)
        finally:
            recorded.close()
            self._journal.close()

    def _golden(self, model: Model, recorded: Callable[[], Mapping[str, StoredTensor]]) -> Golden:
        self.watcher.stage(f"golden run: {len(model.proto.graph.node)} nodes under both targets")
        candidate = whole(model, self.subject.feeds)
        golden = self.oracle.golden(candidate, recorded)
        self._journal.add("golden", candidate.nodes, golden.verdict, fresh=True)
        verdict = golden.verdict
        if verdict.outcome is Outcome.FAILS:
            return golden
        if verdict.outcome is Outcome.UNRESOLVED:
            raise BadInputError(f"{model.name} cannot be judged: {verdict.message}")
        original = self.subject.model
        if _rewritten(original, model):
            again = self.oracle.judge(whole(original, self.subject.feeds), fresh=True)
            if again.outcome is Outcome.FAILS:
                raise DoesNotFailError(
                    f"{model.name} shows the fault ({again.signature}) as it is in the file, but no longer once its "
                    "functions are inlined and its constants are initializers; that form cannot be reduced"
                )
        count = len(verdict.differences)
        agreed = f"{count} of {count} outputs agree" if count else f"{self.oracle.name} passes"
        raise DoesNotFailError(f"{model.name} does not fail: {agreed}{self._made_inputs()}")

    def _made_inputs(self) -> str:
        if not self.subject.notes:
            return ""
        return "; its inputs were generated, so give your own with --inputs, or --input NAME=EXPR"

    def _reduce(self, index: GraphIndex, recorded: Recording, golden: Golden) -> Reduction:
        verdict = golden.verdict
        self.watcher.stage(f"the original fails: {verdict.signature}{_places(verdict)}")
        if self.folder:
            self._journal.keep_in(self.folder / JOURNAL)
        problem = Problem(index, recorded, self.oracle, golden, self._journal, self.budget, self.watcher.progress)
        status = Status.REDUCED
        mistake: Exception | None = None
        shrinking: Shrinking | None = None
        deletion: dict[str, Any] = {}
        try:
            self._delete(problem, evidence(index, verdict))
            deletion = self._costs(problem, recorded)
            shrinking = self._shrinking(problem)
            if shrinking is not None:
                shrink(shrinking, self.shrinks.passes)
        except (StoppedError, KeyboardInterrupt) as error:
            self.watcher.stage("interrupted" if isinstance(error, KeyboardInterrupt) else "the budget is used up")
            status = Status.STOPPED
        except Exception as error:  # the browser went away for good, or a mistake of ours
            if len(problem.best) == problem.size and shrinking is None:
                raise
            self.watcher.stage(f"stopped: {error}")
            status = Status.STOPPED
            mistake = None if isinstance(error, OnnxReduceError) else error
        finally:
            if shrinking is not None:
                shrinking.close()
        reduction = self._leave(problem, recorded, golden, status, shrinking, deletion)
        if mistake is not None:
            raise mistake
        return reduction

    def _delete(self, problem: Problem, evidence: Evidence) -> None:
        """Search until a fresh instance bears the result out; what was answered before costs nothing again."""
        while True:
            try:
                reduce_nodes(problem, evidence)
                problem.settle()
                return
            except RetractedError:
                self.watcher.stage("a fresh runtime does not bear the last steps out: going back")

    def _shrinking(self, problem: Problem) -> Shrinking | None:
        count = len(problem.best)
        if not self.shrinks.passes:
            return None
        if count > SHRINK_UP_TO:
            self.watcher.stage(f"{count} nodes are too many for shrinking values and shapes; they stay as they are")
            return None
        shrinking = Shrinking(
            problem.candidate(),
            self.oracle,
            problem.signature,
            self._journal,
            self.budget,
            self.shrinks.keep,
            problem.repeats,
            getattr(self.oracle, "tolerance", None) or Tolerance(),
            progress=lambda each: self.watcher.shrinking(each),
        )
        if not shrinking.start():
            self.watcher.stage("the reference cannot run the reduced model alone; it is not shrunk further")
            shrinking.close()
            return None
        self.watcher.stage(f"{count} nodes left by deletion: shrinking values, shapes and operators")
        return shrinking

    def _leave(
        self,
        problem: Problem,
        recorded: Recording,
        golden: Golden,
        status: Status,
        shrinking: Shrinking | None,
        deletion: Mapping[str, Any],
    ) -> Reduction:
        candidate = self._deleted(problem, recorded)
        summary = self._summary(problem, golden, recorded) | {"deletion": dict(deletion)}
        if shrinking is not None:
            summary |= self._shrunk(shrinking, candidate, finished=status is Status.REDUCED)
            candidate = shrinking.best
        count = summary["nodes_after"]
        self.watcher.stage(f"{count} nodes left: confirming the emitted script in a fresh runtime")
        with tempfile.TemporaryDirectory(prefix="onnxreduce-") as temporary:
            place = self.folder or Path(temporary)
            self._write(place, candidate, summary)
            confirmed, why, shown = self._confirm(problem, place)
            summary |= {"confirmed_fresh": confirmed, **({"not_confirmed": why} if why else {})}
            if shown is not None:
                summary |= {"signature_reduced": str(shown.signature), "message_reduced": shown.message}
                summary |= {"outputs": [each.to_json() for each in shown.differences]}
            summary |= self._costs(problem, recorded, shrinking)
            summary |= {"page": self._write(place, candidate, summary, shown)}
            emit.write_neighbourhood(place, problem.index, problem.best)
            for name, (other, verdict) in (shrinking.also_found if shrinking else {}).items():
                self._write_other(place, name, other, verdict, summary)
            if self.folder:
                emit.write_report(place, of_new_model=True)
        if not confirmed and status is Status.REDUCED:
            status = Status.UNCONFIRMED
            self.watcher.stage(f"NOT confirmed: {why}")
        inputs = {name: tensor.array for name, tensor in candidate.feeds.items()}
        return Reduction(status, candidate.model.with_weights_inside(), inputs, summary, self.folder)

    def _deleted(self, problem: Problem, recorded: Recording) -> Candidate:
        """What deletion has left; the original itself with its own outputs where nothing could go."""
        if len(problem.best) < problem.size:
            return problem.candidate()
        original = whole(problem.index.model, self.subject.feeds)
        return replace(original, expected={name: recorded[name] for name in original.outputs if name in recorded})

    def _shrunk(self, shrinking: Shrinking, before: Candidate, *, finished: bool) -> dict[str, Any]:
        proto = shrinking.best.model.proto
        tried = any(one.name == "nodes" for one in self.shrinks.passes)
        return {
            "nodes_after": len(proto.graph.node),
            "operators": [node.op_type for node in proto.graph.node],
            "elements_after": shrinking.best_size[2],
            "one_minimal": finished and tried,
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

    def _confirm(self, problem: Problem, folder: Path) -> tuple[bool, str, Verdict | None]:
        """Build the model with the emitted script and judge that, both targets, fresh.

        Returns whether it fails as the original does, why not, and the verdict where it does.
        """
        why = ""
        try:
            proto, feeds = emit.run_script(folder, SCRIPT_TIMEOUT)
            built = whole(load(proto), feeds)
            for _ in range(problem.repeats):
                verdict = self.oracle.judge(built, fresh=True)
                self._journal.add("emitted", built.nodes, verdict, fresh=True)
                if verdict.outcome is not Outcome.FAILS or verdict.signature is None:
                    why = f"the model that the script builds {verdict.outcome.value} {verdict.message}".strip()
                elif not problem.signature.matches(verdict.signature):
                    why = f"the model that the script builds fails in another way: {verdict.signature}"
                else:
                    return True, "", verdict
        except OnnxReduceError as error:
            why = str(error)
        except KeyboardInterrupt:
            why = "interrupted"
        return False, why, None

    def _summary(self, problem: Problem, golden: Golden, recorded: Recording) -> dict[str, Any]:
        sides = self.oracle.describe()
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
            "confirmed_fresh": False,
            **self._costs(problem, recorded),
            "reliability": f"{failed} of {runs} runs" if runs else "not measured",
            "reliability_p": _rounded(problem.trials.p),
            "reliability_confidence": _rounded(problem.trials.confidence),
            "repeats": problem.repeats,
            "noise_floor": golden.noise,
            "runtime": _words(suspect),
            "reference": _words(sides.get("reference", {})),
            "browser": " ".join(filter(None, (suspect.get("browser"), suspect.get("browser_version")))),
            "adapter": suspect.get("adapter", ""),
            "adapter_software": suspect.get("adapter_software", ""),
            "targets": {side: dict(facts) for side, facts in sides.items()},
            "oracle_record": getattr(self.oracle, "as_record", dict)(),
            "system": system_facts(),
        }

    def _costs(self, problem: Problem, recorded: Recording, shrinking: Shrinking | None = None) -> dict[str, Any]:
        started = getattr(self.oracle, "seconds_starting", 0.0)
        recording = recorded.seconds + (shrinking.seconds_in_reference if shrinking else 0.0)
        parts: list[Problem | Shrinking] = [problem] if shrinking is None else [problem, shrinking]
        return {
            "oracle_calls": self._journal.calls,
            "wasted_calls": getattr(self.oracle, "wasted", 0),
            "full_model_equivalents": round(self._journal.nodes_judged / problem.size, 3),
            "seconds": round(time.monotonic() - self._begun, 2),
            "seconds_in_runtime": round(self._journal.seconds + recording + started, 2),
            "seconds_starting_runtime": round(started, 2),
            "contamination_checks": sum(part.contamination_checks for part in parts),
            "contaminated": sum(part.contaminated for part in parts),
        }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def _rewritten(original: Model, normalised: Model) -> bool:
    return bool(original.proto.functions) or len(original.proto.graph.node) != len(normalised.proto.graph.node)


def _places(verdict: Verdict) -> str:
    if not verdict.wrong_outputs:
        return ""
    return f" ({len(verdict.wrong_outputs)} of {len(verdict.differences)} outputs wrong)"


def _words(facts: Mapping[str, str]) -> str:
    parts = (facts.get("runtime"), facts.get("version"), facts.get("provider"), facts.get("bundle"))
    return " ".join(part for part in parts if part)


def _close(future: Any) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()
