"""Gives memory back to the system after a peak, as far as the C library allows that.

The allocator of glibc keeps what was freed, for the life of the process, unless it lies at the end of the heap. So a broker that
once had a gigabyte of requests in memory would keep much of it. Two things are done about that:

- Blocks of LARGE_BLOCK_BYTES and more are mapped, each on its own, and go back when they are freed. glibc does that too, but
  moves the bound up to 32 MB when such a block is freed.
- For the rest, `look` runs every LOOK_MS: while the process has GROWN_BYTES more than it had at first, `malloc_trim` gives back
  the free pages, in a thread. If they were fewer than an eighth of GROWN_BYTES, the next try waits twice as long, up to
  WAIT_MS_MAX, or until the process has grown by GROWN_BYTES again.

Cost
    A trim holds the allocator, and with it the loop, for about 0.13 ms for each MB that it gives back. A mapped block costs a
    page fault for each 4 kB.

With another C library, nothing is done.

Source: mallopt(3), malloc_trim(3), proc(5).
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.broker.periodic import Periodic
    from pybroker.clock import Clock

logger = logging.getLogger(__name__)

LARGE_BLOCK_BYTES: Final = 4 << 20
FREE_END_BYTES: Final = 2 * LARGE_BLOCK_BYTES
"""More than this at the end of the heap goes back when it is freed. With half of it, produces of 200 kB would give their pages
back and fault them in again, one after the other."""
GROWN_BYTES: Final = 32 << 20
LOOK_MS: Final = 5_000
WAIT_MS_MAX: Final = 600_000

_STATM: Final = Path("/proc/self/statm")
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def trim_function() -> Callable[[], object] | None:
    """Set the allocator's bounds. Returns the function that gives free memory back; None where the C library has none."""
    try:
        import ctypes  # noqa: PLC0415 - not every Python has it

        library = ctypes.CDLL(None)
        trim, set_bound = library.malloc_trim, library.mallopt
    except (ImportError, OSError, AttributeError):
        return None
    set_bound(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    set_bound(_M_TRIM_THRESHOLD, FREE_END_BYTES)
    return lambda: trim(0)


def anonymous_bytes() -> int:
    """Return the resident memory of this process that is no file's. Raises OSError where there is no /proc."""
    _, resident, shared, *_ = _STATM.read_text("ascii").split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class FreeMemory:
    """Watches the memory of the process, and gives back what is free after a peak.

    Args:
        trim: gives free memory back to the system; called in a thread.
        resident_bytes: the memory that the process has.

    Attributes:
        given_back_bytes: all that the process had less after a trim than before it.
    """

    __slots__ = (
        "_clock",
        "_due_ms",
        "_first_bytes",
        "_is_trimming",
        "_last_bytes",
        "_resident_bytes",
        "_trim",
        "_wait_ms",
        "given_back_bytes",
    )

    def __init__(self, clock: Clock, trim: Callable[[], object], resident_bytes: Callable[[], int] = anonymous_bytes) -> None:
        self._clock = clock
        self._trim = trim
        self._resident_bytes = resident_bytes
        self._first_bytes = self._last_bytes = resident_bytes()
        self._wait_ms = LOOK_MS
        self._due_ms = clock.monotonic_ms()
        self._is_trimming = False
        self.given_back_bytes = 0

    def look(self) -> None:
        """Begin a trim if the memory has grown and a trim is due."""
        if self._is_trimming:
            return
        resident, now_ms = self._resident_bytes(), self._clock.monotonic_ms()
        if resident - self._last_bytes >= GROWN_BYTES:  # it has grown since the last trim, so there was a peak
            self._wait_ms, self._due_ms = LOOK_MS, now_ms
        if resident - self._first_bytes >= GROWN_BYTES and now_ms >= self._due_ms:
            self._is_trimming = True
            trimming = asyncio.get_running_loop().run_in_executor(None, self._trim)
            trimming.add_done_callback(lambda _: self._trimmed(resident))

    def _trimmed(self, before_bytes: int) -> None:
        self._is_trimming = False
        self._last_bytes = self._resident_bytes()
        given_back = max(0, before_bytes - self._last_bytes)
        self.given_back_bytes += given_back
        is_worth_it = given_back >= GROWN_BYTES // 8
        if is_worth_it:
            logger.info(
                "Gave %d MB of free memory back to the system; the broker has %d MB", given_back >> 20, self._last_bytes >> 20
            )
        self._wait_ms = LOOK_MS if is_worth_it else min(2 * self._wait_ms, WAIT_MS_MAX)
        self._due_ms = self._clock.monotonic_ms() + self._wait_ms


def watch_free_memory(periodic: Periodic, clock: Clock) -> FreeMemory | None:
    """Look at the memory from now on. Returns None, and does nothing, where the system does not allow it."""
    trim = trim_function()
    if trim is None or not _STATM.exists():
        return None
    memory = FreeMemory(clock, trim)
    periodic.every(LOOK_MS, memory.look)
    return memory
