"""What is attached: everything that the issue speaks of, and the same bytes for the same content."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onnxreduce.emit import write_report
from onnxreduce.emit.report import archive


def test_it_holds_what_a_maintainer_needs(explained_folder: Path) -> None:
    (explained_folder / "passing.onnx").write_bytes((explained_folder / "reduced.onnx").read_bytes())
    (explained_folder / "repro.html").write_text("<!doctype html>")
    (explained_folder / "notes.txt").write_text("mine")
    write_report(explained_folder)
    with zipfile.ZipFile(explained_folder / "repro.zip") as held:
        assert held.testzip() is None
        names = set(held.namelist())
        assert all(held.read(name) == (explained_folder / name).read_bytes() for name in names)
    assert names == {
        "build_repro.py",
        "repro.html",
        "reduced.onnx",
        "passing.onnx",
        "summary.json",
        "explanation.json",
        "test_repro.py",
        "test_data_set_0/input_0.pb",
        "test_data_set_0/output_0.pb",
    }


def test_what_was_attached_runs_by_itself(folder: Path, tmp_path: Path) -> None:
    write_report(folder)
    with zipfile.ZipFile(folder / "repro.zip") as held:
        held.extractall(tmp_path / "there")
    subprocess.run([sys.executable, tmp_path / "there" / "build_repro.py"], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "model.onnx").is_file()
    assert (tmp_path / "inputs.npz").is_file()


def test_the_same_content_is_the_same_archive(folder: Path, tmp_path: Path) -> None:
    write_report(folder)
    first = (folder / "repro.zip").read_bytes()
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    for file in other.rglob("*"):
        os.utime(file, (1, 1))
    (other / "reduced.onnx").chmod(0o600)
    write_report(other)
    assert (other / "repro.zip").read_bytes() == first
    assert (folder / "issue.md").read_bytes() == (other / "issue.md").read_bytes()


def test_what_is_too_large_to_attach_is_not_archived(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(folder)
    monkeypatch.setattr(archive, "LARGEST", 100)
    assert "repro.zip" not in write_report(folder)
    assert not (folder / "repro.zip").exists()
    assert "repro.zip" not in (folder / "issue.md").read_text("utf-8")
