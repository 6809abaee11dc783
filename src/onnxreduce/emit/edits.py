"""The difference of two models as lines of Python that change one into the other, where few lines do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import onnx

from onnxreduce.emit.canonical import fingerprint
from onnxreduce.emit.layout import Expression, flat, render
from onnxreduce.emit.literals import strings
from onnxreduce.emit.protos import ProtoWriter
from onnxreduce.graph.tensors import Blob

MOST_LINES = 12
"""More lines than these are harder to read than another model."""


def edits(before: onnx.ModelProto, after: onnx.ModelProto, external: Mapping[str, Blob]) -> list[str] | None:
    """Statements that change `made`, which is `before`, into `after`; None where that takes many, or large tensors.

    `external` gives the content of tensors with external data, by location, for both.
    """
    writer = ProtoWriter(external)
    fields: tuple[tuple[str, Callable[[Any], Expression]], ...] = (
        ("node", writer.node),
        ("input", writer.value_info),
        ("output", writer.value_info),
        ("initializer", writer.tensor),
    )
    lines: list[str] = []
    for name, write in fields:
        old, new = getattr(before.graph, name), getattr(after.graph, name)
        marks = [[fingerprint(each, external) for each in entries] for entries in (old, new)]
        reorder = _reordered(name, marks, new)
        lines += [reorder] if reorder else _changed(f"made.graph.{name}", marks, new, write)
    if before.ir_version != after.ir_version:
        lines.append(f"made.ir_version = {after.ir_version}")
    few = sum(line.count("\n") + 1 for line in lines) <= MOST_LINES
    return lines if few and not writer.data and _rest(before, external) == _rest(after, external) else None


def _reordered(field: str, marks: Sequence[Sequence[bytes]], new: Sequence[Any]) -> str:
    """One line where the same nodes stand in another order."""
    first, second = marks
    if field != "node" or first == second or sorted(first) != sorted(second):
        return ""
    names = [next(iter(node.output), "") for node in new]
    if len(set(names)) < len(names):
        return ""
    return f"made.graph.node.sort(key=lambda node: {strings(names)}.index(node.output[0]))"


def _changed(
    field: str, marks: Sequence[Sequence[bytes]], new: Sequence[Any], write: Callable[[Any], Expression]
) -> list[str]:
    """From the back to the front, so that positions are those of the model as it was."""
    matcher = SequenceMatcher(None, marks[0], marks[1], autojunk=False)
    lines: list[str] = []
    for _, start, end, first, last in reversed([each for each in matcher.get_opcodes() if each[0] != "equal"]):
        entries = [write(entry) for entry in new[first:last]]
        both = min(end - start, len(entries))
        if end - start > both:
            lines.append(f"del {field}[{start + both}:{end}]" if end - start - both > 1 else f"del {field}[{end - 1}]")
        lines += _statements(f"{field}[{{}}].CopyFrom(", entries[:both], start)
        at_end = end == len(marks[0])
        lines += _statements(f"{field}.append(" if at_end else f"{field}.insert({{}}, ", entries[both:], start + both)
    return lines


def _statements(head: str, entries: Sequence[Expression], start: int) -> Iterator[str]:
    for at, entry in enumerate(entries, start):
        opening = head.format(at)
        text = render(entry, 4, 4 + len(opening))
        yield f"{opening}{flat(entry) if chr(10) not in text else text})"


def _rest(model: onnx.ModelProto, external: Mapping[str, Blob]) -> bytes:
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("ir_version")
    for field in ("node", "input", "output", "initializer"):
        rest.graph.ClearField(field)
    return fingerprint(rest, external)
