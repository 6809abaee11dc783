"""Which ways to run a model there are, which versions are chosen, and what becomes of those that cannot be run."""

from __future__ import annotations

from dataclasses import replace

import faults
import pytest
from explain_cases import Make

from onnxreduce.explain.variants import Releases, Runner, Way, ways
from onnxreduce.explain.variants.releases import between, others
from onnxreduce.explain.variants.run import NO_TIME
from onnxreduce.runtimes.base import request
from onnxreduce.runtimes.target import Target

WEB = ("1.20.1", "1.22.0", "1.24.3", "1.26.0", "1.27.0", "1.29.0", "1.30.0")
JSEP = {"wasm": "ort-wasm-simd-threaded.jsep.wasm"}
NATIVE = {"wasm": "ort-wasm-simd-threaded.asyncify.wasm"}


@pytest.mark.parametrize(
    ("here", "count", "fetch", "chosen"),
    [
        (WEB, 3, 0, ["1.20.1", "1.26.0", "1.30.0"]),
        (WEB, 4, 0, ["1.20.1", "1.26.0", "1.29.0", "1.30.0"]),
        (WEB, 9, 0, [each for each in WEB if each != "1.27.0"]),
        (["1.27.0"], 1, 0, ["1.30.0"]),
        (["1.27.0"], 3, 2, ["1.26.0", "1.29.0", "1.30.0"]),
        (WEB, 0, 0, []),
    ],
)
def test_the_latest_and_what_is_here_is_run(here: list[str], count: int, fetch: int, chosen: list[str]) -> None:
    assert others("1.27.0", Releases(here, WEB), count, fetch) == [(version, "") for version in chosen]


def test_what_would_have_to_be_fetched_is_told_and_not_run() -> None:
    reason = "not fetched; --fetch N fetches some"
    found = others("1.27.0", Releases(["1.27.0"], WEB), 3)
    assert found == [("1.26.0", reason), ("1.29.0", reason), ("1.30.0", "")]


def test_without_a_registry_what_is_here_is_run_and_the_reason_told() -> None:
    found = others("1.27.0", Releases(["1.22.0", "1.27.0"], silent="npm does not answer"))
    assert found == [("1.22.0", ""), ("latest", "npm does not answer")]


def test_a_local_build_is_held_against_the_latest_releases() -> None:
    assert others("/builds/mine", Releases(WEB[:-1], WEB), 2) == [("1.29.0", ""), ("1.30.0", "")]


def test_between_two_versions_lies_what_is_here_and_what_may_be_fetched() -> None:
    known = Releases(["1.22.0", "1.26.0", "1.30.0"], WEB)
    assert between("1.22.0", "1.30.0", known, [], 0) == (["1.22.0", "1.26.0", "1.30.0"], ["1.24.3", "1.27.0", "1.29.0"])
    there, missing = between("1.22.0", "1.30.0", known, ["1.29.0"], 1)
    assert (there, missing) == (["1.22.0", "1.24.3", "1.26.0", "1.29.0", "1.30.0"], ["1.27.0"])


def planned(target: str, facts: dict[str, str]) -> dict[str, list[Way]]:
    groups: dict[str, list[Way]] = {}
    for way in ways(Target.parse(target), facts, [("1.22.0", ""), ("1.26.0", "why not")], "1.30.0"):
        groups.setdefault(way.group, []).append(way)
    return groups


def targets(found: list[Way]) -> list[str]:
    return [str(way.target) for way in found]


def test_ways_to_run_a_model_under_the_javascript_kernels() -> None:
    found = planned("ort-web@1.27.0/webgpu?level=basic", JSEP)
    levels = ("disabled", "basic", "extended", "layout", "all")
    assert targets(found["optimization level"]) == [f"ort-web@1.27.0/webgpu?level={level}" for level in levels]
    assert [(way.name, str(way.target)) for way in found["bundle"]] == [
        ("default", "ort-web@1.27.0/webgpu?level=basic&bundle=default"),
        ("webgpu", "ort-web@1.27.0/webgpu?level=basic&bundle=webgpu"),
        ("jspi", "ort-web@1.27.0/webgpu?level=basic&bundle=jspi"),
        ("wasm, provider wasm", "ort-web@1.27.0/wasm?level=basic&bundle=wasm"),
    ]
    assert [(way.name, way.reason) for way in found["version"]] == [("1.22.0", ""), ("1.26.0", "why not")]
    assert [way.name for way in found["provider option"]] == [
        "preferredLayout NCHW",
        "preferredLayout NHWC",
        "graph capture, second run",
    ]
    assert targets(found["run of the session"]) == ["ort-web@1.27.0/webgpu?level=basic&runs=2"]
    assert targets(found["other runtime"]) == ["ort/cpu?level=disabled", "ort/cpu?level=all", "onnx-reference"]


def test_options_of_the_native_provider_stay_with_it() -> None:
    found = planned("ort-web@1.30.0/webgpu?bundle=webgpu&validationMode=full", NATIVE)
    assert [way.name for way in found["provider option"]][2:6] == [
        f"storageBufferCacheMode {mode}" for mode in ("disabled", "lazyRelease", "simple", "bucket")
    ]
    assert all("validationMode=full" in target for target in targets(found["optimization level"]))
    assert not any("validationMode" in target for target in targets(found["bundle"]))


def test_ways_to_run_a_model_under_python() -> None:
    facts = {"provider": "CPUExecutionProvider", "providers": "CPUExecutionProvider XnnpackExecutionProvider"}
    found = planned("ort/cpu", facts)
    assert targets(found["version"]) == ["ort@1.22.0/cpu", "None"]
    assert targets(found["threads"]) == ["ort/cpu?threads=1"]
    assert targets(found["provider"]) == ["ort/XnnpackExecutionProvider"]
    assert targets(found["other runtime"]) == ["onnx-reference", "ort-web@1.30.0/wasm", "ort-web@1.30.0/webgpu"]
    assert "bundle" not in found
    assert set(planned("onnx-reference", {})) == {"other runtime"}


@pytest.fixture
def runner(make: Make) -> Runner:
    oracle = make(faults.SUSPECT, faults.REFERENCE)
    candidate = faults.candidate(faults.normalisation())
    oracle.golden(candidate)
    right = oracle.reference.run(request(candidate), timeout=60)
    from onnxreduce.graph.tensors import StoredTensor

    expected = {name: StoredTensor.from_array(array) for name, array in right.outputs.items()}
    return Runner(oracle, replace(candidate, expected=expected), 1, 60)


def test_each_way_is_judged_against_the_same_result(runner: Runner) -> None:
    for level, outcome in (("basic", "passes"), ("extended", "fails")):
        variant = runner.run(Way("optimization level", level, Target.parse(f"ort/cpu?level={level}")))
        assert (variant.result.outcome, variant.target) == (outcome, f"ort/cpu?level={level}")
        assert variant.facts["provider"] == "CPUExecutionProvider"
    runner.run(Way("again", "basic", Target.parse("ort/cpu?level=basic")))
    assert runner.calls == 2, "the same target is not run twice"


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (Way("version", "9.9.9", reason="not fetched"), "not fetched"),
        (Way("provider", "x", Target.parse("ort/NoSuchProvider")), "has no NoSuchProvider"),
        (Way("version", "bad", Target.parse("ort@no-version/cpu")), "is not a version of onnxruntime"),
    ],
)
def test_what_cannot_be_run_is_marked_with_the_reason(runner: Runner, way: Way, said: str) -> None:
    variant = runner.run(way)
    assert variant.result.outcome == "not run"
    assert said in variant.result.message
    assert runner.calls == 0


def test_after_its_time_nothing_is_run(runner: Runner) -> None:
    late = replace(runner, seconds=-1.0)
    variant = late.run(Way("optimization level", "basic", Target.parse("ort/cpu?level=basic")))
    assert (variant.result.outcome, variant.result.message) == ("not run", NO_TIME)
