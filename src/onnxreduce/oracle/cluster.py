"""The workers of a Dask cluster that runs already, on any number of machines (docs/cluster.md).

What travels to a worker is a candidate's graph, a few kilobytes. Weights and recorded values go by their digest, once
to each worker that needs them, and stay there. A task whose worker dies is done again by another.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from onnx import ModelProto

from onnxreduce.errors import OnnxReduceError, SetupError
from onnxreduce.graph.candidate import Candidate
from onnxreduce.graph.model import Model
from onnxreduce.graph.tensors import Blob, StoredTensor
from onnxreduce.oracle.build import Setup
from onnxreduce.oracle.rebuild import rebuild
from onnxreduce.oracle.verdict import Golden, Oracle, Verdict
from onnxreduce.oracle.workers import Recorded, Task, perform

CONNECT_SECONDS = 8
INLINE_BYTES = 4096
"""Smaller blobs travel with the task."""
HELD_BYTES = 4 << 30
"""Blobs are kept on workers up to this many bytes, the latest used; others travel again."""
ATTEMPTS = 3
"""How often a task is given to workers that die over it before that is an error."""
COUNT_SECONDS = 1.0
"""The scheduler is asked this often how many workers there are."""


@dataclass(frozen=True)
class Packed:
    """A candidate for another process: blobs only by digest and length."""

    model: bytes
    feeds: Mapping[str, tuple[int, tuple[int, ...], str]]
    outputs: tuple[str, ...]
    nodes: tuple[int, ...]
    external: Mapping[str, str]
    expected: Mapping[str, tuple[int, tuple[int, ...], str]] | None

    @classmethod
    def of(cls, candidate: Candidate) -> Packed:
        """Pack a candidate."""

        def named(tensors: Mapping[str, StoredTensor]) -> dict[str, tuple[int, tuple[int, ...], str]]:
            return {name: (tensor.elem_type, tensor.shape, tensor.blob.digest) for name, tensor in tensors.items()}

        return cls(
            candidate.model.proto.SerializeToString(),
            named(candidate.feeds),
            tuple(candidate.outputs),
            candidate.nodes,
            {place: blob.digest for place, blob in candidate.external.items()},
            None if candidate.expected is None else named(candidate.expected),
        )

    def candidate(self, contents: Mapping[str, bytes]) -> Candidate:
        """The candidate again, with the contents of its blobs by digest."""
        blobs = {digest: Blob(digest, len(data), data=data) for digest, data in contents.items()}

        def tensors(named: Mapping[str, tuple[int, tuple[int, ...], str]]) -> dict[str, StoredTensor]:
            return {name: StoredTensor(kind, shape, blobs[digest]) for name, (kind, shape, digest) in named.items()}

        model = Model(
            ModelProto.FromString(self.model), {place: blobs[digest] for place, digest in self.external.items()}
        )
        expected = None if self.expected is None else tensors(self.expected)
        return Candidate(model, tensors(self.feeds), self.outputs, self.nodes, expected)


class ClusterWorkers:
    """All workers that a scheduler has. `record`: the oracle (`as_record`); each worker builds its own.

    Raises SetupError when Dask is not installed, nothing answers at the address, or no worker is there.
    """

    def __init__(self, address: str, record: Mapping[str, Any], setup: Setup) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise SetupError("--cluster needs Dask: pip install 'onnxreduce[cluster]'") from error
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is told in one line
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise SetupError(f"no Dask scheduler answers at {address}: start one with `dask scheduler`") from error
        self._record = dict(record)
        self._setup = {**asdict(replace(setup, report=None)), "jobs": 1, "cluster": None}
        self._held: dict[str, tuple[Any, int]] = {}
        self._lock = threading.Lock()
        self._starting: dict[str, float] = {}
        self._counted = (0.0, 0)
        try:
            self._check_workers(address)
        except BaseException:
            self._client.close()
            raise

    @property
    def count(self) -> int:
        """See `Workers.count`."""
        now = time.monotonic()
        if now - self._counted[0] > COUNT_SECONDS:
            self._counted = (now, len(self._client.scheduler_info(n_workers=-1)["workers"]))
        return max(self._counted[1], 1)

    def submit(self, task: Task) -> Future[list[Verdict]]:
        """See `Workers.submit`."""
        rest = replace(task, candidate=None)  # type: ignore[arg-type]
        return _Answer(self, task.candidate, rest)

    def golden(self, candidate: Candidate, recorded: Recorded | None) -> Golden:
        """See `Workers.golden`; the recording is made here, while a worker runs nothing."""
        names = set(candidate.outputs)
        values = None if recorded is None else {name: value for name, value in recorded().items() if name in names}
        shown = None if values is None else Packed.of(replace(candidate, feeds=values, expected=None))
        tensors = [] if values is None else list(values.values())
        golden: Golden = self._wait(lambda: self._send(_golden, candidate, shown, extra=tensors))
        return golden

    def describe(self) -> Mapping[str, Mapping[str, str]]:
        """See `Workers.describe`."""
        found: Mapping[str, Mapping[str, str]] = self._wait(
            lambda: self._client.submit(_describe, self._record, self._setup, pure=False)
        )
        return found

    def as_record(self) -> Mapping[str, Any]:
        """See `Workers.as_record`."""
        return self._record

    @property
    def seconds_starting(self) -> float:
        """See `Workers.seconds_starting`."""
        return sum(self._starting.values())

    def close(self) -> None:
        """Forget the blobs and close the workers' oracles; the cluster stays."""
        self._held.clear()
        with suppress(Exception):  # of a cluster that went away
            self._client.run(_forget, on_error="ignore")
        self._client.close()

    def send(self, candidate: Candidate, rest: Task) -> Any:
        """Dask's future of a task."""
        return self._send(_perform, candidate, rest)

    def wait(self, future: Any, again: Any) -> list[Verdict]:
        """The verdicts of a task, which is sent `again` where its worker died."""
        verdicts, worker, starting = self._wait(again, future)
        self._starting[worker] = starting
        found: list[Verdict] = verdicts
        return found

    def _check_workers(self, address: str) -> None:
        from onnxreduce import __version__

        if not self._client.scheduler_info(n_workers=-1)["workers"]:
            raise SetupError(f"the scheduler at {address} has no workers: start some with `dask worker {address}`")
        found = self._client.run(_version, on_error="return")
        for worker, version in found.items():
            if isinstance(version, BaseException):
                raise SetupError(f"worker {worker} cannot load onnxreduce ({version}): install it there too")
            if version != __version__:
                raise SetupError(f"worker {worker} has onnxreduce {version}, here is {__version__}: install the same")

    def _send(self, work: Any, candidate: Candidate, rest: Any, extra: Any = ()) -> Any:
        blobs = [tensor.blob for tensor in (*candidate.feeds.values(), *extra)]
        blobs += [tensor.blob for tensor in (candidate.expected or {}).values()]
        blobs += list(candidate.external.values())
        contents = {blob.digest: self._content(blob) for blob in blobs}
        return self._client.submit(
            work, Packed.of(candidate), rest, contents, self._record, self._setup, pure=False, retries=0
        )

    def _content(self, blob: Blob) -> Any:
        """The bytes of a small blob; of a large one, Dask's future of bytes that lie on a worker."""
        if blob.length <= INLINE_BYTES:
            return bytes(blob.view())
        with self._lock:
            known = self._held.pop(blob.digest, None)
            if known is None or known[0].status in ("lost", "cancelled", "error"):
                known = (self._client.scatter(bytes(blob.view()), hash=False), blob.length)
            self._held[blob.digest] = known
            held = sum(length for _, length in self._held.values())
            for digest in list(self._held)[:-1]:
                if held <= HELD_BYTES:
                    break
                held -= self._held.pop(digest)[1]
            return known[0]

    def _wait(self, again: Any, future: Any = None) -> Any:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        for attempt in range(1, ATTEMPTS + 1):
            future = again() if future is None else future
            try:
                return future.result()
            except (KilledWorker, FutureCancelledError, OSError) as error:
                future = None
                self._held = {digest: kept for digest, kept in self._held.items() if kept[0].status == "finished"}
                if attempt == ATTEMPTS:
                    raise OnnxReduceError(f"{ATTEMPTS} workers of the cluster died over one task: {error}") from error
        raise AssertionError("the last attempt answers")


class _Answer(Future[list[Verdict]]):
    """The verdicts of a task on a cluster. It cannot be cancelled: nobody knows whether a worker has begun."""

    def __init__(self, workers: ClusterWorkers, candidate: Candidate, rest: Task) -> None:
        super().__init__()
        self._workers, self._candidate, self._rest = workers, candidate, rest
        self._future = workers.send(candidate, rest)

    def cancel(self) -> bool:
        """Never."""
        return False

    def done(self) -> bool:
        """Whether `result` returns at once."""
        return bool(self._future.done())

    def result(self, timeout: float | None = None) -> list[Verdict]:
        """The verdicts; `timeout` is not for this kind."""
        return self._workers.wait(self._future, lambda: self._workers.send(self._candidate, self._rest))


_LOCK = threading.Lock()
_ORACLES: dict[str, Oracle] = {}
"""Of a worker's process: the oracle of the run that it works for."""


def _oracle(record: Mapping[str, Any], setup: Mapping[str, Any]) -> Oracle:
    key = repr((sorted(record.items(), key=repr), sorted(setup.items(), key=repr)))
    if key not in _ORACLES:
        _close_oracles()
        _ORACLES[key] = rebuild(record, Setup(**setup))
    return _ORACLES[key]


def _perform(packed: Packed, task: Task, contents: Any, record: Any, setup: Any) -> tuple[list[Verdict], str, float]:
    from distributed import get_worker

    with _LOCK:  # of a worker with several threads one works
        oracle = _oracle(record, setup)
        verdicts = perform(oracle, replace(task, candidate=packed.candidate(contents)))
        return verdicts, get_worker().address, getattr(oracle, "seconds_starting", 0.0)


def _golden(packed: Packed, shown: Packed | None, contents: Any, record: Any, setup: Any) -> Golden:
    with _LOCK:
        values = None if shown is None else shown.candidate(contents).feeds
        return _oracle(record, setup).golden(packed.candidate(contents), None if values is None else lambda: values)


def _describe(record: Any, setup: Any) -> Mapping[str, Mapping[str, str]]:
    with _LOCK:
        found = _oracle(record, setup).describe()
    return {side: dict(facts) for side, facts in found.items()}


def _version() -> str:
    from onnxreduce import __version__

    return __version__


def _forget() -> None:
    with _LOCK:
        _close_oracles()


def _close_oracles() -> None:
    while _ORACLES:
        with suppress(OnnxReduceError):
            _ORACLES.popitem()[1].close()


atexit.register(_close_oracles)
