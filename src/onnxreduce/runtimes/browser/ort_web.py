"""onnxruntime-web as a `Runtime`: one target (package, bundle, provider, options) in a frame of the host's page."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.async_api import Error as PlaywrightError

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.graph.tensors import Blob
from onnxreduce.runtimes.base import REPEAT_SECONDS, RunRequest, RunResult, Status
from onnxreduce.runtimes.browser.adapter import adapter_name, is_software
from onnxreduce.runtimes.browser.frames import Frame, FrameConfig
from onnxreduce.runtimes.browser.host import ADAPTER_MODES, BrowserHost
from onnxreduce.runtimes.browser.lost import TabDeadError, TabHungError
from onnxreduce.runtimes.browser.result import message_of, outputs_of, status_of, unpack, web_type
from onnxreduce.runtimes.browser.tab import Tab
from onnxreduce.runtimes.memory import says_no_memory
from onnxreduce.runtimes.packages import RuntimePackage
from onnxreduce.runtimes.target import Target

# Bundle by the word in a target. A local build may lack the bundle of a kind but have the plain module, which fetches
# the same WebAssembly glue from a file of its own.
BUNDLES = {
    "default": ("ort.bundle.min.mjs", "ort.min.mjs", "ort.mjs"),
    "all": ("ort.all.bundle.min.mjs", "ort.all.min.mjs", "ort.all.mjs"),
    "webgpu": ("ort.webgpu.bundle.min.mjs", "ort.webgpu.min.mjs", "ort.webgpu.mjs"),
    "jspi": ("ort.jspi.bundle.min.mjs", "ort.jspi.min.mjs", "ort.jspi.mjs"),
    "wasm": ("ort.wasm.bundle.min.mjs", "ort.wasm.min.mjs", "ort.wasm.mjs"),
}
# Of the provider itself, from onnxruntime-common's inference-session.ts and webgpu_provider_options.h. ONNX Runtime
# ignores what it does not know, so that a misspelt option would go unnoticed.
PROVIDER_OPTIONS = frozenset(
    {
        "preferredLayout", "forceCpuNodeNames", "validationMode", "storageBufferCacheMode", "uniformBufferCacheMode",
        "queryResolveBufferCacheMode", "defaultBufferCacheMode", "enableInt64",
        "enablePIXCapture", "preserveDevice", "powerPreference", "forceFallbackAdapter", "deviceType", "deviceId",
        "maxStorageBufferBindingSize", "multiRotaryCacheConcatOffset", "dawnBackendType",
    }
)  # fmt: skip
SWITCH = ("0", "1")
LEVELS = ("disabled", "basic", "extended", "layout", "all")
OWN_OPTIONS = ("bundle", "level", "disabled_optimizers", "enableGraphCapture", "threads", "runs", "adapter")
PROVIDERS = ("wasm", "webgpu", "webnn", "webgl")

_AT_ONCE = 0.5
_ATTEMPTS = 3  # a frame that other models spoilt is replaced; the third is new in every case
_SMALL = 16 << 10  # bytes up to which a blob or result travels with the call; a request of its own takes 2-4 ms
_LARGE = 32 << 20  # bytes of tensors beyond which they are fetched before the clock starts
_FETCH_RATE = 20e6  # bytes a second that a transfer to the page reaches at the very least

_numbers = itertools.count(1)


class OrtWebRuntime:
    """Runs models in onnxruntime-web under one target. Not thread-safe.

    `seconds_start` adds up the seconds spent on starting instances of the runtime (import, WebAssembly, device).
    Raises BadInputError for options that cannot be, SetupError when the package lacks the bundle.
    """

    def __init__(self, host: BrowserHost, target: Target, package: RuntimePackage) -> None:
        self.target = target
        self.seconds_start = 0.0
        self._host = host
        self._package = package
        self._owner = f"runtime {next(_numbers)}"
        options = dict(target.options)
        self._provider = _choice("provider", target.provider or "wasm", PROVIDERS)
        self._bundle = _bundle(package, options.pop("bundle", "default"))
        self._mode = _choice("adapter", options.pop("adapter", host.adapter_mode), ADAPTER_MODES)
        self._threads = _count("threads", options.pop("threads", "1"))
        self._runs = _count("runs", options.pop("runs", "1"))
        self._session = _session_options(options)
        self._provider_options = _provider_options(self._provider, options)
        self._closed = False

    def run(self, request: RunRequest, *, timeout: float, fresh: bool = False) -> RunResult:
        """Run a model once; see `Runtime.run`. The clock stops the run alone, not the start of a browser or frame."""
        return self._host.call(self._run(request, timeout, fresh))

    def describe(self) -> Mapping[str, str]:
        """Facts for the record; starts the runtime when it has not run yet. Raises SetupError as `run` does."""
        return self._host.call(self._describe())

    def close(self) -> None:
        """Drop this target's frame; the host stays for others."""
        if not self._closed:
            self._closed = True
            self._host.forget(self._owner)

    async def _run(self, request: RunRequest, timeout: float, fresh: bool) -> RunResult:
        for tensor_name, tensor in request.feeds.items():
            if web_type(tensor.elem_type) is None:
                text = f"onnxruntime-web has no tensors of type {tensor.dtype_name} (input {tensor_name})"
                return RunResult(Status.RUN_ERROR, message=text)
        for attempt in range(1, _ATTEMPTS + 1):
            result = await self._attempt(request, timeout, fresh=fresh or attempt > 1, last=attempt == _ATTEMPTS)
            if result is not None:
                return result
        raise AssertionError("the last attempt answers")

    async def _attempt(self, request: RunRequest, timeout: float, *, fresh: bool, last: bool) -> RunResult | None:
        """One run; None where what ran before in the same frame or browser may be to blame (unless it is the last)."""
        async with self._host.tab(self._mode, webgpu=self._provider == "webgpu") as tab:
            try:
                frame = await self._frame(tab, fresh=fresh)
            except SetupError:
                if last or (tab.alive and tab.frames.made <= 1):
                    raise
                await self._host.retire(tab)  # it did this before; its GPU process may have died since
                return None
            used = frame.runs > 0
            begun = time.monotonic()
            try:
                header, buffers = await self._ask(tab, frame, request, timeout)
            except TabHungError as error:
                return RunResult(Status.HANG, message=str(error), seconds_run=timeout)
            except TabDeadError as error:
                if used and not last and time.monotonic() - begun < _AT_ONCE:
                    return None  # it may have been dead before it was asked
                status = Status.OUT_OF_MEMORY if says_no_memory(str(error)) else Status.DEAD
                return RunResult(status, message=str(error))
            status = status_of(header)
            frame.runs += 1
            frame.wasm_bytes = header["wasmBytes"]
            frame.spoilt = status is not Status.OK or bool(header["late"]) or "dirty" in header
            if status is Status.LOST_DEVICE:
                await self._host.retire(tab)
            else:
                tab.frames.prepare(self._config(tab))
        # `late` are device errors that came after the run before was reported; a trap is a broken instance.
        broken = header.get("trap") or status is Status.OUT_OF_MEMORY  # memory that has grown never shrinks
        if not last and (header["late"] or (used and broken)):
            return None
        if "unsupported graph optimization level" in header["message"]:
            level = self._session["graphOptimizationLevel"]
            raise SetupError(f"{self._package.source} has no graph optimization level {level!r}")
        seconds = header["secondsCreate"], header["secondsRun"], header["secondsRepeated"]
        return RunResult(status, outputs_of(header, buffers), message_of(header), *seconds)

    async def _ask(
        self, tab: Tab, frame: Frame, request: RunRequest, timeout: float
    ) -> tuple[dict[str, Any], memoryview]:
        model = Blob.from_bytes(request.model)
        tensors = [*(tensor.blob for tensor in request.feeds.values()), *request.external.values()]
        job = {
            "id": str(next(_numbers)),
            "frame": frame.name,
            "model": model.digest,
            "feeds": [
                {"name": name, "type": web_type(t.elem_type), "dims": list(t.shape), "digest": t.blob.digest}
                for name, t in request.feeds.items()
            ],
            "outputs": list(request.outputs),
            "external": [{"path": path, "digest": blob.digest} for path, blob in request.external.items()],
            "small": {
                blob.digest: base64.b64encode(blob.view()).decode()
                for blob in (model, *tensors)
                if blob.length <= _SMALL
            },
            "smallBytes": _SMALL,
            "options": self._session,
            "runs": self._runs,
            "repeats": request.repeats,
            "repeatSeconds": REPEAT_SECONDS,
        }
        size = sum(blob.length for blob in tensors)
        with tab.server.lend([model, *tensors]), tab.server.expect(str(job["id"])) as result:
            try:
                if size > _LARGE:
                    await tab.ask("prepare", job, timeout=60 + size / _FETCH_RATE)
                small = await tab.ask("run", job, timeout=timeout)
                return unpack(result.result() if small is None else bytearray(base64.b64decode(small)))
            except PlaywrightError as error:
                # The page's own code threw, as it does when memory runs out.
                await tab.kill()
                raise TabDeadError(error.message) from error

    async def _frame(self, tab: Tab, *, fresh: bool) -> Frame:
        try:
            frame, seconds = await tab.frames.get(self._config(tab), fresh=fresh)
        except (TabHungError, TabDeadError) as error:
            raise SetupError(f"{self._bundle} does not start: {error}") from error
        self.seconds_start += seconds
        return frame

    def _config(self, tab: Tab) -> FrameConfig:
        return FrameConfig(
            self._owner,
            f"{tab.server.add_runtime(self._package)}/{self._bundle}",
            {"name": self._provider, **self._provider_options},
            self._threads,
        )

    async def _describe(self) -> Mapping[str, str]:
        webgpu = self._provider == "webgpu"
        async with self._host.tab(self._mode, webgpu=webgpu) as tab:
            frame = await self._frame(tab, fresh=False)
            facts = {
                "target": str(self.target),
                "runtime": "onnxruntime-web",
                "version": str(frame.facts["versions"].get("web", self._package.version)),
                "package": self._package.source,
                "bundle": self._bundle,
                "wasm": ", ".join(frame.facts["wasm"]),
                "provider": self._provider,
                "threads": str(self._threads),
                **self._host.tab_facts(tab),
            }
            adapter = await tab.adapter() if webgpu else None
            if adapter is not None:
                facts["adapter"] = adapter_name(adapter)
                facts["adapter_driver"] = str(adapter.get("driver", ""))
                facts["adapter_software"] = "yes" if is_software(adapter) else "no"
                facts["features"] = " ".join(adapter["features"])
            return {key: value for key, value in facts.items() if value}


def page_settings(target: Target) -> dict[str, Any]:
    """What a page needs to run a target: bundle (its word), provider, runs, options of provider and session.

    JSON types, as onnxruntime-web takes them. Raises BadInputError for options that cannot be.
    """
    options = dict(target.options)
    bundle = options.pop("bundle", "default")
    provider = target.provider or "wasm"
    for ours in ("adapter", "threads"):
        options.pop(ours, None)
    runs = _count("runs", options.pop("runs", "1"))
    session = _session_options(options)
    return {
        "runs": runs,
        "bundle": bundle,
        "provider": provider,
        "session": session,
        "provider_options": _provider_options(provider, options),
    }


def _choice(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadInputError(f"{what} {value!r} of ort-web is not one of {', '.join(allowed)}")
    return value


def _bundle(package: RuntimePackage, word: str) -> str:
    for name in BUNDLES[_choice("bundle", word, tuple(BUNDLES))]:
        if (package.dist / name).is_file():
            return name
    there = sorted(word for word, names in BUNDLES.items() if any((Path(package.dist) / n).is_file() for n in names))
    text = f"{package.source} has no bundle {word!r} ({BUNDLES[word][0]}); it has {', '.join(there) or 'none'}"
    raise SetupError(text)


def _count(what: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise BadInputError(f"{what}={text!r} of ort-web is not a number from 1 to 64")
    return int(text)


def _session_options(options: dict[str, str]) -> dict[str, Any]:
    """Takes the options that belong to the session out of `options`."""
    session: dict[str, Any] = {}
    if "level" in options:
        session["graphOptimizationLevel"] = _choice("level", options.pop("level"), LEVELS)
    if "disabled_optimizers" in options:
        # ONNX Runtime separates with semicolons; commas are easier to type in a shell.
        names = options.pop("disabled_optimizers").replace(",", ";")
        session["extra"] = {"optimization": {"disable_specified_optimizers": names}}
    if "enableGraphCapture" in options:
        session["enableGraphCapture"] = _choice("enableGraphCapture", options.pop("enableGraphCapture"), SWITCH) == "1"
    return session


def _provider_options(provider: str, options: dict[str, str]) -> dict[str, Any]:
    if options and provider not in ("webgpu", "webnn"):
        raise BadInputError(f"provider {provider} of ort-web takes no options such as {next(iter(options))!r}")
    unknown = sorted(set(options) - PROVIDER_OPTIONS)
    if unknown:
        known = ", ".join(sorted(set(OWN_OPTIONS) | PROVIDER_OPTIONS))
        raise BadInputError(f"option {unknown[0]!r} of ort-web is not known; known: {known}")
    given: dict[str, Any] = dict(options)
    if "forceCpuNodeNames" in given:
        given["forceCpuNodeNames"] = [name for name in options["forceCpuNodeNames"].split(",") if name]
    return given
