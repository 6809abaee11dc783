"""The nodes were right, but one read a buffer that another value had been written over.

Every value on the way to the output, nearest first, is replaced by every other one; what follows from it is computed
again. Where several nodes read a value, the earlier of them may have read it in time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.information import number_bits
from onnxreduce.explain.diagnosis.observation import Observation, has_bytes, widened
from onnxreduce.explain.diagnosis.overlay import BYTES, LOW_WORDS, overlaid, same_bytes, size_class, ways
from onnxreduce.explain.diagnosis.recompute import Question, Recomputer, path
from onnxreduce.explain.diagnosis.wording import expression, node_named
from onnxreduce.reduction.passes.dims import SHAPE_OPERATORS

MOST_HYPOTHESES = 2000
"""For one output."""
MOST_BYTES_OF_A_VALUE = 16 << 20
"""Larger values are not replaced."""
_MOST_LATE_READERS = 3
_MOST_COUNTED = 256
_LEAST_NORMAL = float(np.finfo(np.float32).tiny)
_NOTHING = ""
"""In place of a source: the value was all zeros, since it had not been written yet."""


@dataclass(frozen=True, eq=False)
class _Hypothesis:
    """`value` reads as `content` from the reader at position `reader` on, its first `written` bytes being others."""

    value: str
    reader: int
    source: str
    way: str
    content: np.ndarray
    written: int
    late: int

    @property
    def key(self) -> Key:
        return (self.value, self.source, self.way, str(self.late))


def overwritten(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """One claim for each hypothesis that could be computed again."""
    if seen.output not in seen.run.index.producer:
        return
    hypotheses: list[_Hypothesis] = []
    places: list[int] = []
    questions: dict[tuple[str, int, bytes], int] = {}
    asked: list[Question] = []
    for each in _hypotheses(seen, only):
        same = (each.value, each.reader, each.content.tobytes())
        if same not in questions:
            questions[same] = len(asked)
            asked.append(Question(seen.output, {each.value: each.content}, each.reader))
        hypotheses.append(each)
        places.append(questions[same])
        if len(hypotheses) == MOST_HYPOTHESES:
            break
    answers = list(recomputer.answers(seen.run, asked))
    for each, place in zip(hypotheses, places, strict=True):
        answer = answers[place]
        if answer is not None and not same_bytes(answer, seen.expected):
            what, why = _words(seen, each)
            kind = DiagnosisKind.OTHER_VALUE if _is_handed_on(seen, each) else DiagnosisKind.OVERWRITTEN_INPUT
            yield Claim(kind, each.key, answer, what, why, at_most=_content_bits(each))


def _is_handed_on(seen: Observation, each: _Hypothesis) -> bool:
    """Whether a value holds what its own producer reads: then that node did nothing, perhaps for want of an operand."""
    index = seen.run.index
    at = index.producer.get(each.value)
    whole = each.written == seen.run.values[each.value].nbytes
    return at is not None and whole and each.source in index.reads[at]


def _content_bits(each: _Hypothesis) -> float:
    """What it takes to write the new content down: a plain wrong number, such as no epsilon, explains as much."""
    if each.source == _NOTHING:
        return float("inf")
    content = each.content.ravel()[: min(_MOST_COUNTED, -(-each.written // each.content.itemsize))]
    numbers = np.unique(widened(content))
    return float(number_bits(np.where(np.abs(numbers) < _LEAST_NORMAL, 0.0, numbers)).sum())


def _hypotheses(seen: Observation, only: frozenset[Key] | None) -> Iterator[_Hypothesis]:
    """Values that share a size of buffer before the others; of each, the nearest to the output first."""
    index = seen.run.index
    later = _after(seen)
    upward = index.ancestors([seen.output])
    values = [
        value
        for value in _upstream(seen)
        if (held := seen.run.values.get(value)) is not None and _is_worth(seen, value, held)
    ]
    for same_class, value in itertools.product((True, False), values):
        held = seen.run.values[value]
        readers = [at for at in index.consumers.get(value, ()) if at in upward]
        for late, reader in enumerate(readers[:_MOST_LATE_READERS]):
            for source, way in _sources(seen, value, later, same_class):
                if only is not None and (value, source, way, str(late)) not in only:
                    continue
                if source == _NOTHING:
                    content, written = np.zeros_like(held), held.nbytes
                else:
                    content, written = overlaid(held, seen.run.values[source], way)
                if not same_bytes(content, held):
                    yield _Hypothesis(value, reader, source, way, content, written, late)


def _is_worth(seen: Observation, value: str, held: np.ndarray) -> bool:
    """Not sizes, axes and the like, which runtimes hold on the CPU: what reads them does not run with other content."""
    index = seen.run.index
    if not held.size or not has_bytes(held) or held.nbytes > MOST_BYTES_OF_A_VALUE:
        return False
    if held.dtype.kind not in "iu" or held.ndim > 1 or held.dtype.itemsize < 4:
        return True
    if value in index.initializers:
        return False
    readers = [index.nodes[at] for at in index.consumers.get(value, ())]
    return not all(value in list(node.input)[SHAPE_OPERATORS.get(node.op_type, len(node.input)) :] for node in readers)


def _upstream(seen: Observation) -> list[str]:
    """Values that the output depends on, by their number of nodes from it."""
    index = seen.run.index
    found: dict[str, None] = {}
    near = [seen.output]
    while near:
        further: list[str] = []
        for name in near:
            at = index.producer.get(name)
            for read in index.reads[at] if at is not None else ():
                if read not in found:
                    found[read] = None
                    further.append(read)
        near = further
    return list(found)


def _after(seen: Observation) -> set[str]:
    """Values computed from the output: they cannot have been there before."""
    index = seen.run.index
    at = index.producer[seen.output]
    return {name for later in _downstream(seen) for name in index.writes[later]} | set(index.writes[at])


def _downstream(seen: Observation) -> list[int]:
    """Positions of the nodes that depend on the output."""
    index = seen.run.index
    changed = {seen.output}
    reached: list[int] = []
    for at, reads in enumerate(index.reads):
        if any(name in changed for name in reads):
            reached.append(at)
            changed.update(index.writes[at])
    return reached


def _sources(seen: Observation, value: str, later: set[str], same_class: bool) -> list[tuple[str, str]]:
    """What may have been written over a value, of its size class or of others; that of its own dtype first."""
    held = seen.run.values[value]
    ranked: list[tuple[bool, str, str]] = []
    for name, source in seen.others():
        fits = same_class == (size_class(source.nbytes) == size_class(held.nbytes))
        if fits and name != value and name not in later and source.size:
            ranked += [(source.dtype != held.dtype, name, way) for way in ways(held, source)]
    found = [(name, way) for _, name, way in sorted(ranked, key=lambda each: each[0])]
    if same_class and value in seen.run.index.producer and held.size > 1:
        found.insert(0, (_NOTHING, BYTES))
    return found


def _words(seen: Observation, each: _Hypothesis) -> tuple[str, str]:
    index = seen.run.index
    held = seen.run.values[each.value]
    nodes = path(index, [each.value], each.reader, seen.output)
    reader = node_named(index, each.reader)
    if each.source == _NOTHING:
        computed = expression(index, nodes, seen.output, {each.value: "0"}, each.reader)
        return f"equals {computed}", f"as if {each.value} had still been all zeros when {reader} read it"
    kind = seen.run.values[each.source].dtype.name
    source = each.source
    if each.way == LOW_WORDS:
        source = f"the low 32 bits of {source} ({kind})"
    elif kind != held.dtype.name and each.way == BYTES:
        source = f"the bytes of {source} ({kind})"
    if _is_handed_on(seen, each):
        computed = expression(index, nodes, seen.output, {each.value: source}, each.reader)
        return f"equals {computed}", f"as if {node_named(index, index.producer[each.value])} had handed on {source}"
    part = each.written < held.nbytes
    start = f"the first {each.written} of {held.nbytes} bytes of {each.value} were" if part else f"{each.value} was"
    text = f"{each.value} begun by {source}" if part else source
    computed = expression(index, nodes, seen.output, {each.value: text}, each.reader)
    return f"equals {computed}", f"{start} overwritten by {source} before {reader} read it"
