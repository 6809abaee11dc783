"""From an oracle's description to an oracle with its runtimes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnxreduce.errors import BadInputError
from onnxreduce.oracle.differential import DifferentialOracle
from onnxreduce.oracle.spec import OracleSpec
from onnxreduce.runtimes.base import Runtime
from onnxreduce.runtimes.target import Target

RUNTIMES = ("ort-web", "ort", "onnx-reference")


@dataclass(frozen=True)
class Setup:
    """Where runtimes run. `ort_web`: a version, or the folder of a local build, in place of the oracle's own version.

    `browser`: a path or chrome, msedge, chromium. `adapter`: auto, hardware or software. `report` gets a line for
    each thing that takes long, such as a download. `patience`: seconds after which a download is given up (None: as
    long as slow links need). `memory`: MiB that a native runtime's process may hold.

    `connect`: a browser that runs already, at `ws://...` or `http://...`; `listen` (`PORT` or `HOST:PORT`) and
    `address` (`http://HOST:PORT`) say where our server waits for its page, and how the page calls it.

    `jobs`: workers on this machine; `cluster`: the address of a Dask scheduler whose workers are used (`oracle.hire`).
    """

    ort_web: str | None = None
    browser: str | None = None
    adapter: str = "auto"
    headed: bool = False
    report: Callable[[str], None] | None = None
    memory: int | None = None
    connect: str | None = None
    listen: str | None = None
    address: str | None = None
    jobs: int = 1
    cluster: str | None = None
    patience: float | None = None


def refuse_idle(setup: Setup, oracle: str, runtimes: Collection[str]) -> None:
    """Raise BadInputError where a setting is about a runtime that the oracle does not run."""
    native = tuple(name for name in RUNTIMES if name != "ort-web")
    for setting, needs, words in (
        ("ort_web", ("ort-web",), "onnxruntime-web"),
        ("connect", ("ort-web",), "onnxruntime-web"),
        ("memory", native, "native runtime"),
    ):
        if getattr(setup, setting) is not None and not set(needs) & set(runtimes):
            option = setting.replace("_", "-")
            raise BadInputError(f"oracle {oracle!r} runs no {words}, so --{option} says nothing to it")


class BuiltOracle(DifferentialOracle):
    """A differential oracle that owns the browser behind its runtimes."""

    def __init__(self, spec: OracleSpec, setup: Setup) -> None:
        refuse_idle(setup, spec.name, (spec.reference.runtime, spec.suspect.runtime))
        with ExitStack() as stack:
            makers = _Makers(setup, stack)
            reference = makers.held(spec.reference)
            suspect = makers.held(spec.suspect)
            super().__init__(spec.name, reference, suspect, spec.tolerance, spec.timeout, spec.expectation, spec.slower)
            self.spec = spec
            self._makers = makers
            self._stack = makers.stack = stack.pop_all()

    @contextmanager
    def with_suspect(self, target: Target) -> Iterator[DifferentialOracle]:
        """The same oracle with another suspect, in the same browser; it ends with the context."""
        suspect = self._makers.runtime(target)
        try:
            other = DifferentialOracle(
                self.name, self.reference, suspect, self.tolerance, self.timeout, self.expectation, self.slower
            )
            other.followed = self.followed
            yield other
        finally:
            suspect.close()

    @property
    def seconds_starting(self) -> float:
        """Seconds that starting runtimes took."""
        return sum(getattr(side, "seconds_start", 0.0) for side in (self.reference, self.suspect))

    def as_record(self) -> dict[str, Any]:
        """What `explain` needs to build this oracle again, with the noise floor learnt from the golden run."""
        return replace(self.spec, tolerance=self.tolerance).to_json() | {"ort_web": self._makers.setup.ort_web}

    def close(self) -> None:
        """Release runtimes and browser."""
        self._stack.close()


class _Makers:
    """One browser for all targets that need one."""

    def __init__(self, setup: Setup, stack: ExitStack) -> None:
        self.setup = setup
        self.stack = stack
        self._host: object = None

    def held(self, target: Target) -> Runtime:
        """A runtime that ends with the oracle."""
        runtime = self.runtime(target)
        self.stack.callback(runtime.close)
        return runtime

    def runtime(self, target: Target) -> Runtime:
        """A runtime that the caller closes."""
        runtime: Runtime
        if target.runtime == "ort-web":
            runtime = self._ort_web(target)
        elif target.runtime == "ort":
            from onnxreduce.runtimes.environments import INSTALL_SECONDS, python_for
            from onnxreduce.runtimes.python_ort import PythonOrt

            python = python_for(target, self.setup.report, self.setup.patience or INSTALL_SECONDS)
            runtime = PythonOrt(target, python, self.setup.memory)
        elif target.runtime == "onnx-reference":
            from onnxreduce.runtimes.reference import Reference

            runtime = Reference(target, self.setup.memory)
        else:
            raise BadInputError(f"unknown runtime {target.runtime!r} in target {target}; known: {', '.join(RUNTIMES)}")
        return runtime

    def _ort_web(self, target: Target) -> Runtime:
        from onnxreduce.runtimes.browser.host import BrowserHost
        from onnxreduce.runtimes.browser.remote import Remote
        from onnxreduce.runtimes.packages import FETCH_SECONDS, ort_web_package

        wanted = self.setup.ort_web or target.version
        if wanted is None:
            raise BadInputError(f"target {target} names no version; write ort-web@VERSION/{target.provider or 'wasm'}")
        package = ort_web_package(wanted, report=self.setup.report, seconds=self.setup.patience or FETCH_SECONDS)
        if self._host is None:
            setup = self.setup
            remote = Remote(setup.connect, setup.listen or "", setup.address or "") if setup.connect else None
            host = BrowserHost(setup.browser, setup.adapter, setup.headed, remote)  # type: ignore[arg-type]
            self.stack.callback(host.close)
            self._host = host
        assert isinstance(self._host, BrowserHost)
        named = target if Path(wanted).exists() else target.with_version(package.version)
        return self._host.runtime(named, package)
