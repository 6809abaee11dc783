"""Files that belong together, replaced together: a model is of no use with the inputs of another one.

They are written into a hidden folder first, which gets another name once it is whole. Then each moves into its place, a
matter of a millisecond; where even that was broken off, `finish` goes on with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

_NEW, _WHOLE, _LIST = ".new", ".whole", "files.json"


@contextlib.contextmanager
def together(folder: Path, replaced: Mapping[str, str]) -> Iterator[Path]:
    """A folder to write into; its files move to `folder` once the block is done, and to the disk before that.

    `replaced`: by subfolder (`.` for the folder itself) a pattern of names; earlier files of such names, which the
    block has not written again, are removed. Raises OSError, and leaves what was there, when something fails.
    """
    finish(folder)
    new = folder / _NEW
    try:
        new.mkdir(parents=True)
        yield new
        files = sorted(path for path in new.rglob("*") if path.is_file())
        for path in files:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        names = [path.relative_to(new).as_posix() for path in files]
        (new / _LIST).write_text(json.dumps({"files": names, "replaced": dict(replaced)}), "utf-8")
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    new.rename(folder / _WHOLE)
    finish(folder)


def finish(folder: Path) -> None:
    """Put files in place that were written completely; those of a set that is not complete are removed."""
    shutil.rmtree(folder / _NEW, ignore_errors=True)  # never complete once nobody is at it
    whole = folder / _WHOLE
    if not whole.is_dir():
        return
    listed = json.loads((whole / _LIST).read_text("utf-8"))
    for name in listed["files"]:
        if (whole / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (whole / name).replace(folder / name)
    for place, pattern in listed["replaced"].items():
        for path in (folder / place).glob("*"):
            name = path.relative_to(folder).as_posix()
            if re.fullmatch(pattern, path.name) and path.is_file() and name not in listed["files"]:
                path.unlink()
        with contextlib.suppress(OSError):  # holds something
            (folder / place).rmdir()
    shutil.rmtree(whole)


def drop(folder: Path) -> None:
    """Remove files that were not put in place yet, complete or not."""
    for name in (_NEW, _WHOLE):
        shutil.rmtree(folder / name, ignore_errors=True)
