"""The frames of a tab: each holds one instance of onnxruntime-web; a bounded number live at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as PlaywrightError

from onnxreduce.errors import OnnxReduceError, SetupError
from onnxreduce.graph.anchor import anchor_model
from onnxreduce.graph.tensors import Blob
from onnxreduce.runtimes.browser.lost import TabDeadError, TabHungError

if TYPE_CHECKING:
    from onnxreduce.runtimes.browser.tab import Tab

START_SECONDS = 120.0  # importing a bundle and compiling 25 MB of WebAssembly takes 1-3 s
MODELS_PER_FRAME = 200  # WebAssembly memory never shrinks, and small leaks add up
FRAME_BYTES = 2 << 30  # of WebAssembly memory, of the 4 GiB that there can be; then a new frame
SPARE_FROM = 2  # fresh frames that a runtime was asked for before it has a spare
LIVE_FRAMES = 6  # targets that are warm at the same time; each holds 0.1-0.4 GB


@dataclass(frozen=True)
class FrameConfig:
    """What a frame is to hold; `owner` keeps the frames of different runtimes apart."""

    owner: str
    bundle: str
    provider: Mapping[str, Any]
    threads: int


@dataclass(eq=False)
class Frame:
    """One instance of onnxruntime-web. `facts` is what it said of itself, `seconds` what its start took."""

    name: str
    facts: Mapping[str, Any]
    seconds: float
    runs: int = 0
    wasm_bytes: int = 0
    spoilt: bool = field(default=False)

    @property
    def worn(self) -> bool:
        """Whether the next model deserves a new frame."""
        return self.spoilt or self.runs >= MODELS_PER_FRAME or self.wasm_bytes >= FRAME_BYTES


class Frames:
    """The live frames of one tab, the least recently used first.

    A runtime that is asked for fresh frames again and again has a spare one started while nobody waits for the page
    (`prepare`): a frame costs 0.05-0.15 s, and its caller needs as long to think of the next candidate.
    """

    def __init__(self, tab: Tab) -> None:
        self.made = 0
        self._tab = tab
        self._live: dict[str, Frame] = {}
        self._fresh: Counter[str] = Counter()
        self._spares: dict[str, asyncio.Task[Frame | None]] = {}

    async def get(self, config: FrameConfig, *, fresh: bool) -> tuple[Frame, float]:
        """The frame of a runtime, and the seconds that its start was waited for; `fresh` asks for one that is unused.

        Raises SetupError when the runtime cannot start in the browser, TabDeadError and TabHungError as `Tab.ask`.
        """
        begun = time.perf_counter()
        self._fresh[config.owner] += fresh
        await asyncio.gather(*self._spares.values())  # one thing at a time: a start would slow a run down
        frame = self._live.pop(config.owner, None)
        if frame is not None and not frame.worn and not (fresh and frame.runs):
            self._live[config.owner] = frame
            return frame, 0.0
        if frame is not None:
            await self._remove(frame)
        while len(self._live) >= LIVE_FRAMES:
            await self._remove(self._live.pop(next(iter(self._live))))
        spare = self._spares.pop(config.owner, None)
        frame = (await spare if spare else None) or await self._start(config)
        self._live[config.owner] = frame
        return frame, time.perf_counter() - begun

    def prepare(self, config: FrameConfig) -> None:
        """Start a spare frame for a runtime that has asked for fresh ones before; nobody waits for it."""
        if self._fresh[config.owner] >= SPARE_FROM and config.owner not in self._spares:
            self._spares[config.owner] = asyncio.ensure_future(self._start_quietly(config))

    async def drop(self, owner: str) -> None:
        """Take a runtime's frame away, if it has one."""
        spare = self._spares.pop(owner, None)
        for frame in (self._live.pop(owner, None), await spare if spare else None):
            if frame is not None:
                await self._remove(frame)

    async def _start_quietly(self, config: FrameConfig) -> Frame | None:
        """A frame, or None where that fails: who needs one tries again, and is told why not."""
        try:
            return await self._start(config)
        except (OnnxReduceError, TabDeadError, TabHungError):
            return None

    async def _remove(self, frame: Frame) -> None:
        await self._tab.ask("dropFrame", frame.name, timeout=START_SECONDS)

    async def _start(self, config: FrameConfig) -> Frame:
        self.made += 1
        name = str(self.made)
        anchor = Blob.from_bytes(anchor_model().SerializeToString())
        given = {
            "frame": name,
            "bundle": config.bundle,
            "provider": dict(config.provider),
            "threads": config.threads,
            "anchor": anchor.digest,
        }
        with self._tab.server.lend([anchor]):
            try:
                facts = await self._tab.ask("startFrame", given, timeout=START_SECONDS)
            except PlaywrightError as error:
                facts = {"error": error.message}
        if "error" in facts:
            file, provider = config.bundle.rpartition("/")[2], config.provider["name"]
            raise SetupError(f"{file} does not start with provider {provider}: {one_line(facts['error'])}")
        return Frame(name, facts, facts["seconds"])


def one_line(text: str) -> str:
    """The text with all white space runs made one space, cut to a length that suits a terminal."""
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:297] + "..."
