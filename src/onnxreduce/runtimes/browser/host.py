"""The browser behind all onnxruntime-web runtimes of a process: one thread, one event loop, one local server.

Callers are synchronous; everything here that is `async` runs on the loop of the host's own thread.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import psutil
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes.browser.adapter import adapter_name, is_software
from onnxreduce.runtimes.browser.find import Browser, find_browser
from onnxreduce.runtimes.browser.lost import TabDeadError, TabHungError
from onnxreduce.runtimes.browser.remote import Remote
from onnxreduce.runtimes.browser.server import LocalServer
from onnxreduce.runtimes.browser.tab import CLOSE_SECONDS, Tab, says_gone

if TYPE_CHECKING:
    from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime
    from onnxreduce.runtimes.packages import RuntimePackage
    from onnxreduce.runtimes.target import Target

T = TypeVar("T")
AdapterMode = Literal["auto", "hardware", "software"]
ADAPTER_MODES = ("auto", "hardware", "software")

# Which kind of launch gave an adapter, by browser: found out once a process (0.3 s).
_KIND_FOUND: dict[str, str] = {}


class BrowserHost:
    """Starts a browser when it is first needed, and holds it for any number of runtimes.

    `browser` is a path or chrome, msedge, chromium; None looks for an installed one. `adapter` says which WebGPU
    adapter to use: `auto` takes a hardware one where there is any, `hardware` refuses software, `software` forces it.
    `remote` is a browser that runs already; its adapter can be checked, not chosen.
    """

    def __init__(
        self,
        browser: str | None = None,
        adapter: AdapterMode = "auto",
        headed: bool = False,
        remote: Remote | None = None,
    ) -> None:
        if adapter not in ADAPTER_MODES:
            raise BadInputError(f"adapter {adapter!r} is not one of {', '.join(ADAPTER_MODES)}")
        self.adapter_mode: str = adapter
        self._wanted = browser
        self._remote = remote
        self._headed = headed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock: asyncio.Lock | None = None
        self._server: LocalServer | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._tabs: dict[str, Tab] = {}
        self._closed = False
        self.seconds_start = 0.0  # spent on starting the server, Playwright and browsers

    def runtime(self, target: Target, package: RuntimePackage) -> OrtWebRuntime:
        """The runtime for a target; raises BadInputError for impossible options, SetupError for a missing bundle."""
        from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime

        return OrtWebRuntime(self, target, package)

    def adapter_facts(self, mode: str | None = None) -> Mapping[str, Any]:
        """What the adapter says of itself, `fallback` and `features` included; raises SetupError when there is none."""

        async def facts() -> Mapping[str, Any]:
            async with self.tab(mode or self.adapter_mode, webgpu=True) as tab:
                return await tab.adapter() or {}

        return self.call(facts())

    def browser_facts(self) -> Mapping[str, str]:
        """Name and version of the browser; starts it."""

        async def facts() -> Mapping[str, str]:
            async with self.tab(self.adapter_mode, webgpu=False) as tab:
                return self.tab_facts(tab)

        return self.call(facts())

    def tab_facts(self, tab: Tab) -> dict[str, str]:
        """For the record: the browser and how it runs."""
        if self._remote is not None:
            return {"browser": str(self._browser), "browser_version": tab.version}
        return {
            "browser": str(self._browser),
            "browser_version": tab.version,
            "headless": "no" if self._headed else "yes",
            "sandbox": "yes" if tab.sandboxed else "no",
        }

    @property
    def server(self) -> LocalServer:
        """The local server, once the host has started."""
        assert self._server is not None
        return self._server

    def processes(self) -> list[psutil.Process]:
        """All processes of our browsers that live now."""
        return [process for tab in self._tabs.values() for process in tab.tree.members()]

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the host's loop and wait for it; an interrupt cancels it and kills the browsers."""
        if self._closed:
            work.close()
            raise SetupError("the browser host is closed")
        if self._loop is None:
            try:
                self._start_thread()
            except BaseException:
                work.close()
                self.close()
                raise
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return _wait(future)
        except BaseException as error:
            if not future.done():
                future.cancel()
                self._kill_processes()
            raise error

    @contextlib.asynccontextmanager
    async def tab(self, mode: str, *, webgpu: bool) -> AsyncIterator[Tab]:
        """The live tab for an adapter mode, for one caller at a time; `webgpu` asks for an adapter that fits the mode.

        Raises SetupError when there is no browser or no such adapter.
        """
        assert self._lock is not None
        async with self._lock:
            yield await self._fitting_tab(mode, webgpu)

    def forget(self, owner: str) -> None:
        """Drop the frames of a runtime, where its page still lives."""
        if self._closed or self._loop is None:
            return

        async def drop() -> None:
            assert self._lock is not None
            async with self._lock:
                for tab in self._tabs.values():
                    if tab.alive:
                        with contextlib.suppress(TabDeadError, TabHungError):
                            await tab.frames.drop(owner)

        self.call(drop())

    async def retire(self, tab: Tab) -> None:
        """Close a tab; the next request opens another."""
        self._tabs = {kind: held for kind, held in self._tabs.items() if held is not tab}
        await tab.close()

    def close(self) -> None:
        """Stop everything; may be called at any time and more than once."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(BaseException):
            _wait(asyncio.run_coroutine_threadsafe(self._shut_down(), loop), limit=4 * CLOSE_SECONDS)
        self._kill_processes()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_SECONDS)
        self._loop = self._thread = None

    def __enter__(self) -> BrowserHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_thread(self) -> None:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_serve, args=(loop,), name="onnxreduce-browser", daemon=True)
        thread.start()
        self._loop, self._thread = loop, thread
        atexit.register(self.close)
        _wait(asyncio.run_coroutine_threadsafe(self._set_up(), loop))

    async def _set_up(self) -> None:
        begun = asyncio.get_running_loop().time()
        self._lock = asyncio.Lock()
        self._server = LocalServer(self._remote.place, self._remote.origin) if self._remote else LocalServer()
        try:
            await self._server.start()
        except OSError as error:
            raise SetupError(f"our server cannot listen: {error.strerror or error}") from error
        self.seconds_start += asyncio.get_running_loop().time() - begun

    async def _engine(self) -> Playwright:
        if self._playwright is None:
            begun = asyncio.get_running_loop().time()
            try:
                self._playwright = await async_playwright().start()
            except (PlaywrightError, OSError) as error:
                raise SetupError(
                    f"Playwright's driver does not start ({error}): reinstall the package playwright"
                ) from error
            self.seconds_start += asyncio.get_running_loop().time() - begun
        if self._browser is None:
            own = Path(self._playwright.chromium.executable_path)
            remote = self._remote
            self._browser = Browser(remote=remote) if remote else find_browser(self._wanted, own=own)
        return self._playwright

    async def _stop_engine(self) -> None:
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with contextlib.suppress(PlaywrightError, OSError, asyncio.TimeoutError):
                await asyncio.wait_for(playwright.stop(), CLOSE_SECONDS)

    async def _fitting_tab(self, mode: str, webgpu: bool) -> Tab:
        await self._engine()
        if self._remote is not None:
            return await self._fitting_remote(mode, webgpu)
        kind = "software" if mode == "software" else "hardware"
        if mode == "auto":
            kind = _KIND_FOUND.get(self._launch_name, "hardware")
        tab = await self._live_tab(kind)
        if not webgpu:
            return tab
        facts = await self._adapter(tab)
        if facts is None and mode == "auto" and kind == "hardware":
            await self.retire(tab)
            tab = await self._live_tab("software")
            facts = await self._adapter(tab)
        if facts is None:
            raise SetupError(
                f"{self._browser} {tab.version} gives no WebGPU adapter: update it and the graphics driver, "
                "or try --adapter software"
            )
        if mode == "hardware" and is_software(facts):
            raise SetupError(
                f"only a software adapter answered ({adapter_name(facts)}): "
                "check the graphics driver (Vulkan on Linux), or allow it with --adapter software"
            )
        if mode == "auto":
            _KIND_FOUND[self._launch_name] = tab.adapter_kind
        return tab

    async def _fitting_remote(self, mode: str, webgpu: bool) -> Tab:
        tab = await self._live_tab("remote")
        if not webgpu:
            return tab
        facts = await self._adapter(tab)
        if facts is None:
            raise SetupError(
                f"the {self._browser} gives no WebGPU adapter to {self.server.origin}: WebGPU needs a secure origin "
                "such as http://127.0.0.1:PORT or http://localhost:PORT, so reach us through a tunnel"
            )
        if mode != "auto" and is_software(facts) != (mode == "software"):
            raise SetupError(f"the adapter of the {self._browser} is {adapter_name(facts)}, which is not {mode}")
        return tab

    @property
    def _launch_name(self) -> str:
        return f"{self._browser}{' headed' if self._headed else ''}"

    async def _adapter(self, tab: Tab) -> Mapping[str, Any] | None:
        """What `Tab.adapter` says; a browser that dies of the question has none."""
        try:
            return await tab.adapter()
        except (TabDeadError, TabHungError):
            return None

    async def _live_tab(self, kind: str) -> Tab:
        tab = self._tabs.get(kind)
        if tab is not None and tab.alive and not tab.worn:
            return tab
        if tab is not None:
            await self.retire(tab)
        try:
            return await self._new_tab(kind)
        except SetupError as error:
            # Playwright's own process may have been killed; another can be had.
            if not (isinstance(error.__cause__, PlaywrightError) and says_gone(error.__cause__)):
                raise
            for other in list(self._tabs.values()):
                await self.retire(other)
            await self._stop_engine()
            return await self._new_tab(kind)

    async def _new_tab(self, kind: str) -> Tab:
        playwright = await self._engine()
        assert self._browser is not None
        tab = Tab(self.server, kind)
        self._tabs[kind] = tab  # at once, so that an interrupt finds its processes
        try:
            await tab.open(playwright.chromium, self._browser, headed=self._headed)
        except SetupError:
            del self._tabs[kind]
            raise
        self.seconds_start += tab.seconds_start
        return tab

    async def _shut_down(self) -> None:
        assert self._lock is not None
        with contextlib.suppress(asyncio.TimeoutError):  # a cancelled run ends before its browser goes
            await asyncio.wait_for(self._lock.acquire(), CLOSE_SECONDS)
        for tab in list(self._tabs.values()):
            await self.retire(tab)
        await self._stop_engine()
        if self._server is not None:
            await self._server.close()

    def _kill_processes(self) -> None:
        for tab in list(self._tabs.values()):
            tab.tree.kill()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        with contextlib.suppress(Exception):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _wait(future: concurrent.futures.Future[T], limit: float | None = None) -> T:
    """The future's result, waiting in slices: on Windows an unlimited wait cannot be interrupted."""
    waited = 0.0
    while True:
        try:
            return future.result(0.5)
        except concurrent.futures.TimeoutError:
            if future.done():
                return future.result()
            waited += 0.5
            if limit is not None and waited >= limit:
                raise
