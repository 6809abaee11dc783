"""The processes of one browser: found by a mark on the command line, killed together, whoever their parent is by then."""

from __future__ import annotations

import contextlib
import os
import secrets

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

    def members(self) -> list[psutil.Process]:
        """All processes of the browser that live now."""
        found: dict[int, psutil.Process] = {}
        for root in self._roots:
            with contextlib.suppress(psutil.Error):
                for process in [root, *root.children(recursive=True)]:
                    found[process.pid] = process
        # Once the main process is dead, its children have another parent; they still share its process group, which
        # Playwright made for it.
        groups = {root.pid for root in self._roots}
        if groups and hasattr(os, "getpgid"):
            for process in psutil.process_iter():
                with contextlib.suppress(OSError):
                    if os.getpgid(process.pid) in groups:
                        found[process.pid] = process
        return list(found.values())

    def kill(self) -> None:
        """Kill them all and wait until they are gone."""
        for _ in range(2):  # once more for those that were being started meanwhile
            members = self.members()
            if not members:
                break
            for process in members:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(members, timeout=KILL_SECONDS)


def _command_line(process: psutil.Process) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words
