"""What a run is about, so that a journal is only gone on with by a run that asks the same of the same."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from onnxreduce.graph.candidate import whole
from onnxreduce.graph.prepare import Subject
from onnxreduce.graph.tensors import StoredTensor
from onnxreduce.oracle.verdict import Oracle

FORMAT = 1
"""Of the journal; another one is not understood."""
_MODEL, _INPUTS, VALUES = "model", "inputs", "recorded values"
_WORDS = {
    _MODEL: "its model is another one",
    _INPUTS: "its inputs are others",
    VALUES: "the reference gave other values on the machine where it ran",
}
_LONGEST = 60

Facts = Mapping[str, str]


def identity(
    subject: Subject, oracle: Oracle, passes: Collection[str], keep: Collection[str], memory: int | None
) -> dict[str, str]:
    """What can be told before anything runs. Noise floor and time limits learnt from the original do not count.

    `memory`: the limit of native runtimes in MiB.
    """
    feeds = "".join(
        f"{name} {tensor.elem_type} {tensor.shape} {tensor.blob.digest}\n"
        for name, tensor in sorted(subject.feeds.items())
    )
    record = dict(getattr(oracle, "as_record", dict)()) | {"noise": 0.0}
    facts = {
        "journal format": str(FORMAT),
        _MODEL: whole(subject.model, {}).digest(),
        _INPUTS: _digest(feeds),
        "oracle": oracle.name,
        **{f"oracle's {key}": _text(value) for key, value in record.items() if key != "description"},
        "passes": ", ".join(passes),
        "keep": ", ".join(sorted(keep)),
        "memory limit": _text(memory),
    }
    return {key: value for key, value in facts.items() if value}


def ran_with(oracle: Oracle) -> dict[str, dict[str, str]]:
    """The facts on both targets, asked of the runtimes: versions, browser, adapter."""
    return {side: dict(facts) for side, facts in oracle.describe().items()}


def digest_of(values: Mapping[str, StoredTensor]) -> str:
    """One digest of recorded values: they are the inputs of candidates, which are the same only with them."""
    return _digest("".join(f"{name} {tensor.blob.digest}\n" for name, tensor in sorted(values.items())))


def difference(before: Facts, now: Facts) -> str:
    """Why a journal is of another run, in a few words; empty where it is not."""
    for key in {**now, **before}:
        old, new = before.get(key, ""), now.get(key, "")
        if old != new:
            return _WORDS.get(key) or f"its {key} is {_short(old)}, here it is {_short(new)}"
    return ""


def difference_of_targets(before: Mapping[str, Facts], now: Mapping[str, Facts]) -> str:
    """The same of what `ran_with` has told."""
    for side in now:
        told = difference(before.get(side, {}), now[side])
        if told:
            return told.replace("its ", f"its {side}'s ", 1)
    return ""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in sorted(value.items()))
    return "" if value is None else str(value)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …") or "not set"
