"""A Vulkan device in software for native runtimes: the one that Chromium brings, where a Chromium is installed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.find import find_browser

_ICD = "vk_swiftshader_icd.json"
_LIBRARY_PATH = "LD_LIBRARY_PATH"
_LOADER = "libvulkan.so.1"
_USUAL_PLACES = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome", "/opt/microsoft/msedge")
_PLAYWRIGHT = "ms-playwright/chromium*/chrome*"


def software_vulkan(folder: Path) -> Mapping[str, str]:
    """The variables with which a process finds the software device alone; empty where there is none.

    `folder` gets a link to the Vulkan loader: a whole browser's folder on the library path would bring more than that.
    """
    allowed = {"ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"}
    if not sys.platform.startswith("linux"):
        return allowed
    for place in _places():
        if not (place / _ICD).is_file():
            continue
        variables = {**allowed, "VK_ICD_FILENAMES": str(place / _ICD), "VK_DRIVER_FILES": str(place / _ICD)}
        if (place / _LOADER).is_file():
            libraries = folder / "vulkan"
            libraries.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                (libraries / _LOADER).symlink_to(place / _LOADER)
            variables[_LIBRARY_PATH] = os.pathsep.join(filter(None, [str(libraries), os.environ.get(_LIBRARY_PATH)]))
        return variables
    return {}


def _places() -> Iterator[Path]:
    with contextlib.suppress(SetupError):
        browser = find_browser()
        if browser.executable:
            yield browser.executable.resolve().parent
    yield from map(Path, _USUAL_PLACES)
    yield from sorted((Path.home() / ".cache").glob(_PLAYWRIGHT), reverse=True)
