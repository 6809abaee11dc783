"""Which browser to start, and with which flags.

The flags were measured with Chromium 156, headless, on Linux without a GPU and with an NVIDIA one; macOS and Windows
need only `--enable-unsafe-webgpu`, and WebNN its feature. Chromium takes the last `--enable-features` alone, so there
is one of them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.remote import Remote

CHANNELS = ("chrome", "msedge", "chromium")  # Playwright's names

_ON_PATH = (
    "google-chrome-stable",
    "google-chrome",
    "chrome",
    "chromium",
    "chromium-browser",
    "microsoft-edge-stable",
    "microsoft-edge",
    "msedge",
    "chromium-headless-shell",
    "chrome-headless-shell",
)

_USUAL_PLACES = {
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "~/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    ),
    "win32": (
        "%ProgramFiles%/Google/Chrome/Application/chrome.exe",
        "%ProgramFiles(x86)%/Google/Chrome/Application/chrome.exe",
        "%LocalAppData%/Google/Chrome/Application/chrome.exe",
        "%LocalAppData%/Chromium/Application/chrome.exe",
        "%ProgramFiles(x86)%/Microsoft/Edge/Application/msedge.exe",
        "%ProgramFiles%/Microsoft/Edge/Application/msedge.exe",
    ),
    "linux": (
        "/opt/google/chrome/chrome",
        "/opt/microsoft/msedge/msedge",
        "/usr/lib/chromium/chromium",
        "/snap/bin/chromium",
    ),
}

# The browser talks to our own server alone; nothing else shall slow it down or wait for a network that is not there.
_QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)

# V8 compiles a WebAssembly function again, optimised, once it has run this many bytes of code (13e6 is V8's own figure,
# and an int ends the range). onnxruntime holds functions of which one alone takes 30-50 s to optimise, all fetches of
# the page waiting meanwhile, and a runtime started for many small models gets there: runs of 0.1 s took 9-50 s. With
# this figure only the loops of kernels that run long are optimised; whole models take no longer than before.
_TIERING_BUDGET = 2_000_000_000

# Gives the adapter's description and driver, which are empty otherwise.
_WEBGPU = ("--enable-unsafe-webgpu", "--enable-webgpu-developer-features")

_FEATURES = "--enable-features=WebMachineLearningNeuralNetwork"
_LINUX_FEATURES = f"{_FEATURES},Vulkan"

# Headless Chromium picks ANGLE on SwiftShader by itself, and then WebGPU too gets the software adapter even where a
# GPU is there; Vulkan all through gives the GPU.
_LINUX_HARDWARE = (
    _LINUX_FEATURES,
    "--use-angle=vulkan",
    "--use-vulkan=native",
    "--disable-vulkan-surface",
    "--ignore-gpu-blocklist",
)
_LINUX_HEADED = (_LINUX_FEATURES, "--ignore-gpu-blocklist")
_SOFTWARE = ("--use-webgpu-adapter=swiftshader",)
_LINUX_SOFTWARE = (_LINUX_FEATURES, *_SOFTWARE)


@dataclass(frozen=True)
class Browser:
    """A browser that Playwright can start: by `executable`, or by `channel`; neither means Playwright's own.

    One that runs already, elsewhere, is `remote`.
    """

    executable: Path | None = None
    channel: str | None = None
    remote: Remote | None = None

    def __str__(self) -> str:
        if self.remote:
            return f"browser at {self.remote}"
        return str(self.executable) if self.executable else self.channel or "Playwright's Chromium"


def find_browser(wanted: str | None = None, *, own: Path | None = None) -> Browser:
    """The browser to start: `wanted` (a path, or chrome, msedge, chromium), else an installed one, else Playwright's.

    `own` is where Playwright's own Chromium would be. Raises SetupError when there is none.
    """
    if wanted:
        return _explicit(wanted, own)
    found = next(_installed(), None)
    if found is not None:
        return Browser(executable=found)
    if own is not None and (own.is_file() or _shell_beside(own)):
        return Browser()
    raise SetupError(
        "no Chrome, Chromium or Edge found: install Chrome, or run `playwright install chromium`, "
        "or install Debian's package chromium or chromium-headless-shell, or name one with --browser PATH"
    )


def launch_flags(adapter: str, *, headed: bool, platform: str = sys.platform) -> list[str]:
    """Chromium's switches for an adapter of kind `adapter`: `software`, or `hardware`, which does not force one."""
    chosen: tuple[str, ...]
    linux = platform.startswith("linux")
    if adapter == "software":
        chosen = _LINUX_SOFTWARE if linux else (_FEATURES, *_SOFTWARE)
    else:
        chosen = (_LINUX_HEADED if headed else _LINUX_HARDWARE) if linux else (_FEATURES,)
    # Compilation may not take every core either: the page itself needs one.
    tasks = max(1, (os.cpu_count() or 2) // 2)
    engine = f"--js-flags=--wasm-tiering-budget={_TIERING_BUDGET},--wasm-num-compilation-tasks={tasks}"
    return [*_QUIET, engine, *_WEBGPU, *chosen]


def sandbox_possible() -> bool:
    """Whether Chromium can keep its sandbox: it refuses to as root on Linux."""
    return not (sys.platform.startswith("linux") and os.geteuid() == 0)


def _shell_beside(own: Path) -> bool:
    # Playwright's headless shell, which it prefers for headless use, lies in a folder of its own beside Chromium's.
    return len(own.parents) > 2 and any(own.parents[2].glob("chromium_headless_shell-*"))


def _explicit(wanted: str, own: Path | None) -> Browser:
    path = Path(wanted).expanduser()
    if path.is_file() and os.access(path, os.X_OK):
        return Browser(executable=path.resolve() if path.parent != Path() else path.absolute())
    if wanted == "chromium":
        # An installed Chromium is meant before Playwright's, which may not be there.
        found = next((p for p in _installed() if "chromium" in p.name.lower()), None)
        if found is not None:
            return Browser(executable=found)
        if own is not None and own.is_file():
            return Browser(channel="chromium")
        raise SetupError("no Chromium found: run `playwright install chromium`, or install your system's chromium")
    if wanted in CHANNELS:
        return Browser(channel=wanted)
    on_path = shutil.which(wanted)
    if on_path:
        return Browser(executable=Path(on_path))
    raise SetupError(f"browser {wanted!r} is neither a program that exists nor one of {', '.join(CHANNELS)}")


def _installed() -> Iterator[Path]:
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:
            yield Path(found)
    family = "linux" if sys.platform.startswith("linux") else sys.platform
    for place in _USUAL_PLACES.get(family, ()):
        path = Path(os.path.expandvars(place)).expanduser()
        if path.is_file():
            yield path
