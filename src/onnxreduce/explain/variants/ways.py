"""The ways to run a model that say something about a fault, given the target that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnxreduce.runtimes.target import Target

LEVELS = ("disabled", "basic", "extended", "layout", "all")
CACHE_MODES = ("disabled", "lazyRelease", "simple", "bucket")
"""Of the native WebGPU provider: how it reuses storage buffers."""
LEVEL, BUNDLE, VERSION, THREADS, OPTION, RUN, OTHER = (
    "optimization level", "bundle", "version", "threads", "provider option", "run of the session", "other runtime",
)  # fmt: skip
MANY_THREADS = "4"
_SESSION = ("level", "disabled_optimizers", "threads", "runs", "adapter", "bundle")
"""Options of a target of ort-web that do not go to its provider."""


@dataclass(frozen=True)
class Way:
    """One way. `target`: None where it cannot be run, for the `reason` given.

    `refusal`: words with which the runtime says that it cannot do this, which is no failure then.
    """

    group: str
    name: str
    target: Target | None = None
    reason: str = ""
    refusal: str = ""


def ways(
    suspect: Target, facts: Mapping[str, str], versions: Sequence[tuple[str, str]], ort_web: str | None
) -> Iterator[Way]:
    """All ways for a suspect. `facts`: what it says of itself. `versions`: others to run, with a reason where not.

    `ort_web`: the version of onnxruntime-web to run for a suspect that is none.
    """
    web = suspect.runtime == "ort-web"
    if suspect.runtime in ("ort-web", "ort"):
        for level in LEVELS:
            yield Way(LEVEL, level, _with(suspect, level=level))
        if web:
            yield from _bundles(suspect)
        for version, reason in versions:
            yield Way(VERSION, version, None if reason else suspect.with_version(version), reason)
        count = "1" if suspect.options.get("threads", "1" if web else "0") != "1" else MANY_THREADS
        yield Way(THREADS, count, _with(suspect, threads=count))
        if web:
            yield from _provider_options(suspect, facts)
        else:
            yield from _providers(suspect, facts)
        yield Way(RUN, "second", _with(suspect, runs="2"))
    for level in () if suspect.runtime == "ort" and suspect.version is None else ("disabled", "all"):
        name = f"Python onnxruntime, cpu, level {level}"
        yield Way(OTHER, name, Target("ort", None, "cpu", {"level": level}))
    if suspect.runtime != "onnx-reference":
        yield Way(OTHER, "onnx.reference", Target("onnx-reference"))
    if not web:
        yield from _browser(ort_web)


def _bundles(suspect: Target) -> Iterator[Way]:
    """The provider in each bundle, and the other provider that the same package has."""
    options = {key: value for key, value in suspect.options.items() if key in _SESSION and key != "bundle"}
    provider = suspect.provider or "wasm"
    for bundle in ("default", "webgpu", "jspi", "wasm"):
        if bundle != "wasm" or provider == "wasm":
            yield Way(BUNDLE, bundle, replace(suspect, options={**options, "bundle": bundle}))
    if provider == "wasm":
        for bundle in ("default", "webgpu"):
            target = replace(suspect, provider="webgpu", options={**options, "bundle": bundle})
            yield Way(BUNDLE, f"{bundle}, provider webgpu", target)
    else:
        yield Way(
            BUNDLE, "wasm, provider wasm", replace(suspect, provider="wasm", options={**options, "bundle": "wasm"})
        )


def _provider_options(suspect: Target, facts: Mapping[str, str]) -> Iterator[Way]:
    if suspect.provider != "webgpu":
        return
    for layout in ("NCHW", "NHWC"):
        yield Way(OPTION, f"preferredLayout {layout}", _with(suspect, preferredLayout=layout))
    if "jsep" not in facts.get("wasm", ""):
        for mode in CACHE_MODES:
            yield Way(OPTION, f"storageBufferCacheMode {mode}", _with(suspect, storageBufferCacheMode=mode))
    capture = _with(suspect, enableGraphCapture="1", runs="2")
    yield Way(OPTION, "graph capture, second run", capture, refusal="graph capture")


def _providers(suspect: Target, facts: Mapping[str, str]) -> Iterator[Way]:
    """Other providers of the same package. Azure's runs models elsewhere."""
    for name in facts.get("providers", "").split():
        if name not in (facts.get("provider"), "AzureExecutionProvider"):
            options = {key: value for key, value in suspect.options.items() if key in ("level", "disabled_optimizers")}
            yield Way("provider", name, replace(suspect, provider=name, options=options))


def _browser(version: str | None) -> Iterator[Way]:
    for provider in ("wasm", "webgpu"):
        name = f"onnxruntime-web, {provider}"
        if version is None:
            yield Way(OTHER, name, reason="no version of onnxruntime-web is in the cache")
        else:
            yield Way(OTHER, name, Target("ort-web", version, provider))


def knows(bundle: Path, option: str) -> bool:
    """Whether a bundle's JavaScript speaks of a provider option: what it does not know it drops without a word."""
    return option in bundle.read_text("utf-8", "replace")


def _with(target: Target, **options: str) -> Target:
    return replace(target, options={**target.options, **options})
