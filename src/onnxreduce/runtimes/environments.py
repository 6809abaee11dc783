"""A Python environment of its own for each version of onnxruntime, made at the first use and kept.

The ordinary clients do the fetching, uv where it is on PATH and else pip, so their own settings (index, proxy,
certificates) apply and none are written here.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes.packages import CACHE_VARIABLE, cache_root
from onnxreduce.runtimes.target import Target

PACKAGE = "onnxruntime"
PACKAGES = {
    "cuda": "onnxruntime-gpu",
    "tensorrt": "onnxruntime-gpu",
    "dml": "onnxruntime-directml",
    "openvino": "onnxruntime-openvino",
    "qnn": "onnxruntime-qnn",
}
"""Packages on PyPI that hold providers which the plain one lacks, by the provider's word."""
INSTALL_SECONDS = 1800
"""Packages with GPU code are of several hundred MB; this allows for a link of 300 kB/s."""

_START_SECONDS = 60
_NEW_NUMPY = Version("1.19")  # the first onnxruntime that is built for numpy 2
_OTHER_PYTHONS = tuple(f"python3.{minor}" for minor in range(14, 7, -1))
_DONE = "onnxreduce.txt"  # written last: an environment without it is half made
_NOT_FOUND = re.compile(r"No matching distribution|No solution found|no version of|no wheels with a matching", re.I)
_NO_NETWORK = re.compile(r"Retrying \(|Failed to fetch|Request failed after")
_UNTOLD = re.compile(r"^(WARNING|DEPRECATION|\[notice\]|hint)", re.I)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Plugin:
    """The library of a plugin provider: a file, or the Python package that brings it, perhaps at a version."""

    module: str
    version: str | None = None
    file: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Plugin:
        """Read `library=`: a path, or the name of a Python module with or without `@VERSION`."""
        if {"/", os.sep} & set(text) or text.endswith((".so", ".dll", ".dylib")):
            path = Path(text).expanduser().absolute()
            if not path.is_file():
                raise SetupError(f"no plugin library {text}")
            return cls(path.stem, file=path)
        name, _, version = text.partition("@")
        module = name.replace("-", "_")
        if not module.isidentifier() or (version and not _is_version(version)):
            raise BadInputError(f"library {text!r} is neither a file nor a Python module such as onnxruntime_ep_webgpu")
        return cls(module, version or None)

    @property
    def package(self) -> str:
        """The name on PyPI."""
        return self.module.replace("_", "-")

    @property
    def requirement(self) -> str | None:
        """What pip is asked for."""
        if self.file is not None:
            return None
        return f"{self.package}=={self.version}" if self.version else self.package


def python_for(target: Target, report: Report | None = None, seconds: float = INSTALL_SECONDS) -> str:
    """The interpreter for a target of Python onnxruntime: this one, or that of the asked version's environment.

    `report` is told in words what takes long; an installation is given up after `seconds`. Raises BadInputError for
    what is no version, SetupError when it cannot be had: the message says in one line what the client said.
    """
    plugin = Plugin.parse(target.options["library"]) if "library" in target.options else None
    if target.version is None:
        return sys.executable
    if not _is_version(target.version):
        raise BadInputError(f"target {target}: {target.version!r} is not a version of onnxruntime")
    package = PACKAGES.get(target.provider or "cpu", PACKAGE)
    extra = plugin.requirement if plugin else None
    if _installed(package) == Version(target.version) and (plugin is None or _has(plugin)):
        return sys.executable
    return str(environment(package, target.version, [extra] if extra else [], report=report, seconds=seconds))


def environments(package: str = PACKAGE) -> list[str]:
    """Versions of a package whose environments are there, without extras, oldest first."""
    found = {}
    for folder in (cache_root() / "python").glob(f"{package}-*-py*"):
        version = re.fullmatch(rf"{package}-([\w.]+)-py[\d.]+", folder.name)
        if version and _is_version(version[1]) and _complete(folder):
            found[version[1]] = Version(version[1])
    return sorted(found, key=lambda version: found[version])


def environment(
    package: str,
    version: str,
    extra: Sequence[str] = (),
    *,
    report: Report | None = None,
    seconds: float = INSTALL_SECONDS,
) -> Path:
    """The interpreter of the environment that holds a version of an onnxruntime package; made when it is not there."""
    numpy = "numpy<2" if Version(version) < _NEW_NUMPY else "numpy"
    requirements = [f"{package}=={version}", numpy, *extra]
    name = "-".join([f"{package}-{version}", *(re.sub(r"[^\w.]+", "-", each) for each in extra)])
    root = cache_root() / "python"
    for made in sorted(root.glob(f"{name}-py*")) if root.is_dir() else []:
        if _complete(made):
            return _python_of(made)
    (report or _silent)(f"making an environment for {' and '.join([f'{package} {version}', *extra])} (once)")
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    except OSError as error:
        text = f"cannot write to the cache {root}: {error.strerror}; set {CACHE_VARIABLE} to another folder"
        raise SetupError(text) from error
    try:
        tried, said = [], ""
        for number, (interpreter, python) in enumerate(_interpreters()):
            made = scratch / str(number)
            try:
                _install(interpreter, made, requirements, seconds)
            except _NotFoundError as error:
                tried.append(python)
                said = said or str(error)  # what was said for our own Python
                continue
            (made / _DONE).write_text("\n".join(requirements), "utf-8")
            return _python_of(_placed(made, root / f"{name}-py{python}"))
    except OSError as error:
        raise SetupError(f"cannot make an environment in the cache {root}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    raise SetupError(f"{package} {version} cannot be had for Python {', '.join(tried)} on this machine: {said}")


class _NotFoundError(Exception):
    """There is no such version, or none for this Python."""


def _install(interpreter: str, folder: Path, requirements: Sequence[str], seconds: float) -> None:
    uv = shutil.which("uv")
    make = [uv, "venv", "--quiet", "--python", interpreter] if uv else [interpreter, "-m", "venv"]
    _client([*make, str(folder)], "making the environment", seconds)
    python = str(_python_of(folder))
    if uv:
        command = [uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    else:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "2"]
        command += ["--no-input", "--no-compile", "--only-binary", ":all:"]
    _client([*command, *requirements], f"installing {requirements[0]}", seconds)


def _client(command: Sequence[str], what: str, seconds: float = INSTALL_SECONDS) -> None:
    """Run uv, venv or pip; raises an error that says in one line what it said."""
    name = "uv" if Path(command[0]).stem == "uv" else command[2]
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
    try:
        done = subprocess.run(
            command,
            cwd=tempfile.gettempdir(),  # a pyproject.toml of the folder we happen to be in is not meant
            env={key: value for key, value in os.environ.items() if key not in hidden},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what}: {name} did not end within {seconds:g} s; is the index reachable?") from None
    except OSError as error:
        raise SetupError(f"{what}: {name} cannot be started: {error}") from error
    if done.returncode == 0:
        return
    said = f"{done.stderr}\n{done.stdout}"
    line = f"{name}: {_explanation(said) or f'exit code {done.returncode}'}"
    if _NO_NETWORK.search(said):
        raise SetupError(f"{what}: {name} cannot reach the package index; is there a network? ({line})")
    if _NOT_FOUND.search(said):
        raise _NotFoundError(line)
    raise SetupError(f"{what}: {line}")


def _explanation(said: str) -> str:
    """The line that says most: pip's last error, or all of uv's, which is one sentence over several lines."""
    lines = [line.strip(" \t│╰─▶×") for line in said.splitlines()]
    lines = [line for line in lines if line and not _UNTOLD.match(line)]
    errors = [line.partition(":")[2].strip() for line in lines if line.startswith("ERROR:")]
    text = errors[-1] if errors else " ".join(lines)
    return text if len(text) <= 300 else text[:297] + "..."


def _interpreters() -> Iterator[tuple[str, str]]:
    """This Python first, then the others on PATH that start, newest first, each with its version."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield sys.executable, own
    for name in _OTHER_PYTHONS:
        found = shutil.which(name)
        version = name.removeprefix("python")
        if found and version != own and _starts(found):
            yield found, version


def _starts(python: str) -> bool:
    try:
        code = "import venv"
        return not subprocess.run([python, "-c", code], capture_output=True, timeout=_START_SECONDS).returncode
    except (OSError, subprocess.SubprocessError):
        return False


def _placed(made: Path, target: Path) -> Path:
    """Put the environment in place; where another process was faster, its own stays and ours is dropped."""
    for _ in range(2):
        try:
            return made.rename(target)
        except OSError:
            if _complete(target):
                return target
            shutil.rmtree(target, ignore_errors=True)  # left behind by something that broke off
    raise SetupError(f"cannot put the environment in place at {target}")


def _complete(folder: Path) -> bool:
    return (folder / _DONE).is_file() and _python_of(folder).exists()  # its Python may have been removed since


def _python_of(folder: Path) -> Path:
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def _installed(package: str) -> Version | None:
    try:
        return Version(importlib.metadata.version(package))
    except (importlib.metadata.PackageNotFoundError, InvalidVersion):
        return None


def _has(plugin: Plugin) -> bool:
    if plugin.file is not None:
        return True
    there = _installed(plugin.package)
    return there is not None and (plugin.version is None or there == Version(plugin.version))


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return bool(re.fullmatch(r"[\w.+-]+", text))


def _silent(_: str) -> None:
    pass
