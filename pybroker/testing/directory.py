"""The directory of a test broker's data: in memory where there is room, and removed at the end, whatever ends the process.

A process that is killed removes nothing. So each directory is locked while its process lives, and each start removes those of the
same user that no process has locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "pybroker-test-"
MEMORY: Final = Path("/dev/shm")  # noqa: S108  each directory in it belongs to one user
MEMORY_FREE_BYTES_MIN: Final = 1 << 30
"""With less room, such as the 64 MB that a container has by default, the data is where temporary files are."""


class Directory:
    """A new directory, locked until `remove`. A child that inherits `descriptor` keeps the lock."""

    def __init__(self) -> None:
        """Make the directory, after the removal of those that killed processes left. Raises OSError."""
        base = _base()
        _sweep(base)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
            if (descriptor := _lock(self.path)) is not None:
                break
        self.descriptor = descriptor

    def remove(self) -> None:
        """Remove the directory with everything in it; idempotent."""
        if self.descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.descriptor)
            self.descriptor = -1


def _base() -> Path:
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_BYTES_MIN:
        return MEMORY
    return Path(tempfile.gettempdir())


def _lock(path: Path) -> int | None:
    """Return a descriptor that locks a directory; None if another process has locked it, or has removed it just now."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None


def _sweep(base: Path) -> None:
    for path in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.getuid() and (descriptor := _lock(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(descriptor)
