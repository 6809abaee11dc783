"""The whole loop: golden run and recording, search, confirmation through the emitted script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxreduce import emit
from onnxreduce.errors import BadInputError, OnnxReduceError
from onnxreduce.graph.candidate import whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import Model, normalise
from onnxreduce.graph.prepare import Subject
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.verdict import Golden, Oracle, Outcome, Verdict
from onnxreduce.reduction.evidence import evidence
from onnxreduce.reduction.identity import VALUES, difference, digest_of, ran_with
from onnxreduce.reduction.journal import Journal
from onnxreduce.reduction.leave import Leaving
from onnxreduce.reduction.passes.table import PASSES
from onnxreduce.reduction.past import Past
from onnxreduce.reduction.place import JOURNAL
from onnxreduce.reduction.problem import Budget, Problem, RetractedError, StoppedError
from onnxreduce.reduction.result import DoesNotFailError, Reduction, Status
from onnxreduce.reduction.rounds import Pass, shrink
from onnxreduce.reduction.search import Evidence, reduce_nodes
from onnxreduce.reduction.shrink import Shrinking
from onnxreduce.reduction.watcher import Watcher
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER, Recording, record

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
    """One reduction from start to end.

    `about`: what it is about (see `identity`). `past`: what an earlier run about the same has left, to go on from.
    """

    subject: Subject
    oracle: Oracle
    folder: Path | None
    budget: Budget
    watcher: Watcher
    shrinks: Shrinks = Shrinks()
    about: Mapping[str, str] = field(default_factory=dict)
    past: Past | None = None

    def __post_init__(self) -> None:
        self._journal = Journal(self.past)

    def __call__(self) -> Reduction:
        """Reduce. Raises DoesNotFailError when the original shows no fault; an interrupt ends with the best so far."""
        model = normalise(self.subject.model)
        index = GraphIndex(model, self.subject.feeds)
        golden, recorded = self._learnt(model, index)
        try:
            return self._reduce(index, recorded, golden)
        finally:
            recorded.close()
            self._journal.close()

    def _learnt(self, model: Model, index: GraphIndex) -> tuple[Golden, Recording]:
        """What the original gives, unless an earlier run has told it, and all of its values under the reference."""
        known = self.past.golden if self.past else None
        recorder = PythonOrt(RECORDER)
        with ThreadPoolExecutor(1) as pool:
            recording = pool.submit(record, index, self.subject.feeds, timeout=RECORDING_TIMEOUT, runtime=recorder)
            try:
                golden = self._golden(model, recording.result) if known is None else self._resumed(known)
                recorded = recording.result()
                self._head(model, index, golden, recorded)
            except BaseException:
                recording.add_done_callback(_close)
                raise
            finally:
                recorder.close()  # ends a recording that is under way
        return golden, recorded

    def _resumed(self, golden: Golden) -> Golden:
        """Go on from an earlier run: its golden run stands."""
        assert self.past is not None
        self.watcher.stage(f"going on with an earlier run: {self.past.left} verdicts are in its journal")
        learn = getattr(self.oracle, "learn", None)
        if learn is not None:
            learn(golden)
        return golden

    def _head(self, model: Model, index: GraphIndex, golden: Golden, recorded: Recording) -> None:
        """The first lines of the journal, or a look at whether those of an earlier run hold here too."""
        from onnxreduce import __version__

        facts = {**self.about, VALUES: digest_of(recorded)}
        if self.past is None:
            names = {"model": model.name, "nodes": len(index), "oracle": self.oracle.name}
            targets = ran_with(self.oracle)
            self._journal.header({"onnxreduce": __version__, **names, "about": facts, "targets": targets})
        elif told := difference(self.past.header["about"], facts):
            raise BadInputError(f"the journal in {self.folder} is of another run ({told}); --force starts over")
        self._journal.golden(whole(model, self.subject.feeds), golden)

    def _golden(self, model: Model, recorded: Callable[[], Mapping[str, StoredTensor]]) -> Golden:
        self.watcher.stage(f"golden run: {len(model.proto.graph.node)} nodes under both targets")
        candidate = whole(model, self.subject.feeds)
        golden = self.oracle.golden(candidate, recorded)
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
            if self.past is None:
                emit.discard(self.folder)
            self._journal.keep_in(self.folder / JOURNAL)
        problem = Problem(index, recorded, self.oracle, golden, self._journal, self.budget, self._told)
        passes = [one.name for one in self.shrinks.passes]
        self._leave = leave = Leaving(
            self.subject, self.oracle, golden, recorded, problem, passes, self.folder, self.watcher
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

    def _told(self, problem: Problem | Shrinking) -> None:
        self._leave.keep()
        if isinstance(problem, Problem):
            self.watcher.progress(problem)
        else:
            self.watcher.shrinking(problem)

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
            progress=self._told,
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
