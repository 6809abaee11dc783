"""Between which two versions the outcome changes, from the versions that were run already."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from onnxreduce.explain.bisect import Step, bisect
from onnxreduce.explain.explanation import Measured, Variant
from onnxreduce.explain.variants.releases import Releases, between, is_release
from onnxreduce.explain.variants.run import Runner
from onnxreduce.explain.variants.ways import VERSION, Way
from onnxreduce.oracle.verdict import Outcome
from onnxreduce.runtimes.target import Target

IMPLEMENTATION = "implementation"


@dataclass(frozen=True)
class Since:
    """`steps`: versions in order, each with its outcome. `changed`: last before and first after, if it changes.

    `more`: versions that were run for this. `note`: what lies between the two and was not judged, and whether they hold
    other implementations.
    """

    steps: Sequence[tuple[str, str]] = ()
    changed: tuple[str, str] | None = None
    more: Sequence[Variant] = ()
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
    runner.wind(seconds)
    judged = {each.name: each for each in variants if each.group == VERSION and _resolved(each)}
    if is_release(pinned):
        judged[pinned] = runner.run(Way(VERSION, pinned, suspect))
    ran = len(judged)

    def judge(version: str) -> Step:
        if version not in judged:
            judged[version] = runner.run(Way(VERSION, version, suspect.with_version(version)))
        return Step(version, _outcome(judged[version].result), judged[version].result.signature)

    changed, note = None, ""
    ends = _ends({version: _outcome(each.result) for version, each in judged.items()}, pinned)
    if ends is not None:
        there, missing = between(*ends, known, list(judged), fetch)
        found = bisect(there, judge).changed
        if found is not None:
            changed = (found[0].version, found[1].version)
            note = _note(judged[changed[0]], judged[changed[1]], missing)
    more = list(judged.values())[ran:]
    resolved = [version for version in sorted(judged, key=Version) if _resolved(judged[version])]
    steps = [(version, judged[version].result.outcome) for version in resolved]
    return Since(steps if len(steps) > 1 else (), changed, more, note)


def _note(older: Variant, newer: Variant, missing: Sequence[str]) -> str:
    left = [each for each in missing if Version(older.name) < Version(each) < Version(newer.name)]
    notes = [f"between {older.name} and {newer.name} lie {', '.join(left)}, not fetched"] if left else []
    first, second = older.facts.get(IMPLEMENTATION), newer.facts.get(IMPLEMENTATION)
    if first != second:
        notes.append(f"the bundle holds {first} in {older.name} and {second} in {newer.name}")
    return "; ".join(notes)


def _outcome(measured: Measured) -> Outcome:
    return Outcome(measured.outcome) if measured.outcome != "not run" else Outcome.UNRESOLVED


def _resolved(variant: Variant) -> bool:
    return _outcome(variant.result) is not Outcome.UNRESOLVED


def _ends(outcomes: Mapping[str, Outcome], pinned: str) -> tuple[str, str] | None:
    ordered = sorted(outcomes, key=Version)
    pairs = [pair for pair in itertools.pairwise(ordered) if outcomes[pair[0]] is not outcomes[pair[1]]]
    return min(pairs, key=lambda pair: pinned not in pair, default=None)
