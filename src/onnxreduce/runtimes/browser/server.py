"""The local web server between Python and the page: it hands out the page, runtimes and tensors, and takes results.

Anything on this machine could call a server on 127.0.0.1, other users' programs and any web page in any browser
included. So every request must carry a secret in its path and name this very server as its host, and a browser must
say that it comes from our own page; everything else is refused without a hint. Names are looked up in tables, never
joined to a folder.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from aiohttp import web

from onnxreduce.graph.tensors import Blob
from onnxreduce.runtimes.packages import RuntimePackage

RESULT_LIMIT = 4 << 30  # bytes of one result; wasm32's memory ends there, so no session can hold more

_PIECE = 1 << 20  # bytes written at once, so that a large blob does not hold up the loop
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
}
# The first three make the page cross-origin isolated: SharedArrayBuffer for threads, and fine clocks.
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval'; worker-src 'self' blob:; "
        "connect-src 'self' blob: data:; img-src data:; frame-src 'self'; frame-ancestors 'self'; "
        "base-uri 'none'; form-action 'none'"
    ),
}
_FOREVER = "public, max-age=31536000, immutable"  # the secret in the path makes each run's addresses its own


class LocalServer:
    """Serves one host; all methods belong to the event loop that started it."""

    def __init__(self, place: tuple[str, int] = ("127.0.0.1", 0), origin: str = "") -> None:
        self._place = place
        self._origin = origin
        self._token = secrets.token_urlsafe(24)
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._page = _page_files()
        self._runtimes: dict[str, dict[str, Path]] = {}
        self._runtime_ids: dict[Path, str] = {}
        self._blobs: dict[str, Blob] = {}
        self._lent: Counter[str] = Counter()
        self._results: dict[str, asyncio.Future[bytearray]] = {}

    @property
    def origin(self) -> str:
        """Scheme, address and port under which the page finds the server."""
        return self._origin or f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._port

    async def start(self) -> None:
        """Listen, on a free port of 127.0.0.1 unless told otherwise."""
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=3600)
        await self._runner.setup()
        site = web.TCPSite(self._runner, *self._place)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def url(self, *parts: str) -> str:
        """The address of a path, secret included."""
        return "/".join((self.origin, self._token, *parts))

    def add_runtime(self, package: RuntimePackage) -> str:
        """Offer the files of a package's `dist` by name; returns the address of the folder."""
        dist = package.dist.resolve()
        if dist not in self._runtime_ids:
            number = str(len(self._runtimes))
            self._runtime_ids[dist] = number
            self._runtimes[number] = {
                path.name: path for path in dist.iterdir() if path.suffix in (".mjs", ".js", ".wasm") and path.is_file()
            }
        return self.url("runtime", self._runtime_ids[dist])

    @contextmanager
    def lend(self, blobs: Iterable[Blob]) -> Iterator[None]:
        """Offer blobs by digest while the block runs."""
        held = list(blobs)
        for blob in held:
            self._blobs[blob.digest] = blob
            self._lent[blob.digest] += 1
        try:
            yield
        finally:
            for blob in held:
                self._lent[blob.digest] -= 1
                if not self._lent[blob.digest]:
                    del self._lent[blob.digest]
                    del self._blobs[blob.digest]

    @contextmanager
    def expect(self, job: str) -> Iterator[asyncio.Future[bytearray]]:
        """Take one result for `job` while the block runs."""
        future: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        self._results[job] = future
        try:
            yield future
        finally:
            del self._results[job]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not self._trusted(request):
            return _refused(403)
        parts = request.raw_path.partition("?")[0].split("/")[2:]
        match request.method, parts:
            case "GET", ["page", name] if name in self._page:
                return _whole(self._page[name], name)
            case "GET", ["runtime", number, name] if name in self._runtimes.get(number, {}):
                return web.FileResponse(
                    self._runtimes[number][name],
                    headers={**_HEADERS, "Cache-Control": _FOREVER, "Content-Type": _TYPES[Path(name).suffix]},
                )
            case "GET", ["blob", digest] if digest in self._blobs:
                return await _stream(request, self._blobs[digest])
            case "POST", ["result", job] if job in self._results:
                return await self._take(request, job)
            case _:
                return _refused(404)

    def _trusted(self, request: web.Request) -> bool:
        """Whether the request comes from our own page: host, secret, and what the browser says about its origin."""
        given = request.raw_path.partition("?")[0].split("/")
        token = given[1] if len(given) > 1 else ""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return False
        headers: Mapping[str, str] = request.headers
        return (
            headers.get("Host") == self.origin.partition("://")[2]
            and headers.get("Origin", self.origin) == self.origin
            # `none` is what a navigation by the browser itself says, such as our first one.
            and headers.get("Sec-Fetch-Site", "same-origin") in ("same-origin", "none")
        )

    async def _take(self, request: web.Request, job: str) -> web.StreamResponse:
        future = self._results[job]
        length = request.content_length
        if length is None or length > RESULT_LIMIT or future.done():
            return _refused(413 if not future.done() else 409)
        body = bytearray()
        async for piece in request.content.iter_any():
            body += piece
            if len(body) > length:
                return _refused(413)
        if len(body) == length and not future.done():
            future.set_result(body)
        return web.Response(status=204, headers={**_HEADERS, "Cache-Control": "no-store"})


def _page_files() -> dict[str, bytes]:
    folder = resources.files("onnxreduce.runtimes.browser") / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith((".html", ".js"))}


def _refused(status: int) -> web.Response:
    return web.Response(status=status, headers={**_HEADERS, "Cache-Control": "no-store"})


def _whole(content: bytes, name: str) -> web.Response:
    headers = {**_HEADERS, "Cache-Control": _FOREVER, "Content-Type": _TYPES[Path(name).suffix]}
    return web.Response(body=content, headers=headers)


async def _stream(request: web.Request, blob: Blob) -> web.StreamResponse:
    headers = {**_HEADERS, "Cache-Control": "no-store", "Content-Type": "application/octet-stream"}
    view = blob.view()
    if blob.length <= _PIECE:
        return web.Response(body=bytes(view), headers=headers)
    response = web.StreamResponse(headers=headers)
    response.content_length = blob.length
    await response.prepare(request)
    for start in range(0, blob.length, _PIECE):
        await response.write(view[start : start + _PIECE])
    await response.write_eof()
    return response
