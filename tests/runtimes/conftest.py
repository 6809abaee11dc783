"""Browser tests share one host. Without a browser or a package they are skipped, and say why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime
from onnxreduce.runtimes.packages import ort_web_package
from onnxreduce.runtimes.target import Target


@pytest.fixture(scope="session")
def host() -> Iterator[BrowserHost]:
    with BrowserHost() as host:
        try:
            host.browser_facts()
        except SetupError as error:
            pytest.skip(f"no browser to drive: {error}")
        yield host


@pytest.fixture
def new_host(host: BrowserHost) -> Iterator[BrowserHost]:
    """A host of the test's own, where a browser is known to start."""
    with BrowserHost() as own:
        yield own


def make_runtime(host: BrowserHost, text: str) -> OrtWebRuntime:
    target = Target.parse(text)
    try:
        package = ort_web_package(target.version or "")
    except SetupError as error:
        pytest.skip(f"no package to run: {error}")
    return host.runtime(target, package)


@pytest.fixture
def runtime(host: BrowserHost) -> Iterator[Callable[[str], OrtWebRuntime]]:
    """Makes runtimes of the shared host from target texts, and closes them."""
    made: list[OrtWebRuntime] = []

    def make(text: str) -> OrtWebRuntime:
        made.append(make_runtime(host, text))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()
