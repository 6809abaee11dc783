"""Choosing a browser and its flags."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser import find
from onnxreduce.runtimes.browser.find import Browser, find_browser, launch_flags


def program(folder: Path, name: str) -> Path:
    path = folder / (f"{name}.exe" if os.name == "nt" else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without browsers; gives the one folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(find, "_USUAL_PLACES", {})
    return folder


def test_an_installed_browser_is_found_full_ones_first(bare: Path) -> None:
    shell = program(bare, "chromium-headless-shell")
    assert find_browser() == Browser(executable=shell)
    chrome = program(bare, "google-chrome")
    assert find_browser() == Browser(executable=chrome)


def test_the_usual_places_are_looked_at(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edge = program(tmp_path / "Edge", "msedge")
    monkeypatch.setenv("EDGE", str(edge.parent))
    family = "linux" if find.sys.platform.startswith("linux") else find.sys.platform
    monkeypatch.setattr(find, "_USUAL_PLACES", {family: (str(tmp_path / "nothing"), f"$EDGE/{edge.name}")})
    assert find_browser() == Browser(executable=edge)


def test_playwrights_own_comes_last(bare: Path, tmp_path: Path) -> None:
    own = tmp_path / "ms" / "chromium-1" / "chrome-linux" / "chrome"
    with pytest.raises(SetupError, match="playwright install chromium"):
        find_browser(own=own)
    program(own.parent, "chrome")
    own.touch()
    assert find_browser(own=own) == Browser()
    own.unlink()
    (tmp_path / "ms" / "chromium_headless_shell-1").mkdir()
    assert find_browser(own=own) == Browser()
    assert find_browser(own=own) != Browser(executable=program(bare, "chromium"))


def test_a_browser_can_be_named(bare: Path, tmp_path: Path) -> None:
    mine = program(tmp_path / "mine", "browser")
    assert find_browser(str(mine)) == Browser(executable=mine.resolve())
    assert find_browser("chrome") == Browser(channel="chrome")
    assert find_browser("msedge") == Browser(channel="msedge")
    chromium = program(bare, "chromium")
    assert find_browser("chromium") == Browser(executable=chromium)
    assert find_browser(program(bare, "odd").stem) == Browser(executable=bare / program(bare, "odd").name)


@pytest.mark.parametrize("wanted", [None, "chromium", "/no/such/browser", "netscape"])
def test_none_is_told_in_one_line(bare: Path, wanted: str | None) -> None:
    with pytest.raises(SetupError) as caught:
        find_browser(wanted)
    assert "\n" not in str(caught.value)


def test_flags_follow_platform_and_adapter() -> None:
    assert "--use-webgpu-adapter=swiftshader" in launch_flags("software", headed=False, platform="linux")
    hardware = launch_flags("hardware", headed=False, platform="linux")
    assert "--use-vulkan=native" in hardware
    assert not any("swiftshader" in flag for flag in hardware)
    for platform in ("darwin", "win32"):
        flags = launch_flags("hardware", headed=False, platform=platform)
        assert "--enable-unsafe-webgpu" in flags
        assert not any("vulkan" in flag.lower() for flag in flags)
    for kind in ("software", "hardware"):
        for headed in (False, True):
            flags = launch_flags(kind, headed=headed, platform="linux")
            # Chromium takes the last of these alone.
            assert sum(flag.startswith("--enable-features=") for flag in flags) == 1
            assert sum(flag.startswith("--js-flags=") for flag in flags) == 1
            assert "--no-sandbox" not in flags
