"""Files that are replaced together, however the writing of them is broken off."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxreduce.emit.together import drop, finish, together

NUMBERED = {".": r"\d+\.txt", "data": r"\d+\.pb"}


def write(folder: Path, *names: str, content: str) -> None:
    with together(folder, NUMBERED) as new:
        for name in names:
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(content)


def files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds an earlier set, and a file of somebody else's."""
    place = tmp_path / "to"
    write(place, "1.txt", "2.txt", "data/1.pb", "model", content="old")
    (place / "notes").write_text("mine")
    return place


def test_files_of_the_earlier_set_go(folder: Path) -> None:
    write(folder, "1.txt", "model", content="new")
    assert files(folder) == {"1.txt": "new", "model": "new", "notes": "mine"}
    assert sorted(path.name for path in folder.iterdir()) == ["1.txt", "model", "notes"]


def test_what_fails_while_it_is_written_changes_nothing(folder: Path) -> None:
    before = files(folder)
    with pytest.raises(OSError, match="full"), together(folder, NUMBERED) as new:
        (new / "1.txt").write_text("new")
        raise OSError("the disk is full")
    assert files(folder) == before


@pytest.mark.parametrize("moved", range(4))
def test_what_breaks_off_while_it_is_moved_is_finished(
    folder: Path, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, replace, count = files(folder), Path.replace, 0

    def breaks(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count > moved:
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", breaks)
        if moved < 3:
            with pytest.raises(KeyboardInterrupt):
                write(folder, "2.txt", "data/7.pb", "model", content="new")
            assert len([name for name in before if files(folder)[name] == "new"]) <= moved
        else:
            write(folder, "2.txt", "data/7.pb", "model", content="new")
    finish(folder)
    assert files(folder) == {"2.txt": "new", "data/7.pb": "new", "model": "new", "notes": "mine"}
    finish(folder)
    assert len(files(folder)) == 4


def test_what_was_not_put_in_place_can_be_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(folder)

    def breaks(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", breaks)
        with pytest.raises(KeyboardInterrupt):
            write(folder, "1.txt", content="new")
    drop(folder)
    finish(folder)
    assert files(folder) == before
