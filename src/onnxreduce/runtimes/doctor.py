"""What this machine has of what the runtimes need, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from onnxreduce.errors import OnnxReduceError
from onnxreduce.runtimes.browser.adapter import adapter_name, is_software
from onnxreduce.runtimes.browser.host import AdapterMode, BrowserHost
from onnxreduce.runtimes.packages import cache_root, cached_versions, npm_command

OLDEST_PYTHON = (3, 10)
NOTABLE_FEATURES = ("shader-f16", "subgroups", "timestamp-query")

_NEEDED = ("onnx", "onnx-ir", "onnxruntime", "numpy", "playwright", "aiohttp", "psutil")
_NPM_SECONDS = 30.0  # npm itself starts in 0.3 s, from a slow disk in some more


@dataclass(frozen=True)
class Finding:
    """One fact about the machine; `ok` says whether all is well with it, `advice` what to do where it is not.

    Without what is `needed` the browser oracles cannot run at all; the rest is good to know.
    """

    name: str
    value: str
    ok: bool = True
    advice: str = ""
    needed: bool = True


def findings(browser: str | None = None, adapter: AdapterMode = "auto", headed: bool = False) -> list[Finding]:
    """Look at Python, packages, npm, fetched runtimes, and, by starting it, the browser and its WebGPU adapter.

    The arguments are those of `BrowserHost`. What fails becomes a finding; nothing is raised.
    """
    return [_python(), *_packages(), _npm(), _runtimes(), *_browser(browser, adapter, headed)]


def _python() -> Finding:
    value = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return Finding("Python", value, sys.version_info >= OLDEST_PYTHON, f"Python {wanted} or later is needed")


def _packages() -> Iterator[Finding]:
    for name in _NEEDED:
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "missing", False, f"pip install {name}")


def _npm() -> Finding:
    advice = "only needed to fetch versions of onnxruntime-web: install Node.js, or `pip install onnxreduce[npm]`"
    command = npm_command()
    if command is None:
        return Finding("npm", "missing", False, advice, needed=not cached_versions())
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=_NPM_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("npm", f"does not start: {error}", False, advice, needed=not cached_versions())
    return Finding("npm", done.stdout.strip())


def _runtimes() -> Finding:
    versions = cached_versions()
    value = f"{', '.join(versions) or 'none yet'} in {cache_root()}"
    return Finding(
        "onnxruntime-web", value, bool(versions), "a version is fetched when it is first named", needed=False
    )


def _browser(browser: str | None, adapter: AdapterMode, headed: bool) -> Iterator[Finding]:
    with BrowserHost(browser, adapter, headed) as host:
        try:
            facts = host.browser_facts()
        except OnnxReduceError as error:
            yield Finding("browser", "none", False, str(error))
            return
        yield Finding("browser", f"{facts['browser']} {facts['browser_version']}")
        if facts["sandbox"] == "no":
            advice = "Chromium runs as root, or the system forbids its sandbox"
            yield Finding("browser sandbox", "off", False, advice, needed=False)
        try:
            gpu = host.adapter_facts()
        except OnnxReduceError as error:
            yield Finding("WebGPU adapter", "none", False, str(error))
            return
        advice = "right for most faults; not for those of GPU drivers and float16"
        software = is_software(gpu)
        name = adapter_name(gpu) + (" (software)" if software else "")
        yield Finding("WebGPU adapter", name, not software, advice, needed=False)
        for feature in NOTABLE_FEATURES:
            there = feature in gpu["features"]
            advice = "the adapter lacks it: kernels with it cannot run"
            yield Finding(feature, "yes" if there else "no", there, advice, needed=False)
