"""An oracle that puts workers to use: while one judges what is asked, others judge what is likely to be asked next.

The search stays what it is with one worker: it asks one question after the other and gets the same answers, so that
the result is the same too. It only tells beforehand which questions may follow (`foresee`). What was judged ahead and
never asked is wasted, and counted. C-Vise runs its candidates so, in the order of a sequential search; Lithium and
picire cancel the rest at the first success, which makes results depend on who was faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from onnxreduce.errors import OnnxReduceError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.comparison import Tolerance
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Golden, Verdict
from onnxreduce.oracle.workers import Recorded, Task, Workers

Question = tuple[str, bool, bool]  # digest of the candidate, fresh, alone


class AheadOracle:
    """An oracle over workers. `wasted`: verdicts given ahead that nobody has asked for.

    `tolerance` as the oracle of a worker has it once it has learnt from the golden run.
    """

    def __init__(self, name: str, workers: Workers, tolerance: Tolerance | None = None) -> None:
        self.name = name
        self.tolerance = tolerance or Tolerance()
        self._workers = workers
        self._golden: Golden | None = None
        self._under_way: dict[Question, Future[list[Verdict]]] = {}
        self._given: dict[Question, Verdict] = {}
        self._lost = 0

    @property
    def ahead(self) -> int:
        """How many questions it is worth while to foresee now: one worker stays free for the next question."""
        return max(self._workers.count - 1, 0)

    @property
    def wasted(self) -> int:
        """Verdicts that were given for nothing so far, those under way included."""
        return self._lost + len(self._given) + len(self._under_way)

    @property
    def seconds_starting(self) -> float:
        """Seconds that starting runtimes took, over all workers."""
        return self._workers.seconds_starting

    def golden(self, candidate: Candidate, recorded: Recorded | None = None) -> Golden:
        """See `Oracle.golden`."""
        golden = self._workers.golden(candidate, recorded)
        self.learn(golden)
        return golden

    def learn(self, golden: Golden) -> None:
        """Take over noise floor and time limit from a golden run."""
        self._golden = golden
        self.tolerance = self.tolerance.with_noise(golden.noise)

    def foresee(self, candidates: Iterable[tuple[Candidate, bool]], signature: Signature | None) -> None:
        """These may be asked next, likeliest first, each with whether it will be asked of a fresh instance at once.

        Those that fail with the signature, if one is given, will be asked again of a fresh one.

        What was foreseen before and has not begun is dropped: it is less likely now.
        """
        for key, future in list(self._under_way.items()):
            if future.cancel():
                del self._under_way[key]
        self._collect()
        for candidate, dear in candidates:
            if len(self._under_way) >= self.ahead:
                break
            key = (candidate.digest(), dear, not dear)
            if key not in self._under_way and key not in self._given:
                task = Task(candidate, dear, not dear, None if dear else signature, self._golden)
                self._under_way[key] = self._workers.submit(task)

    def judge(self, candidate: Candidate, *, fresh: bool = False, alone: bool = False) -> Verdict:
        """See `Oracle.judge`."""
        key = (candidate.digest(), fresh, alone)
        future = self._under_way.get(key)
        if future is not None and not future.cancel():
            with suppress(OnnxReduceError, CancelledError):
                self._settle(key, future.result())
        self._under_way.pop(key, None)
        found = self._given.pop(key, None)
        if found is not None:
            return found
        return self._workers.submit(Task(candidate, fresh, alone, None, self._golden)).result()[0]

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """See `Oracle.describe`."""
        return self._workers.describe()

    def as_record(self) -> Mapping[str, Any]:
        """What is needed to build the oracle again."""
        return self._workers.as_record()

    def close(self) -> None:
        """Stop all workers."""
        self._workers.close()

    def _collect(self) -> None:
        for key, future in list(self._under_way.items()):
            if future.done():
                del self._under_way[key]
                with suppress(OnnxReduceError, CancelledError):  # it is asked again where it matters
                    self._settle(key, future.result())

    def _settle(self, key: Question, verdicts: list[Verdict]) -> None:
        """Keep the verdicts under the questions that they answer."""
        digest = key[0]
        for question, verdict in zip((key, (digest, True, False)), verdicts, strict=False):
            if question in self._given:
                self._lost += 1
            self._given[question] = verdict
