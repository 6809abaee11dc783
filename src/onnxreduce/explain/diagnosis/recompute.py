"""What the nodes of a candidate give for other contents of its values, under Python ONNX Runtime in a child process.

Many questions are one model: the nodes from the changed values down to the output, once for each question. A model that
does not run is asked in halves, since one nonsense index spoils all. All is bounded: see the constants.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto

from onnxreduce.explain.diagnosis.observation import Run
from onnxreduce.graph.candidate import value_info
from onnxreduce.graph.draft import rename_reads
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.walk import read_names
from onnxreduce.runtimes.base import RunRequest, Status
from onnxreduce.runtimes.python_ort import PythonOrt
from onnxreduce.runtimes.recording import RECORDER

MOST_RUNS = 200
MOST_SECONDS = 30.0
MOST_BYTES = 256 << 20
"""Of all contents asked about. These hold between two calls of `renew`; beyond any of them nothing is recomputed."""
MOST_REFUSALS = 3
"""After so many contents of one value with which the nodes do not run, no more are tried."""
BATCH_NODES = 300
BATCH_BYTES = 32 << 20
_TIMEOUT = 10.0
_MEMORY = 4096


@dataclass(frozen=True, eq=False)
class Question:
    """What `output` holds if the nodes from position `reader` on read `contents` in place of these values."""

    output: str
    contents: Mapping[str, np.ndarray]
    reader: int = 0

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the values that change."""
        return tuple(self.contents)


class Recomputer:
    """Answers questions until the limits are reached. Starts its child when it is first needed; to be closed.

    `exhausted`: a question was passed over since the limits were last renewed.
    """

    def __init__(self) -> None:
        self._runtime: PythonOrt | None = None
        self.renew()

    def renew(self) -> None:
        """Begin to count anew."""
        self.exhausted = False
        self._runs = self._bytes = 0
        self._seconds = 0.0
        self._refusals: Counter[tuple[str, ...]] = Counter()

    def answers(self, run: Run, questions: Iterable[Question]) -> Iterable[np.ndarray | None]:
        """One answer for each question, in order; None where it was not or cannot be computed."""
        batch: list[Question] = []
        nodes = held = 0
        for question in questions:
            cost = len(path(run.index, question.contents, question.reader, question.output))
            size = sum(array.nbytes for array in question.contents.values())
            if batch and (nodes + cost > BATCH_NODES or held + size > BATCH_BYTES):
                yield from self._ask(run, batch)
                batch, nodes, held = [], 0, 0
            batch.append(question)
            nodes, held = nodes + cost, held + size
        if batch:
            yield from self._ask(run, batch)

    def close(self) -> None:
        """End the child."""
        if self._runtime is not None:
            self._runtime.close()

    def _ask(self, run: Run, batch: Sequence[Question]) -> list[np.ndarray | None]:
        self._bytes += sum(array.nbytes for question in batch for array in question.contents.values())
        if self._bytes > MOST_BYTES or self._runs >= MOST_RUNS or self._seconds >= MOST_SECONDS:
            self.exhausted = True
            return [None] * len(batch)
        worth = [question for question in batch if self._refusals[question.values] < MOST_REFUSALS]
        found = iter(self._halved(run, worth))
        return [next(found) if question in worth else None for question in batch]

    def _halved(self, run: Run, batch: Sequence[Question]) -> list[np.ndarray | None]:
        if not batch:
            return []
        asked = _together(run, batch)
        if asked is None:
            return [None] * len(batch)
        if self._runtime is None:
            self._runtime = PythonOrt(RECORDER, memory=_MEMORY)
        began = time.monotonic()
        result = self._runtime.run(asked, timeout=_TIMEOUT)
        self._runs += 1
        self._seconds += time.monotonic() - began
        if result.status is Status.OK:
            return [result.outputs.get(_named(question.output, at)) for at, question in enumerate(batch)]
        if len(batch) == 1 or result.status is Status.HANG:
            self._refusals.update(question.values for question in batch)
            return [None] * len(batch)
        middle = len(batch) // 2
        return [*self._rest(run, batch[:middle]), *self._rest(run, batch[middle:])]

    def _rest(self, run: Run, part: Sequence[Question]) -> list[np.ndarray | None]:
        """Half of a batch, within the limits."""
        size = sum(array.nbytes for question in part for array in question.contents.values())
        self._bytes -= size  # they were counted
        return self._ask(run, part)


def path(index: GraphIndex, values: Iterable[str], reader: int, output: str) -> list[int]:
    """Positions of the nodes between the values and the output, of the readers from position `reader` on."""
    names = set(values)
    changed: set[str] = set()
    reached: list[int] = []
    for at in range(reader, len(index)):
        if any(name in names or name in changed for name in index.reads[at]):
            reached.append(at)
            changed.update(index.writes[at])
    upward = index.ancestors([output])
    return [at for at in reached if at in upward]


def _together(run: Run, batch: Sequence[Question]) -> RunRequest | None:
    """All questions in one model; None where they cannot be asked."""
    copies: list[NodeProto] = []
    feeds: dict[str, StoredTensor] = {}
    for at, question in enumerate(batch):
        for name, array in question.contents.items():
            feeds[_named(name, at)] = StoredTensor.from_array(array)
        copies += _copies(run.index, question, at)
    outputs = [_named(question.output, at) for at, question in enumerate(batch)]
    shared, ends = _shared(run, copies, feeds)
    known = {name for node in copies for name in node.output}
    if not known.issuperset(outputs) or any(name not in run.values for name in ends):
        return None
    proto = _frame(run, [*shared, *copies])
    for name in ends:
        if name in run.index.initializers:
            proto.graph.initializer.append(run.index.initializers[name])
        else:
            feeds[name] = StoredTensor.from_array(run.values[name])
    proto.graph.input.extend(value_info(name, tensor) for name, tensor in feeds.items())
    for output in outputs:
        proto.graph.output.add().name = output
    return RunRequest(proto.SerializeToString(), feeds, outputs, run.candidate.external)


def _copies(index: GraphIndex, question: Question, number: int) -> list[NodeProto]:
    """The nodes between the changed values and the output, under names of their own."""
    names = {name: _named(name, number) for name in question.contents}
    copies: list[NodeProto] = []
    for at in path(index, question.contents, question.reader, question.output):
        copy = NodeProto()
        copy.CopyFrom(index.nodes[at])
        copy.name = ""
        rename_reads(copy, names)
        for place, name in enumerate(copy.output):
            if name:
                names[name] = copy.output[place] = _named(name, number)
        copies.append(copy)
    return copies


def _shared(run: Run, copies: Sequence[NodeProto], fed: Iterable[str]) -> tuple[list[NodeProto], list[str]]:
    """Nodes that give what was not recorded (sequences and the like), and the values to feed, initializers included."""
    index = run.index
    produced = {name for node in copies for name in node.output}
    ends: dict[str, None] = {}
    positions: set[int] = set()
    todo = [name for node in copies for name in read_names(node) if name not in produced]
    while todo:
        name = todo.pop()
        if name in fed:
            continue
        if name in run.values or name not in index.producer:
            ends[name] = None
        elif index.producer[name] not in positions:
            positions.add(index.producer[name])
            todo.extend(index.reads[index.producer[name]])
    return [index.nodes[at] for at in sorted(positions)], list(ends)


def _frame(run: Run, nodes: Sequence[NodeProto]) -> ModelProto:
    original = run.candidate.model.proto
    proto = ModelProto(ir_version=max(original.ir_version, 4))  # before 4, initializers are graph inputs too
    proto.opset_import.extend(original.opset_import)
    proto.functions.extend(original.functions)
    proto.graph.name = "recomputed"
    proto.graph.node.extend(nodes)
    return proto


def _named(name: str, number: int) -> str:
    return f"{name}@{number}"
