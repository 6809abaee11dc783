"""A browser that runs elsewhere, on a phone or another machine, and is reached over a socket.

Two ways lead to one: Chrome's own protocol (`http://HOST:PORT`, or `ws://.../devtools/browser/...`), which any Chrome
offers that was started with `--remote-debugging-port`, and a Playwright server (`ws://HOST:PORT/...`).

The page in that browser must reach our local server, and WebGPU exists only on secure origins, of which `127.0.0.1`
and `localhost` are the ones that need no certificate. So where the browser is not on this machine a tunnel brings our
port there: `adb reverse tcp:PORT tcp:PORT` for a phone, `ssh -R PORT:127.0.0.1:PORT HOST` for a machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from onnxreduce.errors import BadInputError


@dataclass(frozen=True)
class Remote:
    """Where the browser is, where our server listens for it, and at which address the page there finds the server.

    `listen` is `PORT` or `HOST:PORT` on this machine, by default any free port of 127.0.0.1; `address` is such as
    `http://localhost:9000`, by default 127.0.0.1 with the port that the server got.
    """

    url: str
    listen: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise BadInputError(f"--connect {self.url!r} is not of the form ws://HOST:PORT/... or http://HOST:PORT")
        if self.listen and not re.fullmatch(r"([^:]+:)?\d{1,5}", self.listen):
            raise BadInputError(f"--listen {self.listen!r} is not of the form PORT or HOST:PORT")
        if self.address and not re.fullmatch(r"https?://[^/?#@]+/?", self.address):
            raise BadInputError(f"--address {self.address!r} is not of the form http://HOST:PORT")

    @property
    def over_cdp(self) -> bool:
        """Whether it speaks Chrome's own protocol."""
        parts = urlsplit(self.url)
        return parts.scheme in ("http", "https") or parts.path.startswith("/devtools/")

    @property
    def place(self) -> tuple[str, int]:
        """Host and port on which our server listens; port 0 means any."""
        host, _, port = self.listen.rpartition(":")
        return host or "127.0.0.1", int(port or 0)

    @property
    def origin(self) -> str:
        """The address without a slash at its end, empty when the server's own will do."""
        return self.address.rstrip("/")

    def __str__(self) -> str:
        parts = urlsplit(self.url)  # the rest of the address may hold a secret
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
