"""Temporary folders that say whose they are, so that those of a process that was killed can be cleared away.

A recording can have gigabytes. Numbers of processes say nothing where containers share the folder, so a lock does.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from onnxreduce.lock import locked

PREFIX = "onnxreduce-"
YOUNG = 5.0
"""Seconds: a folder may have been made by somebody who has not locked it yet."""
_LOCK = ".in-use"
_held: dict[Path, IO[bytes]] = {}


def make(what: str) -> Path:
    """A new temporary folder, to be removed by `remove`. Raises OSError when it cannot be made."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{what}-"))
    file = (folder / _LOCK).open("wb")
    locked(file)
    _held[folder] = file
    return folder


def remove(folder: Path) -> None:
    """Remove a folder that `make` has made, as far as it can be."""
    file = _held.pop(folder, None)
    if file is not None:
        file.close()
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def folder(what: str) -> Iterator[Path]:
    """A temporary folder while the block runs."""
    made = make(what)
    try:
        yield made
    finally:
        remove(made)


def clear() -> None:
    """Remove the folders of processes that are gone."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - (left / _LOCK).stat().st_mtime < YOUNG:
                continue
            with (left / _LOCK).open("ab") as file:
                if locked(file):
                    shutil.rmtree(left, ignore_errors=True)
