"""What was computed in place of each wrong output: all hypotheses are tried, the best that holds is told."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from onnxreduce.explain.diagnosis.finding import Claim, Diagnosis, DiagnosisKind, Key
from onnxreduce.explain.diagnosis.matching import Match, match
from onnxreduce.explain.diagnosis.observation import Observation, Run, observe
from onnxreduce.explain.diagnosis.recompute import Recomputer
from onnxreduce.explain.diagnosis.table import FAMILIES
from onnxreduce.explain.diagnosis.variants import exchanged_operators, steps
from onnxreduce.graph.candidate import Candidate
from onnxreduce.oracle.comparison import Tolerance

Rerun = Callable[[Candidate], tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] | None]

LIKELY_BITS = 10.0
CERTAIN_BITS = 32.0
"""What must speak for a claim beyond the bits that it takes to name it among all that were tried."""
MOST_RERUNS = 14
FEW_ELEMENTS = 16
"""With fewer wrong elements the inputs are grown."""
_AS_GOOD = 0.9
_ALTERNATIVES = 2

Name = tuple[DiagnosisKind, Key]


@dataclass
class _Standing:
    """A hypothesis that held so far: its match on the original inputs, and the bits and contents of all inputs."""

    first: Match
    bits: float
    contents: list[bytes]


@dataclass
class _Case:
    """One wrong output. `tried`: hypotheses looked at; `confirmed`: other inputs for which all that stand hold too."""

    seen: Observation
    standing: dict[Name, _Standing] = field(default_factory=dict)
    tried: int = 0
    confirmed: int = 0

    def surplus(self, one: _Standing) -> float:
        return one.bits - math.log2(max(self.tried, 2))

    def best(self) -> list[tuple[Name, _Standing]]:
        """The hypotheses that explain it best, those to be believed first in front."""
        top = max((self.surplus(one) for one in self.standing.values()), default=0.0)
        if top < LIKELY_BITS:
            return []
        order = list(FAMILIES)
        found = [(name, one) for name, one in self.standing.items() if self.surplus(one) >= _AS_GOOD * top]
        return sorted(found, key=lambda each: order.index(each[0][0]))

    @property
    def is_settled(self) -> bool:
        """Whether more inputs would tell nothing new."""
        best = self.best()
        if not self.standing:
            return True
        return len(best) == 1 and self.confirmed >= 2 and self.surplus(best[0][1]) >= CERTAIN_BITS


def diagnose(
    candidate: Candidate,
    values: Mapping[str, np.ndarray],
    actual: Mapping[str, np.ndarray],
    wrong: Sequence[str],
    tolerance: Tolerance,
    *,
    rerun: Rerun | None = None,
    recomputer: Recomputer | None = None,
) -> list[Diagnosis]:
    """Say what each wrong output holds, at most once for each, in their order; nothing where no hypothesis holds.

    `values`: every recorded value of the candidate under the reference, graph inputs included (initializers may be
    left out); `actual`: outputs of the suspect. `rerun` runs a candidate with other inputs (and perhaps one other
    operator) and gives its values and outputs, or None where it cannot run; then a hypothesis must hold for each of
    these whose output is wrong too. Outputs of wrong shape or dtype, and strings, are passed over. A `recomputer` that
    is given serves many calls, and is left open.

    Bounds, for each output: 2,000 recomputations in 200 runs, 256 MiB of contents and 30 seconds, and as much again for
    what is left of them after each of at most 14 reruns. All else is a few passes over the output for each value of the
    model, over 2,048 elements first. Raises SetupError when Python onnxruntime does not start.
    """
    run = Run.of(candidate, values, actual)
    found = [observe(run, output, tolerance) for output in wrong]
    cases = [_Case(seen) for seen in found if seen is not None]
    with nullcontext(recomputer) if recomputer is not None else closing(Recomputer()) as computing:
        for case in cases:
            _look(case, computing)
        if rerun is not None:
            _look_again(candidate, cases, computing, rerun)
    return [told for case in cases if (told := _told(case)) is not None]


def _look(case: _Case, recomputer: Recomputer) -> None:
    recomputer.renew()
    for kind, family in FAMILIES.items():
        for claim in family(case.seen, recomputer, None):
            case.tried += 1
            held = match(claim, case.seen)
            name = (kind, claim.key)
            if held is not None and (name not in case.standing or held.bits > case.standing[name].bits):
                case.standing[name] = _Standing(_light(held), held.bits, [_digest(claim, case.seen)])


def _look_again(candidate: Candidate, cases: list[_Case], recomputer: Recomputer, rerun: Rerun) -> None:
    """Other inputs, then, where several explanations are left, other operators under those inputs."""
    left = MOST_RERUNS
    shown = candidate
    grow = any(np.count_nonzero(case.seen.wrong) < FEW_ELEMENTS for case in cases)
    for alternatives in steps(candidate, grow=grow):
        for variant in alternatives:
            if not left or all(case.is_settled for case in cases):
                return
            left -= 1
            if _shows(variant, cases, recomputer, rerun):
                shown = variant
                break
    for case in cases:
        for variant in exchanged_operators(shown, case.seen.output):
            if not left or len(case.best()) < 2:
                break
            left -= 1
            _shows(variant, [case], recomputer, rerun)


def _shows(variant: Candidate, cases: list[_Case], recomputer: Recomputer, rerun: Rerun) -> bool:
    """Run a variant and try what stands on it; whether an output was wrong."""
    answer = rerun(variant)
    if answer is None:
        return False
    run = Run.of(variant, *answer)
    shows = False
    for case in cases:
        seen = observe(run, case.seen.output, case.seen.tolerance)
        if seen is not None:
            shows = True
            _try_again(case, seen, recomputer)
    return shows


def _try_again(case: _Case, seen: Observation, recomputer: Recomputer) -> None:
    """What does not hold for these inputs too is dropped; inputs for which not all could be tried tell nothing."""
    recomputer.renew()
    kept: dict[Name, _Standing] = {}
    for kind, family in FAMILIES.items():
        keys = frozenset(key for each, key in case.standing if each is kind)
        for claim in family(seen, recomputer, keys) if keys else ():
            held = match(claim, seen) if claim.key in keys else None
            name = (kind, claim.key)
            if held is not None and name not in kept:
                old = case.standing[name]
                kept[name] = _Standing(old.first, old.bits + held.bits, [*old.contents, _digest(claim, seen)])
    if not recomputer.exhausted:
        case.standing = kept
        case.confirmed += 1


def _told(case: _Case) -> Diagnosis | None:
    best = case.best()
    if not best:
        return None
    first = best[0][1]
    held = first.first
    output, total = case.seen.output, case.seen.got.size
    precision = f" to {held.error:.0e}" if held.error else ""
    statement = f"{output} {held.claim.what}{precision} in {held.matched} of {total} elements"
    statement += f": {held.claim.why}" if held.claim.why else ""
    others = dict.fromkeys(one.first.claim.why or f"{output} {one.first.claim.what}" for _, one in best[1:])
    others.pop(held.claim.why or f"{output} {held.claim.what}", None)
    if others:
        statement += f" (or, as likely: {'; '.join(list(others)[:_ALTERNATIVES])})"
    if case.confirmed:
        statement += f"; so too for {case.confirmed} other inputs"
    certain = case.surplus(first) >= CERTAIN_BITS and not _is_divided(best)
    return Diagnosis(
        output, held.claim.kind, statement, held.matched, total, held.error, "certain" if certain else "likely"
    )


def _is_divided(best: list[tuple[Name, _Standing]]) -> bool:
    """Whether the best explanations differ in kind, or in what they foretell for some inputs."""
    return len({(name[0], tuple(one.contents)) for name, one in best}) > 1


def _digest(claim: Claim, seen: Observation) -> bytes:
    """Of what a claim foretells; where it says nothing, of what is there."""
    content = claim.predicted if claim.covered is None else np.where(claim.covered, claim.predicted, seen.got)
    return hashlib.blake2b(np.ascontiguousarray(content).tobytes(), digest_size=16).digest()


def _light(held: Match) -> Match:
    """Without arrays, since many are kept."""
    return replace(held, claim=replace(held.claim, predicted=np.empty(0), covered=None))
