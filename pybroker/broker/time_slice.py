"""Asks the scheduler to let the calling thread run soon after it wakes up, for short whiles.

The event loop mostly computes for less than a millisecond at a time. Beside a process that never sleeps, a thread that wakes up
waits for the other's time slice to end, often for several ms. A broker with many threads gets a core sooner, because each thread
has a share of its own. A scheduler that knows that the loop wants short slices lets it run first. The loop gets no larger share
of the core for that.

Linux has this since 6.12, for threads of the ordinary class, and without a privilege. Older kernels ignore the wish, and on other
systems nothing is done. Threads that the calling one starts have the system's slice again, unless the process has a negative
nice value, which they would lose then.

Source: sched_setattr(2); the fair scheduler (EEVDF) of Linux.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Final

SLICE_NS: Final = 100_000
"""The shortest that the kernel grants. Its default is 0.7 ms, and more with more cores."""

_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274}
"""The number of the system call sched_setattr, which few C libraries have a function for."""
_RESET_ON_FORK: Final = 1


def ask_for_short_slices() -> bool:
    """Ask for slices of SLICE_NS for the calling thread. Returns whether the system took the wish; an old kernel seems to."""
    number = _SET_ATTRIBUTES.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    try:
        import ctypes  # noqa: PLC0415 - not every Python has it

        call = ctypes.CDLL(None).syscall
    except (ImportError, OSError, AttributeError):
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _attributes(nice)
    return bool(call(number, 0, attributes, 0) == 0)


def _attributes(nice: int) -> bytes:
    """Return a struct sched_attr of the ordinary class, with this nice value, which the call would set to 0 otherwise."""
    flags = _RESET_ON_FORK if nice >= 0 else 0
    fields = (os.SCHED_OTHER.to_bytes(4, sys.byteorder), flags.to_bytes(8, sys.byteorder))
    priorities = nice.to_bytes(4, sys.byteorder, signed=True) + bytes(4)
    slice_and_deadlines = SLICE_NS.to_bytes(8, sys.byteorder) + bytes(16)
    body = b"".join(fields) + priorities + slice_and_deadlines
    return (4 + len(body)).to_bytes(4, sys.byteorder) + body
