"""Which other released versions to run: those that are here already, and the latest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from onnxreduce.errors import SetupError
from onnxreduce.explain.bisect import versions
from onnxreduce.runtimes.environments import environments
from onnxreduce.runtimes.packages import cached_versions

LIST_SECONDS = 15.0
"""A registry that has not answered by then is taken for absent."""
OTHERS = 3
"""Other versions that are run unless more are asked for."""


@dataclass(frozen=True)
class Releases:
    """Versions of a runtime, oldest first.

    `here`: those that need no fetching. `published`: all, or none where the registry does not answer, with the reason
    in `silent`.
    """

    here: Sequence[str] = ()
    published: Sequence[str] = ()
    silent: str = ""


def known_releases(runtime: str, installed: str = "") -> Releases:
    """Versions of `ort-web` or `ort`. `installed`: the version of Python's onnxruntime that is installed here."""
    here = cached_versions() if runtime == "ort-web" else [*environments(), installed]
    kept = sorted({each for each in here if is_release(each)}, key=Version)
    try:
        return Releases(kept, versions(runtime, seconds=LIST_SECONDS))
    except SetupError as error:
        return Releases(kept, silent=str(error))


def others(pinned: str, known: Releases, count: int = OTHERS, fetch: int = 0) -> list[tuple[str, str]]:
    """Versions to run beside the pinned one, oldest first, each with the reason where it is not run.

    The latest, the oldest that is here, those next to the pinned one, then the rest: `count` of them. Beside the latest
    only `fetch` versions are fetched, those next to the pinned one first.
    """
    if not is_release(pinned):
        return [("others", f"{pinned} is no released version")] if known.silent else _spread(known, count)
    here = [each for each in known.here if each != pinned]
    older = [each for each in here if Version(each) < Version(pinned)]
    newer = [each for each in here if Version(each) > Version(pinned)]
    latest = [each for each in known.published[-1:] if each != pinned]
    wanted = list(dict.fromkeys([*latest, *older[:1], *older[-1:], *newer[:1], *reversed(here)]))[:count]
    missing = [each for each in known.published if each != pinned and each not in here and each not in latest]
    missing.sort(key=lambda each: abs(known.published.index(each) - _place(known.published, pinned)))
    wanted += missing[:fetch]
    found = [(each, "") for each in wanted]
    if len(wanted) < count:
        found += [
            (each, "not fetched; --fetch N fetches some") for each in missing[fetch : fetch + count - len(wanted)]
        ]
    found.sort(key=lambda each: Version(each[0]))
    if known.silent:
        found.append(("latest", known.silent))
    return found


def between(older: str, newer: str, known: Releases, judged: Sequence[str], fetch: int) -> tuple[list[str], list[str]]:
    """Versions from one to another that can be judged, and those that lie there too but were not fetched."""
    low, high = Version(older), Version(newer)
    every = sorted({*known.here, *known.published, *judged}, key=Version)
    inside = [each for each in every if low <= Version(each) <= high]
    there = [each for each in inside if each in known.here or each in judged]
    missing = [each for each in inside if each not in there]
    return sorted([*there, *missing[:fetch]], key=Version), missing[fetch:]


def _spread(known: Releases, count: int) -> list[tuple[str, str]]:
    """For a local build: the latest releases that are here, and the latest of all."""
    wanted = list(dict.fromkeys([*known.published[-1:], *reversed(known.here)]))[:count]
    return [(each, "") for each in sorted(wanted, key=Version)]


def _place(published: Sequence[str], pinned: str) -> int:
    return sum(Version(each) < Version(pinned) for each in published)


def is_release(text: str) -> bool:
    """Whether a text is the version of a release."""
    try:
        return not Version(text).is_prerelease
    except InvalidVersion:
        return False
