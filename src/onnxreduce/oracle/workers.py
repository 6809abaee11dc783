"""Who judges: any number of workers with an oracle each. What they are asked can be sent to another process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from onnxreduce.errors import OnnxReduceError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.signature import Signature
from onnxreduce.oracle.verdict import Golden, Oracle, Verdict

Recorded = Callable[[], Mapping[str, StoredTensor]]


@dataclass(frozen=True)
class Task:
    """A candidate to judge; `fresh` and `alone` as for `Oracle.judge`.

    `then_fresh`: where it fails with this signature it is judged again, in a fresh instance with the reference run.
    `golden`: what the original gave, from which every worker's oracle learns.
    """

    candidate: Candidate
    fresh: bool = False
    alone: bool = False
    then_fresh: Signature | None = None
    golden: Golden | None = None


def perform(oracle: Oracle, task: Task) -> list[Verdict]:
    """One verdict, or two with the fresh one."""
    if task.golden is not None and (learn := getattr(oracle, "learn", None)) is not None:
        learn(task.golden)
    verdicts = [oracle.judge(task.candidate, fresh=task.fresh, alone=task.alone)]
    if task.then_fresh is not None and verdicts[0].shows(task.then_fresh):
        verdicts.append(oracle.judge(task.candidate, fresh=True))
    return verdicts


class Workers(Protocol):
    """Workers of equal standing; each does one thing at a time."""

    @property
    def count(self) -> int:
        """How many can work at the same time now; at least 1."""

    def submit(self, task: Task) -> Future[list[Verdict]]:
        """Have a task done. One that has not begun can be cancelled."""

    def golden(self, candidate: Candidate, recorded: Recorded | None) -> Golden:
        """See `Oracle.golden`."""

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """See `Oracle.describe`, of one of them."""

    def as_record(self) -> Mapping[str, Any]:
        """What is needed to build the oracle again."""

    @property
    def seconds_starting(self) -> float:
        """Seconds that starting runtimes took, over all workers."""

    def close(self) -> None:
        """Stop them all, whatever they do."""


class LocalWorkers:
    """Threads of this process, each with an oracle of its own, and so with a browser or processes of its own.

    `make` builds an oracle; the first is built at once, so that what is wrong with it shows at once.
    """

    def __init__(self, make: Callable[[], Oracle], count: int) -> None:
        self.count = count
        self._make = make
        self._first = make()
        self._oracles = [self._first]
        self._free = [self._first]
        self._changed = threading.Condition()
        self._making = 0
        self._closed = False
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="onnxreduce-worker")

    def submit(self, task: Task) -> Future[list[Verdict]]:
        """See `Workers.submit`."""
        return self._threads.submit(self._perform, task)

    def golden(self, candidate: Candidate, recorded: Recorded | None) -> Golden:
        """See `Workers.golden`."""
        return self._first.golden(candidate, recorded)

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """See `Workers.describe`."""
        return self._first.describe()

    def as_record(self) -> Mapping[str, Any]:
        """See `Workers.as_record`."""
        found: Mapping[str, Any] = getattr(self._first, "as_record", dict)()
        return found

    @property
    def seconds_starting(self) -> float:
        """See `Workers.seconds_starting`."""
        return sum(getattr(oracle, "seconds_starting", 0.0) for oracle in self._oracles)

    def close(self) -> None:
        """See `Workers.close`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for oracle in self._oracles:  # ends what they are running, and with it their threads
            with suppress(OnnxReduceError):
                oracle.close()
        self._threads.shutdown(wait=True)

    def _perform(self, task: Task) -> list[Verdict]:
        while True:
            oracle = self._take()
            try:
                verdicts = perform(oracle, task)
            except OnnxReduceError:
                if not self._dismissed(oracle):
                    raise
            else:
                self._give(oracle)
                return verdicts

    def _take(self) -> Oracle:
        """A free oracle, the longest used first: it is warm."""
        with self._changed:
            while not self._free and self._making + len(self._oracles) >= self.count and not self._closed:
                self._changed.wait()  # of more threads than workers one waits
            if self._closed:
                raise OnnxReduceError("the workers are closed")
            if self._free:
                return self._free.pop(self._free.index(min(self._free, key=self._oracles.index)))
            self._making += 1
        oracle: Oracle | None = None
        try:
            oracle = self._make()
        finally:
            with self._changed:
                self._making -= 1
                if oracle is not None:
                    self._oracles.append(oracle)
                self._changed.notify_all()
        if self._closed:
            oracle.close()
        return oracle

    def _give(self, oracle: Oracle) -> None:
        with self._changed:
            self._free.append(oracle)
            self._changed.notify()

    def _dismissed(self, oracle: Oracle) -> bool:
        """Go on without a worker whose runtimes do not start any more; False where it is the last."""
        with self._changed:
            if self._closed or self.count == 1:
                self._free.append(oracle)
                return False
            self.count -= 1
            self._oracles.remove(oracle)
        with suppress(OnnxReduceError):
            oracle.close()
        return True
