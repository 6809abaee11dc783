"""`repro.zip`: what is attached to an issue, the same bytes for the same content."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onnxreduce.emit.folder import DATA_SET, MODEL_NAME, SCRIPT_NAME, write_atomically
from onnxreduce.emit.variant import PASSING_DATA, PASSING_MODEL

ARCHIVE = "repro.zip"
LARGEST = 1 << 30
"""Bytes of content; more is no attachment (GitHub takes 25 MB)."""

_NAMES = (
    SCRIPT_NAME,
    "repro.html",
    MODEL_NAME,
    f"{MODEL_NAME}.data",
    PASSING_MODEL,
    f"{PASSING_MODEL}.data",
    "summary.json",
    "explanation.json",
    "operator_test.jsonc",
    "browser_test.js",
    "test_repro.py",
)
_FOLDERS = (DATA_SET, "weights", PASSING_DATA)
_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that the format knows."""


@dataclass(frozen=True)
class Archive:
    """What was written: names in the archive, and its size in bytes."""

    names: list[str]
    size: int


def write_archive(folder: Path) -> Archive | None:
    """Write the archive; None, and none is left, where its content would be too large."""
    files = list(_files(folder))
    if sum((folder / name).stat().st_size for name in files) > LARGEST:
        (folder / ARCHIVE).unlink(missing_ok=True)
        return None
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (folder / name).read_bytes())
    data = content.getvalue()
    write_atomically(folder / ARCHIVE, data)
    return Archive(files, len(data))


def _files(folder: Path) -> Iterator[str]:
    yield from (name for name in _NAMES if (folder / name).is_file())
    for inner in _FOLDERS:
        yield from sorted(f"{inner}/{file.name}" for file in (folder / inner).glob("*.pb"))
