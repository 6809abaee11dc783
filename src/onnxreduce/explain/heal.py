"""The fewest names, given to an option of the suspect, that heal a model whose graph stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.build import BuiltOracle
from onnxreduce.oracle.verdict import Outcome


def fewest_that_heal(
    oracle: BuiltOracle,
    candidate: Candidate,
    option: str,
    names: Sequence[str],
    report: Callable[[str], None],
    what: str,
) -> list[str] | None:
    """Drop names by halving chunks while the model stays healed; None when all of them together do not heal it.

    The suspect gets `option` as a comma list. `report` is told how many are left, with `what` behind the number.
    """
    suspect = oracle.spec.suspect

    def heals(some: Sequence[str]) -> bool:
        target = replace(suspect, options={**suspect.options, option: ",".join(some)})
        with oracle.with_suspect(target) as other:
            return other.judge(candidate, fresh=True).outcome is Outcome.PASSES

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
