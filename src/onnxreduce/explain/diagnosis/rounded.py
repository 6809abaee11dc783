"""The right answer in a lower precision, or the producing node on inputs of a lower precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.observation import Observation, widened
from onnxreduce.explain.diagnosis.overlay import same_bytes
from onnxreduce.explain.diagnosis.recompute import Question, Recomputer
from onnxreduce.explain.diagnosis.wording import node_named

Rounding = Callable[[np.ndarray], np.ndarray]
_SLACK = 2.0**-20
"""Runtimes differ by so much before they round; then the neighbour is right too."""


def _mantissa(kept: int) -> Rounding:
    """Round a float32's 23 bits of mantissa to so many, to nearest, ties to even."""

    def rounded(numbers: np.ndarray) -> np.ndarray:
        bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
        drop = np.uint64(23 - kept)
        one = np.uint64(1)
        half = (one << (drop - one)) - one + ((bits >> drop) & one)
        whole = ((bits + half) >> drop << drop).astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(numbers), whole, numbers).astype(np.float64)

    return rounded


def _half(numbers: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return numbers.astype(np.float16).astype(np.float64)


PRECISIONS: dict[str, Rounding] = {"float16": _half, "TF32": _mantissa(10), "bfloat16": _mantissa(7)}
WHOLE: dict[str, Rounding] = {"cut to": np.trunc, "rounded to": np.rint, "rounded down to": np.floor}


def rounded(seen: Observation, recomputer: Recomputer, only: frozenset[Key] | None) -> Iterator[Claim]:
    """Of float32 and float64 outputs: rounded themselves, or computed from rounded inputs."""
    if seen.expected.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        return
    for name, rounding in PRECISIONS.items():
        yield _claim(seen, name, rounding, f"is the right answer rounded to {name}")
    for word, rounding in WHOLE.items():
        yield _claim(seen, word, rounding, f"is the right answer {word} whole numbers")
    yield from _inputs(seen, recomputer)


def _claim(seen: Observation, name: str, rounding: Rounding, what: str) -> Claim:
    """The rounded right answer, or the neighbour where the right answer lies almost in the middle of two."""
    right, got = seen.wide_expected, seen.wide_got
    predicted = rounding(right)
    for nudge in (1 - _SLACK, 1 + _SLACK):
        predicted = np.where(rounding(right * nudge) == got, got, predicted)
    return Claim(DiagnosisKind.ROUNDED, (name,), predicted.astype(seen.expected.dtype), what)


def _inputs(seen: Observation, recomputer: Recomputer) -> Iterator[Claim]:
    index = seen.run.index
    at = index.producer.get(seen.output)
    if at is None:
        return
    held = {name: seen.run.values[name] for name in index.reads[at] if name in seen.run.values}
    floats = {name: array for name, array in held.items() if array.dtype == np.float32}
    asked: list[Question] = []
    names: list[str] = []
    for name, rounding in PRECISIONS.items():
        contents = {value: rounding(widened(array)).astype(np.float32) for value, array in floats.items()}
        if any(not same_bytes(contents[value], floats[value]) for value in floats):
            names.append(name)
            asked.append(Question(seen.output, contents, at))
    for name, answer in zip(names, recomputer.answers(seen.run, asked), strict=True):
        if answer is not None:
            what = f"is what {node_named(index, at)} gives for inputs rounded to {name}"
            yield Claim(DiagnosisKind.ROUNDED, ("inputs", name), answer, what)
