"""A second, real Chromium that was started by somebody else, reached over its own protocol."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import children
import faults
import pytest
from test_python_ort import endless, is_right, negation

from onnxreduce.errors import BadInputError, SetupError
from onnxreduce.runtimes.base import Status
from onnxreduce.runtimes.browser.find import find_browser, launch_flags, sandbox_possible
from onnxreduce.runtimes.browser.host import BrowserHost
from onnxreduce.runtimes.browser.ort_web import OrtWebRuntime
from onnxreduce.runtimes.browser.remote import Remote
from onnxreduce.runtimes.packages import ort_web_package
from onnxreduce.runtimes.target import Target

ENOUGH = 60.0
browser = pytest.mark.browser


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pages(address: str) -> set[str]:
    with urllib.request.urlopen(f"{address}/json/list", timeout=5) as answer:
        return {page["id"] for page in json.load(answer)}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chromium that is none of ours."""
    try:
        program = find_browser().executable
    except SetupError as error:
        pytest.skip(str(error))
    if program is None:
        pytest.skip("no installed browser")
    address = f"http://127.0.0.1:{(port := free_port())}"
    profile = tmp_path_factory.mktemp("profile")
    flags = [*launch_flags("software", headed=False), *([] if sandbox_possible() else ["--no-sandbox"]), "--headless"]
    command = [str(program), *flags, f"--remote-debugging-port={port}", f"--user-data-dir={profile}", "about:blank"]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        for _ in range(200):
            try:
                pages(address)
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        if os.name == "posix":
            os.killpg(child.pid, 9)
        child.kill()
        child.wait()
        shutil.rmtree(profile, ignore_errors=True)


def runtime(host: BrowserHost, text: str) -> OrtWebRuntime:
    target = Target.parse(text)
    try:
        return host.runtime(target, ort_web_package(target.version or ""))
    except SetupError as error:
        pytest.skip(f"no package to run: {error}")


@browser
def test_it_runs_there_and_leaves_the_browser_as_it_was(elsewhere: str) -> None:
    before = pages(elsewhere)
    with BrowserHost(remote=Remote(elsewhere)) as host:
        there = runtime(host, "ort-web@1.27.0/webgpu")
        assert is_right(there.run(negation(), timeout=ENOUGH))
        assert is_right(there.run(negation(), timeout=ENOUGH, fresh=True))
        facts = there.describe()
        assert elsewhere in facts["browser"]
        assert "headless" not in facts
        assert host.processes() == []
    assert pages(elsewhere) == before


@browser
def test_a_hang_ends_its_page_alone(elsewhere: str) -> None:
    with BrowserHost(remote=Remote(elsewhere)) as host:
        there = runtime(host, "ort-web@1.27.0/wasm")
        assert there.run(endless(), timeout=2).status is Status.HANG
        assert is_right(there.run(negation(), timeout=ENOUGH))


@browser
def test_another_name_and_a_fixed_port_reach_the_same_server(elsewhere: str) -> None:
    port = free_port()
    remote = Remote(elsewhere, listen=str(port), address=f"http://localhost:{port}/")
    with BrowserHost(remote=remote) as host:
        assert is_right(runtime(host, "ort-web@1.27.0/webgpu").run(negation(), timeout=ENOUGH))
        assert host.server.origin == f"http://localhost:{port}"


@browser
def test_the_command_line_names_browser_port_and_address(elsewhere: str, tmp_path: Path) -> None:
    model, data = faults.save(faults.healthy(), tmp_path)
    address = f"http://localhost:{(port := free_port())}"
    asked = ["--oracle", "wasm-vs-cpu", "--connect", elsewhere, "--listen", str(port), "--address", address]
    done = children.onnxreduce("check", model, "--inputs", data, *asked, cwd=tmp_path)
    if done.code == 3:
        pytest.skip(f"no package to run: {done.err}")
    assert (done.code, "agrees: 1 output" in done.out) == (0, True), done.err


@browser
def test_a_server_that_cannot_be_reached_says_how_to_make_a_tunnel(elsewhere: str) -> None:
    address = f"http://localhost:{free_port()}"
    with BrowserHost(remote=Remote(elsewhere, address=address)) as host, pytest.raises(SetupError) as caught:
        runtime(host, "ort-web@1.27.0/wasm").run(negation(), timeout=ENOUGH)
    assert address in str(caught.value)
    assert "adb reverse" in str(caught.value)
    assert host._server is not None
    assert host._server._token not in str(caught.value)


@browser
def test_an_adapter_that_does_not_fit_is_refused(elsewhere: str) -> None:
    with (
        BrowserHost(adapter="hardware", remote=Remote(elsewhere)) as host,
        pytest.raises(SetupError, match="not hardware"),
    ):
        runtime(host, "ort-web@1.27.0/webgpu").run(negation(), timeout=ENOUGH)


@browser
@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_nobody_answers(scheme: str) -> None:
    remote = Remote(f"{scheme}://127.0.0.1:{free_port()}/")
    with BrowserHost(remote=remote) as host, pytest.raises(SetupError, match="does not answer"):
        host.browser_facts()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        remote = Remote("http://127.0.0.1:9222", listen=str(taken.getsockname()[1]))
        with BrowserHost(remote=remote) as host, pytest.raises(SetupError, match="cannot listen"):
            host.browser_facts()


@pytest.mark.parametrize(
    "words",
    [
        ("localhost:9222",),
        ("ftp://x",),
        ("ws://",),
        ("http://h", "port"),
        ("http://h", "", "h:1"),
        ("http://h", "", "http://h/x"),
    ],
)
def test_what_is_no_address(words: tuple[str, ...]) -> None:
    with pytest.raises(BadInputError):
        Remote(*words)


def test_the_protocol_and_the_place_follow_the_address() -> None:
    assert Remote("http://phone:9222").over_cdp
    assert Remote("ws://phone:9222/devtools/browser/1").over_cdp
    assert not Remote("ws://machine:3000/secret").over_cdp
    assert str(Remote("ws://user:word@machine:3000/secret")) == "ws://machine:3000"
    assert Remote("http://h").place == ("127.0.0.1", 0)
    assert Remote("http://h", "9000").place == ("127.0.0.1", 9000)
    assert Remote("http://h", "0.0.0.0:9000").place == ("0.0.0.0", 9000)
