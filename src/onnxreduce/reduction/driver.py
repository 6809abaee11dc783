"""The whole loop: golden run and recording, search, confirmation through the emitted script."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxreduce.errors import BadInputError, OnnxReduceError
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, normalise
from onnxreduce.graph.prepare import Subject
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.verdict import Golden, Oracle, Outcome, Verdict
from onnxreduce.reduction.evidence import evidence
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.leave import Leaving
from onnxreduce.reduction.passes.table import PASSES
from onnxreduce.reduction.problem import Budget, Problem, RetractedError, StoppedError
from onnxreduce.reduction.result import DoesNotFailError, Reduction, Status
from onnxreduce.reduction.rounds import Pass, shrink
from onnxreduce.reduction.search import Evidence, reduce_nodes
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.reduction.watcher import Watcher
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER, Recording, record

JOURNAL = "journal.jsonl"
SHRINK_UP_TO = 64
"""Nodes; passes that look at each value of each node pay for what is left of a reduction, not for whole models."""
RECORDING_TIMEOUT = 900.0


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
        passes = [one.name for one in self.shrinks.passes]
        leave = Leaving(
            self.subject, self.oracle, golden, recorded, problem, passes, self.folder, self._begun, self.watcher
        )
        status = Status.REDUCED
        mistake: Exception | None = None
        try:
            self._delete(problem, evidence(index, verdict))
            leave.deletion = leave.costs()
            leave.shrinking = self._shrinking(problem)
            if leave.shrinking is not None:
                shrink(leave.shrinking, self.shrinks.passes)
        except (StoppedError, KeyboardInterrupt) as error:
            self.watcher.stage("interrupted" if isinstance(error, KeyboardInterrupt) else "the budget is used up")
            status = Status.STOPPED
        except Exception as error:  # the browser went away for good, or a mistake of ours
            if len(problem.best) == problem.size and leave.shrinking is None:
                raise
            self.watcher.stage(f"stopped: {error}")
            status = Status.STOPPED
            mistake = None if isinstance(error, OnnxReduceError) else error
        finally:
            if leave.shrinking is not None:
                leave.shrinking.close()
        reduction = leave(status)
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


def _rewritten(original: Model, normalised: Model) -> bool:
    return bool(original.proto.functions) or len(original.proto.graph.node) != len(normalised.proto.graph.node)


def _places(verdict: Verdict) -> str:
    if not verdict.wrong_outputs:
        return ""
    return f" ({len(verdict.wrong_outputs)} of {len(verdict.differences)} outputs wrong)"


def _close(future: Any) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()
