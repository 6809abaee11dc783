"""The local server answers our own page and nobody else."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from onnxreduce.graph.tensors import Blob
from onnxreduce.runtimes.browser.server import LocalServer
from onnxreduce.runtimes.packages import RuntimePackage


@contextmanager
def serving(tmp_path: Path) -> Iterator[tuple[LocalServer, asyncio.AbstractEventLoop, str]]:
    """A server with one runtime package; gives the address of that package's folder too."""
    dist = tmp_path / "dist"
    dist.mkdir()
    (dist / "ort.min.mjs").write_text("export default 1;")
    (dist / "notes.txt").write_text("not for the page")
    (tmp_path / "secret.mjs").write_text("outside")
    loop = asyncio.new_event_loop()
    server = LocalServer()
    loop.run_until_complete(server.start())
    try:
        yield server, loop, server.add_runtime(RuntimePackage("local", dist, "test"))
    finally:
        loop.run_until_complete(server.close())
        loop.close()


def ask(
    loop: asyncio.AbstractEventLoop,
    server: LocalServer,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> tuple[int, bytes, http.client.HTTPMessage]:
    """The answer to a request that goes over the wire exactly as given."""

    def send() -> tuple[int, bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(server.origin).port, timeout=10)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": urlsplit(server.origin).netloc, **(headers or {})}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    return loop.run_until_complete(loop.run_in_executor(None, send))


def path_of(url: str) -> str:
    return urlsplit(url).path


def test_it_serves_the_page_runtimes_and_lent_blobs(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, loop, runtime):
        status, body, headers = ask(loop, server, path_of(server.url("page", "host.html")))
        assert status == 200
        assert b"host.js" in body
        assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        status, body, headers = ask(loop, server, path_of(runtime) + "/ort.min.mjs")
        assert (status, body) == (200, b"export default 1;")
        assert headers["Content-Type"].startswith("text/javascript")
        assert "immutable" in headers["Cache-Control"]
        (tmp_path / "weights").write_bytes(bytes(range(256)) * 20_000)
        for blob in (Blob.from_bytes(b"abc"), Blob.from_file(tmp_path / "weights", offset=5, length=4_000_000)):
            with server.lend([blob]):
                status, body, headers = ask(loop, server, path_of(server.url("blob", blob.digest)))
                assert (status, body) == (200, bytes(blob.view()))
                assert headers["Cache-Control"] == "no-store"
            assert ask(loop, server, path_of(server.url("blob", blob.digest)))[0] == 404


def test_a_blob_lent_twice_stays_until_the_last_return(tmp_path: Path) -> None:
    blob = Blob.from_bytes(b"abc")
    with serving(tmp_path) as (server, loop, _):
        path = path_of(server.url("blob", blob.digest))
        with server.lend([blob, blob]):
            with server.lend([blob]):
                pass
            assert ask(loop, server, path)[0] == 200
        assert ask(loop, server, path)[0] == 404


def test_strangers_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, loop, _):
        path = path_of(server.url("page", "host.html"))
        token = path.split("/")[1]
        port = urlsplit(server.origin).port
        for wrong in ("/", "/page/host.html", f"/{token[:-1]}.", f"/{token}x/page/host.html", "/%C3%A9/page/x"):
            assert ask(loop, server, wrong)[0] in (400, 403)
        for host in (
            "localhost",
            f"localhost:{port}",
            "127.0.0.1",
            f"evil.example:{port}",
            f"127.0.0.1:{port + 1}",
            "",
        ):
            assert ask(loop, server, path, headers={"Host": host})[0] in (400, 403)
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert ask(loop, server, path, headers=headers)[0] == 403
        assert ask(loop, server, path, headers={"Origin": server.origin, "Sec-Fetch-Site": "same-origin"})[0] == 200


def test_only_named_things_can_be_had(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, loop, runtime):
        root = path_of(server.url("x"))[:-2]
        folder = path_of(runtime)
        for path in (
            root,
            f"{root}/",
            f"{root}/page",
            f"{root}/page/",
            f"{root}/page/nothing.html",
            f"{root}/page/../page/host.html",
            f"{root}/page/..%2fserver.py",
            f"{root}/page/%2e%2e/server.py",
            folder,
            f"{folder}/",
            f"{folder}/notes.txt",
            f"{folder}/../secret.mjs",
            f"{folder}/..%2fsecret.mjs",
            f"{folder}/%2e%2e%2fsecret.mjs",
            f"{folder}/..\\secret.mjs",
            f"{folder}//etc/passwd",
            f"{root}/runtime/7/ort.min.mjs",
            f"{root}/blob/{'0' * 32}",
            f"{root}/blob/..%2f..%2fetc%2fpasswd",
        ):
            assert ask(loop, server, path)[0] == 404, path
        page = f"{root}/page/host.html"
        for method in ("PUT", "DELETE", "POST", "OPTIONS", "HEAD"):
            assert ask(loop, server, page, method=method, body=b"")[0] == 404


def test_only_expected_results_are_taken_and_once(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, loop, _):
        path = path_of(server.url("result", "7"))
        assert ask(loop, server, path, method="POST", body=b"early")[0] == 404
        with loop_expect(server, loop, "7") as future:
            assert ask(loop, server, path_of(server.url("result", "8")), method="POST", body=b"other")[0] == 404
            assert ask(loop, server, path, method="GET")[0] == 404
            huge = {"Content-Length": str(1 << 40)}
            assert ask(loop, server, path, method="POST", headers=huge)[0] == 413
            assert not future.done()
            assert ask(loop, server, path, method="POST", body=b"x" * 3_000_000)[0] == 204
            assert bytes(future.result()) == b"x" * 3_000_000
            assert ask(loop, server, path, method="POST", body=b"again")[0] == 409
        assert ask(loop, server, path, method="POST", body=b"late")[0] == 404


@contextmanager
def loop_expect(server: LocalServer, loop: asyncio.AbstractEventLoop, job: str) -> Iterator[asyncio.Future[bytearray]]:
    """`server.expect` entered on its own loop."""

    async def enter() -> tuple[object, asyncio.Future[bytearray]]:
        manager = server.expect(job)
        return manager, manager.__enter__()

    manager, future = loop.run_until_complete(enter())
    try:
        yield future
    finally:
        manager.__exit__(None, None, None)  # type: ignore[attr-defined]


def test_a_truncated_result_is_not_one(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, loop, _), loop_expect(server, loop, "7") as future:
        netloc = urlsplit(server.origin)

        def send() -> None:
            with socket.create_connection((netloc.hostname, netloc.port), timeout=5) as link:
                path = path_of(server.url("result", "7"))
                link.sendall(
                    f"POST {path} HTTP/1.1\r\nHost: {netloc.netloc}\r\nContent-Length: 100\r\n\r\nshort".encode()
                )

        loop.run_until_complete(loop.run_in_executor(None, send))
        loop.run_until_complete(asyncio.sleep(0.1))
        assert not future.done()


def test_each_run_has_its_own_secret() -> None:
    pages = {LocalServer().url("page") for _ in range(3)}
    assert len(pages) == 3
