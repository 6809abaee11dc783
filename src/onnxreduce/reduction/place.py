"""The folder of a run: made, held against a second run at the same time, and given up where nothing came of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from onnxreduce.errors import BadInputError
from onnxreduce.lock import locked

JOURNAL = "journal.jsonl"


@contextlib.contextmanager
def held(folder: Path, ours: Sequence[str], *, force: bool, resume: bool) -> Iterator[Path]:
    """The path of the journal in a folder that is ours alone while the block runs.

    The journal itself carries the lock of the operating system, which ends with the process, however that ends.
    `ours`: names that say that a run has written here. Raises BadInputError where the folder cannot be written, holds
    such names without a journal (unless by `force`), has no journal although it is to be resumed, or is held by
    another run.
    """
    made: list[Path] = []
    if resume and force:
        raise BadInputError("--resume goes on with an earlier run, --force starts over: one of them")
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInputError(f"output folder {folder} is a file")
        journal = folder / JOURNAL
        there = [name for name in ours if (folder / name).exists()]
        if there and not journal.exists() and not force:
            raise BadInputError(f"output folder {folder} holds another run ({there[0]}); choose another or add --force")
        if resume and not journal.exists():
            raise BadInputError(f"there is no run to go on with in {folder}: it has no {JOURNAL}")
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked(journal)
    except (OSError, ValueError) as error:
        _remove_empty(made)
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"output folder {folder} cannot be written: {reason}") from error
    if file is None:
        raise BadInputError(f"output folder {folder} cannot be written: another run is under way there")
    try:
        yield journal
    finally:
        with contextlib.suppress(OSError):
            if not journal.stat().st_size:
                journal.unlink()
        file.close()
        _remove_empty(made)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else writes into a finished folder while the block runs. Raises BadInputError where another run does."""
    journal = folder / JOURNAL
    file = None
    if journal.exists():
        try:
            file = _locked(journal)
        except OSError as error:
            raise BadInputError(f"folder {folder} cannot be written: {error.strerror or error}") from error
        if file is None:
            raise BadInputError(f"folder {folder}: another run is under way there")
    try:
        yield
    finally:
        if file is not None:
            file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """The file, made if need be, with its lock; None where another has it."""
    while True:
        file = path.open("ab")
        if not locked(file):
            file.close()
            return None
        with contextlib.suppress(OSError):  # one that was removed meanwhile locks nobody out
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # holds something, or was never made
            continue
