"""The processes of one browser: found by a mark on the command line, killed together whoever their parent is then."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

import psutil

KILL_SECONDS = 5.0  # the kernel needs milliseconds; a process that takes longer is stuck in a driver


class ProcessTree:
    """A browser's main process and all below it.

    `flag` goes on the browser's command line (Chromium ignores switches that it does not know), so that the right
    process is found whatever wrapper script, channel or other browser there is.
    """

    def __init__(self) -> None:
        self._mark = f"--onnxreduce-browser={secrets.token_hex(8)}"
        self._roots: list[psutil.Process] = []
        self._programs: set[str] = set()
        self.profile: Path | None = None  # the browser's temporary folder

    @property
    def flag(self) -> str:
        """The switch that marks the browser's main process."""
        return self._mark

    def find(self) -> None:
        """Look the main process up among our own descendants, once it has been started."""
        try:
            below = psutil.Process().children(recursive=True)
        except psutil.Error:
            return
        self._roots = [process for process in below if self._mark in _command_line(process)]
        for process in self._roots:
            with contextlib.suppress(psutil.Error):
                self._programs.add(process.exe())
            for word in _command_line(process):
                if word.startswith("--user-data-dir="):
                    self.profile = Path(word.partition("=")[2])

    @property
    def running(self) -> bool:
        """Whether the main process lives."""
        return any(_runs(root) for root in self._roots)

    def members(self) -> list[psutil.Process]:
        """All processes of the browser that live now."""
        found: dict[int, psutil.Process] = {}
        for root in self._roots:
            with contextlib.suppress(psutil.Error):
                for process in [root, *root.children(recursive=True)]:
                    found[process.pid] = process
        # Once the main process is dead, its children have another parent; they still share its process group, which
        # Playwright made for it, and its program (a number alone could be another's by now).
        groups = {root.pid for root in self._roots}
        if groups and hasattr(os, "getpgid"):
            for process in psutil.process_iter():
                with contextlib.suppress(OSError, psutil.Error):
                    if os.getpgid(process.pid) in groups and process.exe() in self._programs:
                        found[process.pid] = process
        return [process for process in found.values() if _runs(process)]

    def kill(self) -> None:
        """Kill them all and wait until they are gone."""
        deadline = time.monotonic() + KILL_SECONDS
        while (members := self.members()) and time.monotonic() < deadline:
            for process in members:  # every time: some may have been started meanwhile
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.005)
        self._roots = []


def _runs(process: psutil.Process) -> bool:
    # The dead whom nobody has asked about yet stay listed as zombies; whoever took them over may never ask.
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _command_line(process: psutil.Process) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words
