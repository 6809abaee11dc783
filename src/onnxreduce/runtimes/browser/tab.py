"""One browser process with one page, the host page: started, asked, watched from outside, and killed when in doubt."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Browser as PlaywrightBrowser
from playwright.async_api import BrowserType, Page
from playwright.async_api import Error as PlaywrightError

from onnxreduce.awake import Patience
from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.find import Browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.browser.frames import Frames
from onnxreduce.runtimes.browser.lost import TabDeadError, TabHungError
from onnxreduce.runtimes.browser.process import ProcessTree
from onnxreduce.runtimes.browser.remote import Remote
from onnxreduce.runtimes.browser.server import LocalServer

LAUNCH_SECONDS = 60.0  # a cold start from a slow disk; 0.1-0.6 s is usual
FRAMES_PER_TAB = 200  # what a frame leaves behind in the page goes only with the page
CLOSE_SECONDS = 5.0
PROFILE_SECONDS = 2.0  # Playwright needs some 10 ms after the browser is gone


class Tab:
    """A browser process and its host page. After an error it is dead, its processes killed."""

    def __init__(self, server: LocalServer, adapter: str) -> None:
        self.adapter_kind = adapter
        self.version = ""
        self.sandboxed = False
        self.seconds_start = 0.0
        self.server = server
        self.frames = Frames(self)
        self._tree = ProcessTree()
        self._remote = False
        self._browser: PlaywrightBrowser | None = None
        self._page: Page | None = None
        self._gone = asyncio.Event()
        self._facts: Mapping[str, Any] | None = None
        self._asked = False

    @property
    def alive(self) -> bool:
        """Whether the page can still be asked."""
        return self._page is not None and not self._gone.is_set() and (self._remote or self._tree.running)

    @property
    def worn(self) -> bool:
        """Whether the next run deserves a new tab."""
        return self.frames.made >= FRAMES_PER_TAB

    @property
    def tree(self) -> ProcessTree:
        """The browser's processes."""
        return self._tree

    async def open(self, engine: BrowserType, browser: Browser, *, headed: bool) -> None:
        """Start the browser and load the host page; raises SetupError when it does not start."""
        begun = time.perf_counter()
        try:
            if browser.remote is not None:
                self._remote = True
                self._browser = await _connect(engine, browser.remote)
            else:
                self._browser = await self._launch(engine, browser, headed=headed)
                self._tree.find()
            self._browser.on("disconnected", lambda *_: self._gone.set())
            self.version = self._browser.version
            # A phone's Chrome has the one context that it started with, and makes no others.
            there = self._browser.contexts[0] if self._remote and self._browser.contexts else self._browser
            self._page = await there.new_page()
            self._page.on("crash", lambda *_: self._gone.set())
            self._page.on("close", lambda *_: self._gone.set())
            await self._page.goto(self.server.url("page", "host.html"), timeout=LAUNCH_SECONDS * 1000)
        except PlaywrightError as error:
            reached = self._page is not None
            await self.kill()
            if browser.remote is not None:
                raise SetupError(self._unreachable(browser, error, reached)) from error
            raise SetupError(f"{browser} did not start: {_first_line(error)}") from error
        except BaseException:
            await self.kill()
            raise
        self.seconds_start = time.perf_counter() - begun

    async def ask(self, function: str, argument: object = None, *, timeout: float) -> Any:
        """Call a function of the host page; kills the browser when no answer comes within `timeout` seconds.

        Raises TabHungError after that, TabDeadError when the page went away, PlaywrightError when the function threw.
        """
        page = self._page
        if page is None or self._gone.is_set():
            raise TabDeadError("the page is gone")
        call = asyncio.ensure_future(page.evaluate(f"argument => window.onnxreduce.{function}(argument)", argument))
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            patience = Patience(timeout)
            while look := patience.look:
                done, _ = await asyncio.wait({call, gone}, timeout=look, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    break
            if call.done() and not (call.exception() is not None and self._gone.is_set()):
                return call.result()
            if self._gone.is_set():
                raise TabDeadError("the page or its browser went away")
            raise TabHungError(f"no answer within {timeout:g} s")
        except (TabDeadError, TabHungError):
            await self.kill()
            raise
        except PlaywrightError as error:
            if not page.is_closed() and not self._gone.is_set() and not says_gone(error):
                raise
            await self.kill()
            raise TabDeadError(_first_line(error)) from error
        except asyncio.CancelledError:
            await self.kill()
            raise
        finally:
            for task in (call, gone):
                task.cancel()
            await asyncio.gather(call, gone, return_exceptions=True)

    async def adapter(self) -> Mapping[str, Any] | None:
        """Facts about the adapter that WebGPU gives here, None where there is none."""
        if not self._asked:
            self._facts = await self.ask("adapterFacts", timeout=LAUNCH_SECONDS)
            self._asked = True
        return self._facts

    async def close(self) -> None:
        """Close the browser in good order, or kill it when that takes long."""
        if self._browser is not None and not self._gone.is_set() and not self._remote:
            with contextlib.suppress(PlaywrightError, asyncio.TimeoutError):
                await asyncio.wait_for(self._browser.close(), CLOSE_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """Kill the browser's processes; of a remote browser our page alone."""
        self._gone.set()
        page, self._page = self._page, None
        if self._remote and page is not None:
            with contextlib.suppress(PlaywrightError, asyncio.TimeoutError):
                await asyncio.wait_for(page.close(), CLOSE_SECONDS)
        self._tree.kill()
        browser, self._browser = self._browser, None
        if browser is not None:
            with contextlib.suppress(PlaywrightError, asyncio.TimeoutError):
                await asyncio.wait_for(browser.close(), CLOSE_SECONDS)
        await self._lose_profile()

    def _unreachable(self, browser: Browser, error: PlaywrightError, reached: bool) -> str:
        if not reached:
            return f"the {browser} does not answer: {_first_line(error)}"
        port = self.server.port
        tunnel = f"adb reverse tcp:{port} tcp:{port}, or ssh -R {port}:127.0.0.1:{port} HOST"
        reason = _first_line(error).partition(" at http")[0]  # the rest is an address with our secret in it
        text = f"the {browser} cannot reach our server at {self.server.origin} ({reason})"
        return f"{text}: choose a port with --listen and make a tunnel to it, such as {tunnel}"

    async def _lose_profile(self) -> None:
        """Wait until Playwright has removed the temporary folders that it made for the browser."""
        profile = self._tree.profile
        if profile is None:
            return
        for _ in range(int(PROFILE_SECONDS / 0.01)):
            if not profile.exists():
                return
            await asyncio.sleep(0.01)
        shutil.rmtree(profile, ignore_errors=True)

    async def _launch(self, engine: BrowserType, browser: Browser, *, headed: bool) -> PlaywrightBrowser:
        async def launch(sandbox: bool) -> PlaywrightBrowser:
            self.sandboxed = sandbox
            return await engine.launch(
                executable_path=browser.executable,
                channel=browser.channel,
                headless=not headed,
                args=[*launch_flags(self.adapter_kind, headed=headed), self._tree.flag],
                chromium_sandbox=sandbox,
                timeout=LAUNCH_SECONDS * 1000,
                # Ctrl-C is ours to handle: Playwright must not close the browser under a run.
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )

        if not sandbox_possible():
            return await launch(sandbox=False)
        try:
            return await launch(sandbox=True)
        except PlaywrightError as error:
            # Some Linux systems forbid user namespaces. The page holds nothing but our own code and the runtime's.
            if "sandbox" not in str(error).lower():
                raise
            self._tree.find()
            self._tree.kill()
            return await launch(sandbox=False)


async def _connect(engine: BrowserType, remote: Remote) -> PlaywrightBrowser:
    if remote.over_cdp:
        return await engine.connect_over_cdp(remote.url, timeout=LAUNCH_SECONDS * 1000)
    return await engine.connect(remote.url, timeout=LAUNCH_SECONDS * 1000)


def _first_line(error: PlaywrightError) -> str:
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    return lines[0] if lines else "unknown error"


def says_gone(error: PlaywrightError) -> bool:
    """Whether an error means that the page, the browser or Playwright's own process is no more."""
    return any(words in error.message for words in ("crashed", "has been closed", "Target closed", "Connection closed"))
