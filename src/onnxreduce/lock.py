"""A lock of the operating system on an open file: it ends with the process that holds it, however that ends."""

from __future__ import annotations

import os
import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    _BEYOND = 1 << 40
    """There the lock keeps nobody from reading what is written."""

    def locked(file: IO[bytes]) -> bool:
        """Lock a file for as long as it is open; False where another process, or another open file, has the lock."""
        os.lseek(file.fileno(), _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import errno
    import fcntl

    def locked(file: IO[bytes]) -> bool:
        """Lock a file for as long as it is open; False where another process, or another open file, has the lock.

        On a file system that has no locks every file can be locked.
        """
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
                raise
        return True
