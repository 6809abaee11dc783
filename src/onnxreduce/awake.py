"""Waiting that does not count the time in which this process did not run.

A laptop sleeps, a container is paused, a shell stops a job: afterwards every clock says that whatever was waited for is
long overdue, although it did not run either. So a time limit is waited for in short looks, and no look counts for much
more than it was to take.
"""

from __future__ import annotations

import subprocess
import time

LOOK = 0.5
"""Seconds of one look."""
LONGEST = 4 * LOOK
"""Seconds that one look may count for: a busy machine wakes processes late, but not later than this."""


class Patience:
    """How many seconds of waiting are left, of `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._seen = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left now; not positive where there are none."""
        now = time.monotonic()
        self._left -= min(now - self._seen, LONGEST)
        self._seen = now
        return self._left

    @property
    def look(self) -> float:
        """Seconds for the next look, at least 0."""
        return max(min(self.left, LOOK), 0.0)


def communicate(child: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """As `Popen.communicate` with a time limit, by this clock; what was read is empty for streams that are no pipes.

    Raises subprocess.TimeoutExpired; the child lives on then.
    """
    patience = Patience(seconds)
    while True:
        look = patience.look
        try:
            out, err = child.communicate(timeout=look)
            return out or b"", err or b""
        except subprocess.TimeoutExpired:
            if not look:
                raise
