"""The fewest names, given to an option of the suspect, that heal a model whose graph stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.target import Target


def fewest_that_heal(
    heals: Callable[[Sequence[str]], bool], names: Sequence[str], report: Callable[[str], None], what: str
) -> list[str] | None:
    """Drop names by halving chunks while the model stays healed; None when all of them together do not heal it.

    `report` is told how many are left, with `what` behind the number.
    """
    kept = list(names)
    if not heals(kept):
        return None
    size = len(kept)
    while size > 1:
        size = (size + 1) // 2
        at = 0
        while at < len(kept) and len(kept) > 1:
            fewer = kept[:at] + kept[at + size :]
            if fewer and heals(fewer):
                kept = fewer
            else:
                at += size
        report(f"{len(kept)} {what} still heal it")
    return kept


def named(suspect: Target, option: str, names: Sequence[str]) -> Target:
    """The suspect with names as a comma list in one of its options."""
    return replace(suspect, options={**suspect.options, option: ",".join(names)})


def healer(oracle: BuiltOracle, candidate: Candidate, option: str) -> Callable[[Sequence[str]], bool]:
    """Whether a candidate passes under the oracle's suspect with names in an option."""

    def heals(some: Sequence[str]) -> bool:
        with oracle.with_suspect(named(oracle.spec.suspect, option, some)) as other:
            return other.judge(candidate, fresh=True).outcome is Outcome.PASSES

    return heals
