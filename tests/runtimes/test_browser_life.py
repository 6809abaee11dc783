"""Hangs, killed processes, interrupts: every one is told as what it was, and the next run works."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import make_runtime
from web_models import add, endless, slow

from onnxreduce.errors import SetupError
from onnxreduce.runtimes.base import RunResult, Status
from onnxreduce.runtimes.browser.adapter import is_software
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime

pytestmark = pytest.mark.browser

WASM = "ort-web@1.27.0/wasm"
JSEP = "ort-web@1.27.0/webgpu"
SECONDS = 60.0


def of_type(host: BrowserHost, kind: str) -> list[psutil.Process]:
    """The host's browser processes of a kind such as `renderer`; the main process has the kind ''."""
    found = []
    for process in host.processes():
        kinds = [word.partition("=")[2] for word in process.cmdline() if word.startswith("--type=")]
        if (kinds or [""])[0] == kind:
            found.append(process)
    return found


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def kill(processes: list[psutil.Process]) -> None:
    assert processes
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def run_and(disturb: Callable[[], object], web: OrtWebRuntime) -> RunResult:
    """Run the endless model, and do something to it after a second."""
    timer = threading.Timer(1.0, disturb)
    timer.start()
    try:
        return web.run(endless(), timeout=20)
    finally:
        timer.join()


def works(web: OrtWebRuntime) -> bool:
    result = web.run(add(), timeout=SECONDS)
    return (result.status, result.message) == (Status.OK, "")


@pytest.mark.parametrize("target", [WASM, JSEP])
def test_a_busy_page_is_killed_in_time(new_host: BrowserHost, target: str) -> None:
    web = make_runtime(new_host, target)
    assert works(web)
    before = new_host.processes()
    begun = time.monotonic()
    result = web.run(endless(), timeout=1.5)
    assert result.status is Status.HANG
    assert result.seconds_run == 1.5
    assert time.monotonic() - begun < 4
    assert not alive(before)
    assert works(web)


def test_a_killed_renderer_is_told(new_host: BrowserHost) -> None:
    web = make_runtime(new_host, WASM)
    assert works(web)
    result = run_and(lambda: kill(of_type(new_host, "renderer")), web)
    assert result.status is Status.DEAD
    assert works(web)


def test_a_killed_browser_is_told(new_host: BrowserHost) -> None:
    web = make_runtime(new_host, WASM)
    assert works(web)
    before = new_host.processes()
    result = run_and(lambda: kill(of_type(new_host, "")), web)
    assert result.status is Status.DEAD
    assert not alive(before)
    assert works(web)


def test_a_browser_that_died_between_runs_is_replaced(new_host: BrowserHost) -> None:
    web = make_runtime(new_host, JSEP)
    for kind in ("renderer", "", "gpu-process"):
        assert works(web)
        kill(of_type(new_host, kind))
        time.sleep(0.3)
    assert works(web)


def test_a_dead_playwright_driver_is_replaced(new_host: BrowserHost) -> None:
    web = make_runtime(new_host, WASM)
    assert works(web)
    browsers = new_host.processes()
    (driver,) = {parent for p in of_type(new_host, "") for parent in p.parents() if "node" in parent.name()}
    driver.kill()
    time.sleep(0.5)
    assert works(web)
    assert not alive(browsers)


def test_a_lost_device_is_told(new_host: BrowserHost) -> None:
    """The GPU process dies under a run that needs it; a JSEP run then never settles."""
    if not is_software(new_host.adapter_facts()):
        pytest.skip("a GPU is too fast to be caught at work")
    web = make_runtime(new_host, JSEP)
    assert works(web)
    timer = threading.Timer(1.0, lambda: kill(of_type(new_host, "gpu-process")))
    timer.start()
    result = web.run(slow(), timeout=30)
    timer.join()
    assert result.status is Status.LOST_DEVICE
    assert "lost" in result.message
    assert works(web)


def test_nothing_is_left_after_close(host: BrowserHost) -> None:
    profiles = set(Path(tempfile.gettempdir()).glob("playwright*"))
    with BrowserHost() as own:
        assert works(make_runtime(own, WASM))
        processes = own.processes() + [p for p in psutil.Process().children() if "playwright" in " ".join(p.cmdline())]
        assert len(own.processes()) >= 3
        ours = own.processes()
    assert not alive(ours)
    own.close()  # once more does no harm
    assert set(Path(tempfile.gettempdir()).glob("playwright*")) <= profiles
    assert processes
    with pytest.raises(SetupError, match="closed"):
        own.browser_facts()


SCRIPT = """
import sys, threading, time
sys.path[:0] = {paths!r}
from web_models import add, endless
from conftest import make_runtime
from onnxreduce.runtimes.browser.host import BrowserHost

host = BrowserHost()
web = make_runtime(host, {target!r})
assert web.run(add(), timeout=60).status.value == "ok"
print(*[p.pid for p in host.processes()], flush=True)
{ending}
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are sent the POSIX way")
@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("raise ValueError('boom')", id="exception"),
        pytest.param("web.run(endless(), timeout=60)", id="ctrl-c in a run"),
        pytest.param("time.sleep(60)", id="ctrl-c between runs"),
        pytest.param("time.sleep(60)", id="killed outright"),
    ],
)
def test_nothing_is_left_when_the_program_ends_badly(
    host: BrowserHost, ending: str, request: pytest.FixtureRequest
) -> None:
    profiles = set(Path(tempfile.gettempdir()).glob("playwright*"))
    source = Path(__file__).parents[2] / "src"
    script = textwrap.dedent(SCRIPT).format(paths=[str(Path(__file__).parent), str(source)], target=WASM, ending=ending)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    browsers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
    assert browsers
    name = request.node.callspec.id
    if "ctrl-c" in name:
        time.sleep(0.7)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    elif "killed" in name:
        process.kill()
    process.communicate(timeout=30)
    assert process.returncode != 0
    deadline = time.monotonic() + 10
    while (left := alive(browsers) or set(Path(tempfile.gettempdir()).glob("playwright*")) - profiles) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.1)
    assert not left


def test_the_adapter_mode_is_kept(new_host: BrowserHost) -> None:
    """Hardware where there is any; a software adapter never passes for it."""
    facts = new_host.adapter_facts()
    if is_software(facts):
        with pytest.raises(SetupError, match="software adapter"):
            new_host.adapter_facts("hardware")
    else:
        assert not is_software(new_host.adapter_facts("hardware"))
    assert is_software(new_host.adapter_facts("software"))
