"""Where the outcome changes among versions, found from those that were run already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from onnxreduce.explain.explanation import Measured, Variant
from onnxreduce.explain.since import Since, since_when
from onnxreduce.explain.variants import Releases, Runner, Way
from onnxreduce.explain.variants.ways import VERSION
from onnxreduce.runtimes.target import Target

ALL = ("1.20.1", "1.22.0", "1.23.2", "1.24.3", "1.26.0", "1.27.0", "1.29.0", "1.30.0")
SUSPECT = Target.parse("ort-web@1.27.0/webgpu?bundle=webgpu")


class Planted:
    """Stands for a runner: the outcome of each version is known. Versions before 1.23 hold the older implementation."""

    def __init__(self, outcomes: Mapping[str, str]) -> None:
        self.outcomes = outcomes
        self.ran: list[str] = []

    def wind(self, seconds: float) -> None:
        pass

    def run(self, way: Way) -> Variant:
        assert way.target is not None and way.target.version == way.name
        self.ran.append(way.name)
        measured = Measured(self.outcomes.get(way.name, "fails"))
        facts = {"implementation": "JSEP" if way.name < "1.23" else "native"}
        return Variant(VERSION, way.name, str(way.target), measured, facts)


def since(
    outcomes: Mapping[str, str], run: tuple[str, ...], here: tuple[str, ...] = ALL, fetch: int = 0
) -> tuple[Since, list[str]]:
    planted = Planted(outcomes)
    variants = [planted.run(Way(VERSION, version, SUSPECT.with_version(version))) for version in run]
    planted.ran.clear()
    known = Releases(here, ALL)
    found = since_when(cast(Runner, planted), SUSPECT, "1.27.0", variants, known, fetch=fetch)
    return found, [version for version in planted.ran if version != "1.27.0"]


def test_between_two_that_differ_the_rest_is_searched() -> None:
    passing = dict.fromkeys(("1.20.1", "1.22.0", "1.23.2", "1.24.3"), "passes")
    found, ran = since(passing, ("1.20.1", "1.30.0"))
    assert found.changed == ("1.24.3", "1.26.0")
    assert set(ran) == {each.name for each in found.more} < set(ALL) - {"1.20.1", "1.30.0"}
    assert dict(found.steps)["1.24.3"] == "passes" and dict(found.steps)["1.26.0"] == "fails"
    assert [version for version, _ in found.steps] == sorted(dict(found.steps))
    assert found.note == ""


def test_the_change_next_to_the_suspect_is_meant() -> None:
    passing = dict.fromkeys(("1.20.1", "1.29.0", "1.30.0"), "passes")
    found, _ = since(passing, ("1.20.1", "1.22.0", "1.30.0"))
    assert found.changed == ("1.27.0", "1.29.0")


def test_what_is_not_here_is_told() -> None:
    passing = dict.fromkeys(("1.20.1", "1.22.0", "1.23.2"), "passes")
    here = ("1.22.0", "1.26.0", "1.27.0")
    found, ran = since(passing, ("1.22.0",), here)
    assert found.changed == ("1.22.0", "1.26.0") and ran == ["1.26.0"]
    assert found.note == (
        "between 1.22.0 and 1.26.0 lie 1.23.2, 1.24.3, not fetched; "
        "the bundle holds JSEP in 1.22.0 and native in 1.26.0"
    )
    found, _ = since(passing, ("1.22.0",), here, fetch=2)
    assert found.changed == ("1.23.2", "1.24.3") and found.note == ""


@pytest.mark.parametrize("outcome", ["not run", "unresolved"])
def test_what_says_nothing_is_skipped(outcome: str) -> None:
    found, ran = since({"1.20.1": outcome, "1.24.3": outcome, "1.22.0": "passes"}, ("1.20.1", "1.22.0"))
    assert found.changed == ("1.22.0", "1.23.2")
    assert "1.20.1" not in ran and "1.20.1" not in dict(found.steps)


def test_where_all_are_alike_nothing_is_searched() -> None:
    found, ran = since({}, ("1.20.1", "1.30.0"))
    assert (found.changed, list(found.more), ran) == (None, [], [])
    assert found.steps == [("1.20.1", "fails"), ("1.27.0", "fails"), ("1.30.0", "fails")]
