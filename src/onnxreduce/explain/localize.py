"""Where the difference begins: every value compared in the order of the file, and whether looking changes what is seen.

Exposing values changes fusion, placement and the life of buffers, and heals some faults completely: a clean answer
says nothing, and whether the model's own outputs became right meanwhile is told with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from onnxreduce.explain.heal import fewest_that_heal, healer
from onnxreduce.graph.candidate import cut, whole
from onnxreduce.graph.index import GraphIndex
from onnxreduce.graph.model import normalise
from onnxreduce.graph.prepare import Subject
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.graph.validity import node_text
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.verdict import Outcome, Verdict
from onnxreduce.reduction.evidence import evidence
from onnxreduce.runtimes.recording import Recording, record

CHUNK_BYTES = 256 << 20
RECORD_TIMEOUT = 900.0
FORCE_CPU = "forceCpuNodeNames"


@dataclass(frozen=True)
class WrongValue:
    """A value that differs: its node's position in the file, operator and name, and by how much."""

    node: int
    operator: str
    name: str
    difference: Difference


@dataclass(frozen=True)
class Localization:
    """What was seen.

    `wrong`: values that differ, in file order, of `compared` values in `runs` runs. `healed`: the model's own outputs
    that were wrong and became right while values were exposed. `broken`: why runs with exposed values gave no values to
    compare, if any did. `suspects`: positions of nodes that every wrong output
    depends on and no right one. `moved`: names of the fewest nodes found whose move to the CPU heals the model
    (native WebGPU provider only), or None when that was not asked or does not heal. `blamed`: the nodes that the
    error's message names, by name or by operator, in words: where a device refuses one shader, values around it are
    wrong too, and the first of them is not where it begins.
    """

    golden: Verdict
    wrong: Sequence[WrongValue]
    compared: int
    runs: int
    healed: Sequence[str]
    still_wrong: Sequence[str]
    suspects: Sequence[int]
    moved: Sequence[str] | None = None
    broken: Sequence[str] = ()
    blamed: Sequence[str] = ()


def localize(
    subject: Subject,
    oracle: BuiltOracle,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    move_to_cpu: bool = False,
    report: Callable[[str], None] = lambda text: None,
) -> Localization:
    """Compare every value of a model under the suspect with its recording, in chunks of at most `chunk_bytes`.

    Raises BadInputError as `check` does.
    """
    index = GraphIndex(normalise(subject.model), subject.feeds)
    recorded = record(index, subject.feeds, timeout=RECORD_TIMEOUT)
    try:
        report(f"recorded {len(recorded)} values; judging the model as it is")
        verdict = oracle.golden(whole(index.model, subject.feeds), lambda: recorded).verdict
        if verdict.outcome is not Outcome.FAILS:
            return Localization(verdict, (), 0, 1, (), (), ())
        wrong: list[WrongValue] = []
        compared, runs = 0, 1
        still: set[str] = set()
        broken: list[str] = []
        for values in _chunks(index, recorded, chunk_bytes):
            report(f"exposing {len(values)} values, from node {index.producer[values[0]]} on")
            outputs = list(dict.fromkeys([*index.graph_outputs, *values]))
            found = oracle.judge(cut(index, index.every_node, recorded, outputs=outputs), alone=True)
            runs += 1
            if found.outcome is not Outcome.PASSES and not found.differences:
                broken.append(" ".join(found.message.split())[:200])
                still.update(verdict.wrong_outputs)
                continue
            compared += len(values)
            still.update(name for name in found.wrong_outputs if name in index.graph_outputs)
            wrong.extend(
                WrongValue(at, index.nodes[at].op_type, index.nodes[at].name, difference)
                for difference in found.differences
                if difference.kind is not None and (at := index.producer.get(difference.output)) is not None
                if difference.output in values
            )
        healed = [name for name in verdict.wrong_outputs if name not in still]
        moved = _moved(index, subject, oracle, report) if move_to_cpu else None
        wrong.sort(key=lambda value: value.node)
        seen = evidence(index, verdict)
        blamed = [node_text(index.nodes[at], at) for at in sorted({*seen.named, *chain(*seen.alike)})]
        return Localization(verdict, wrong, compared, runs, healed, sorted(still), seen.suspects, moved, broken, blamed)
    finally:
        recorded.close()


def _chunks(index: GraphIndex, recorded: Recording, limit: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    held = 0
    for at in index.every_node:
        for value in index.writes[at]:
            tensor: StoredTensor | None = recorded.get(value)
            if tensor is None or not index.promotable(value):
                continue
            if chunk and held + tensor.blob.length > limit:
                yield chunk
                chunk, held = [], 0
            chunk.append(value)
            held += tensor.blob.length
    if chunk:
        yield chunk


def _moved(index: GraphIndex, subject: Subject, oracle: BuiltOracle, report: Callable[[str], None]) -> list[str] | None:
    names = [node.name for node in index.nodes if "," not in node.name]
    report(f"moving all {len(names)} nodes to the CPU")
    heals = healer(oracle, whole(index.model, subject.feeds), FORCE_CPU)
    return fewest_that_heal(heals, names, report, "nodes on the CPU")
