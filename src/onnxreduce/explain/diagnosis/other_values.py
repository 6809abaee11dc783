"""The output holds what another value of the run holds: a buffer that was never written, or written by another node."""

from __future__ import annotations

from collections.abc import Iterator

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.observation import Observation
from onnxreduce.explain.diagnosis.overlay import BYTES, LOW_WORDS, overlaid, same_bytes, ways
from onnxreduce.explain.diagnosis.recompute import Recomputer
from onnxreduce.explain.diagnosis.wording import node_named


def other_values(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """Each other value laid over the right answer, from its beginning, as far as it reaches."""
    for name, source in seen.others():
        for way in ways(seen.expected, source):
            key = (name, way)
            if only is not None and key not in only:
                continue
            predicted, written = overlaid(seen.expected, source, way)
            if same_bytes(predicted, seen.expected):
                continue
            part = f" in its first {written} of {predicted.nbytes} bytes" if written < predicted.nbytes else ""
            what = f"holds {content_of(seen, name, way)}{part}"
            yield Claim(DiagnosisKind.OTHER_VALUE, key, predicted, what, _why(seen, name, part))


def content_of(seen: Observation, name: str, way: str) -> str:
    """Another value's content in words, with its element type where that is not the output's."""
    kind = seen.run.values[name].dtype.name
    if way == LOW_WORDS:
        return f"the low 32 bits of {name} ({kind})"
    if way == BYTES and kind != seen.expected.dtype.name:
        return f"the bytes of {name} ({kind})"
    return f"the content of {name}"


def _why(seen: Observation, name: str, part: str) -> str:
    index = seen.run.index
    at = index.producer.get(seen.output)
    if at is None or name not in index.reads[at] or part:
        return ""
    return f"as if {node_named(index, at)} had handed on what it reads"
