"""Between which two versions the outcome changes, from the versions that were run already."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from onnxreduce.errors import OnnxReduceError
from onnxreduce.explain.bisect import Step, bisect
from onnxreduce.explain.explanation import Variant
from onnxreduce.explain.variants.releases import Releases, between, is_release
from onnxreduce.explain.variants.run import Runner
from onnxreduce.explain.variants.ways import VERSION
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.target import Target

NO_TIME = "the time for this was used up"


@dataclass(frozen=True)
class Since:
    """`steps`: versions in order, each with its outcome. `changed`: last before and first after, if it changes.

    `note`: what lies between them and was not judged.
    """

    steps: Sequence[tuple[str, str]] = ()
    changed: tuple[str, str] | None = None
    note: str = ""


def since_when(
    runner: Runner,
    suspect: Target,
    pinned: str,
    variants: Sequence[Variant],
    known: Releases,
    *,
    fetch: int = 0,
    seconds: float = 60.0,
) -> Since:
    """Bisect between the two versions run already whose outcomes differ, those next to `pinned` where several do.

    `pinned` fails. Versions that are not here are judged up to the number of `fetch`.
    """
    steps = {each.name: _step(each) for each in variants if each.group == VERSION}
    steps = {version: step for version, step in steps.items() if step.outcome is not Outcome.UNRESOLVED}
    if is_release(pinned):
        steps[pinned] = Step(pinned, Outcome.FAILS, "")
    end = time.monotonic() + seconds

    def judge(version: str) -> Step:
        if version not in steps:
            if time.monotonic() > end:
                return Step(version, Outcome.UNRESOLVED, NO_TIME)
            steps[version] = _judged(runner, suspect, version)
        return steps[version]

    changed, note = None, ""
    ends = _ends(steps, pinned)
    if ends is not None:
        there, missing = between(*ends, known, list(steps), fetch)
        found = bisect(there, judge).changed
        if found is not None:
            changed = (found[0].version, found[1].version)
            left = [each for each in missing if Version(changed[0]) < Version(each) < Version(changed[1])]
            note = f"between {changed[0]} and {changed[1]} lie {', '.join(left)}, not fetched" if left else ""
    ordered = [(version, steps[version].outcome.value) for version in sorted(steps, key=Version)]
    return Since(ordered if len(ordered) > 1 else (), changed, note)


def _step(variant: Variant) -> Step:
    known = {each.value: each for each in Outcome}
    return Step(variant.name, known.get(variant.result.outcome, Outcome.UNRESOLVED), variant.result.signature)


def _judged(runner: Runner, suspect: Target, version: str) -> Step:
    try:
        verdict = runner.judge(suspect.with_version(version))
    except OnnxReduceError as error:
        return Step(version, Outcome.UNRESOLVED, str(error))
    return Step(version, verdict.outcome, str(verdict.signature or ""))


def _ends(steps: Mapping[str, Step], pinned: str) -> tuple[str, str] | None:
    ordered = sorted(steps, key=Version)
    pairs = [pair for pair in itertools.pairwise(ordered) if steps[pair[0]].outcome is not steps[pair[1]].outcome]
    return min(pairs, key=lambda pair: pinned not in pair, default=None)
