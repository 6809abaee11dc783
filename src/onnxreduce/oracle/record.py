"""Verdicts as JSON, for the journal, and back: enough to go on with as if the oracle had just answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from onnxreduce.oracle.comparison import Difference
from onnxreduce.oracle.signature import Kind, Signature
from onnxreduce.oracle.verdict import Golden, Outcome, Verdict

WHOLE = 64
"""Of so many differences all is kept; of more, only the names of those outputs that agree."""
_USUAL = {each.name: each.default for each in dataclasses.fields(Difference)}
_TUPLES = ("shape", "first", "first_nan")


def recorded(verdict: Verdict) -> dict[str, Any]:
    """A verdict in JSON types: what `Verdict.summary` tells people, and the rest."""
    found = {**verdict.summary(), "seconds": verdict.seconds}
    if verdict.message:
        found["message"] = verdict.message
    if verdict.differences:
        few = len(verdict.differences) <= WHOLE
        found["differences"] = [_short(each, whole=few) for each in verdict.differences]
    return found


def restored(line: Mapping[str, Any]) -> Verdict:
    """The verdict that `recorded` gave. Raises KeyError, TypeError or ValueError for what it did not give."""
    signature = Signature.parse(line["signature"]) if "signature" in line else None
    differences = [_difference(each) for each in line.get("differences", ())]
    return Verdict(Outcome(line["outcome"]), signature, differences, line.get("message", ""), float(line["seconds"]))


def recorded_golden(golden: Golden) -> dict[str, Any]:
    """What the original gave, in JSON types."""
    return {**recorded(golden.verdict), "noise": golden.noise, "timeout": golden.timeout}


def restored_golden(line: Mapping[str, Any]) -> Golden:
    """What `recorded_golden` was given; errors as for `restored`."""
    return Golden(restored(line), float(line["noise"]), float(line["timeout"]))


def _short(difference: Difference, *, whole: bool) -> str | dict[str, Any]:
    """All that is not as usual; of an output that agrees the name alone, unless it is to be `whole`."""
    if difference.kind is None and not whole:
        return difference.output
    usual = {key: list(value) if isinstance(value, tuple) else value for key, value in _USUAL.items()}
    return {key: value for key, value in difference.to_json().items() if key not in usual or value != usual[key]}


def _difference(given: str | Mapping[str, Any]) -> Difference:
    if isinstance(given, str):
        return Difference(given, None)
    values = dict(given)
    values["kind"] = Kind(values["kind"]) if values.get("kind") else None
    for key in _TUPLES:
        if key in values:
            values[key] = tuple(values[key])
    if "samples" in values:
        values["samples"] = tuple((tuple(place), right, wrong) for place, right, wrong in values["samples"])
    for key in ("absolute", "relative", "share"):
        if key in values and values[key] is None:  # JSON lacks NaN and infinities
            values[key] = float("nan")
    return Difference(**values)
