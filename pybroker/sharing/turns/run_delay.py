"""How long the kernel let a thread wait for a core although it could run.

Linux has it in `/proc/self/task/<thread>/schedstat`: time on a core, time waiting for one (both in ns), number of time slices. On
other systems there is no such account; 0 is reported there, so that a turn on a busy machine looks longer than it was.
"""

from __future__ import annotations

import os
import threading


class RunDelay:
    """The account of the thread that makes this object. Any thread may read it. Call `close` when it is no longer read."""

    __slots__ = ("descriptor",)

    def __init__(self) -> None:
        try:
            self.descriptor = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.descriptor = -1

    @property
    def is_known(self) -> bool:
        """Whether this system has the account."""
        return self.descriptor >= 0

    def waited_ns(self) -> int:
        """Return the time waited since the thread began; 0 where it is unknown. Takes about a microsecond."""
        if self.descriptor < 0:
            return 0
        try:
            fields = os.pread(self.descriptor, 80, 0).split()
        except OSError:  # the thread has ended
            return 0
        return int(fields[1]) if len(fields) > 1 else 0

    def close(self) -> None:
        """Give the descriptor back."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
