"""The memory of incoming requests, bounded (KIP-72).

Idea
    A request asks for its memory when its size is known and gives it back when it has been handled. The pool never blocks: it
    refuses. While at least one byte is free it grants *any* size, so that large requests do not starve behind small ones; the
    available bytes may then be negative, and the true bound is size + socket.request.max.bytes - 1.
Reserve
    A sixteenth of the pool is for small requests: the free byte of the rule above must be in the rest of the pool. When there is
    none, a request of at most a quarter of what is free of the reserve gets its memory there. So large requests never take the
    reserve, requests of one size leave room in it for smaller ones, and it grants no more than it has.
Memory
    A large request is counted with its whole size, but memory is taken only for bytes that came: its buffer begins small, grows
    with what comes, and has no memory where nothing was written (`untouched.py`).
Cost
    O(1) per request, and a copy of an eighth of a large one; nothing depends on the number of connections.

A buffer that is collected without having been released is a bug of the broker: the pool logs it at error, counts it, and takes
its bytes back. Collection can run in any thread and inside any code, so it only notes the loss: the bytes come back at the pool's
next use, or when the loop runs the callback given to `call_soon_threadsafe`, whichever is first.

Source: KIP-72; Kafka's SimpleMemoryPool, GarbageCollectedMemoryPool.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pybroker.network.state import PoolState
from pybroker.network.untouched import resize, untouched

if TYPE_CHECKING:
    from pybroker.clock import Clock

logger = logging.getLogger(__name__)

UNBOUNDED: Final = 2**62
"""The number that an unbounded pool reports as available."""
FIRST_BYTES: Final = 128 * 1024
"""A buffer begins with at most this much, or with `GROWTH` times what has come."""
RESERVE_DIVISOR: Final = 16
"""The reserve is this part of the pool."""
RESERVE_TAKEN_DIVISOR: Final = 4
"""A request gets at most this part of what is free of the reserve."""
GROWTH: Final = 8
"""A buffer that is full becomes this many times larger. Pages that nothing was written to have no memory, except that a system
with huge pages for all programs may give some ahead: at most this many times what came.
"""


class PooledBuffer:
    """Exactly `size` bytes out of the pool. Owned by its allocator, which gives it back once with `MemoryPool.release`.

    `view` is the part that has memory: all of it once `grow` was called often enough. `is_of_reserve`: it counts in the reserve.
    """

    __slots__ = ("_memory", "_pool", "is_of_reserve", "size", "view")

    def __init__(self, pool: MemoryPool, size: int, *, come: int, is_of_reserve: bool) -> None:
        self._pool: MemoryPool | None = None
        self.size = size
        self.is_of_reserve = is_of_reserve
        self._memory = untouched(min(size, max(FIRST_BYTES, GROWTH * come)))
        self.view = memoryview(self._memory)
        self._pool = pool  # only now: a buffer that got no memory is not on loan, so the pool must not count it as lost

    def grow(self) -> None:
        """Replace `view` by a larger one, of at most `size` bytes. No slice of the old one may be left.

        Its content stays; the bytes behind that are undefined. Raises MemoryError: the buffer is then as it was.
        """
        self.view.release()
        try:
            resize(self._memory, min(self.size, GROWTH * len(self._memory)))
        finally:
            self.view = memoryview(self._memory)

    def __del__(self) -> None:
        pool = self._pool
        if pool is not None:
            pool._note_lost(self.size, is_of_reserve=self.is_of_reserve)


class MemoryPool(PoolState):
    """A bound on the bytes of requests that have been received, or are being received, and are not handled yet.

    Args:
        size: the bound in bytes (queued.max.request.bytes); if not positive, the memory is unbounded and only counted.
        clock: for the time without memory.

    Sensors
        used                        MemoryPoolUsed, bytes
        available                   MemoryPoolAvailable, bytes, may be negative
        average_depleted_percent()  MemoryPoolAvgDepletedPercent, as Kafka a share of 1 over about the last minute
        depleted_ms_total           MemoryPoolDepletedTimeTotal, ms
        lost_count, lost_bytes      buffers that were collected without release

    While `used` is below `open_below`, a request of any size gets memory.
    """

    __slots__ = (
        "_depleted_since_ms",
        "_lost",
        "_reserve_free",
        "_window",
        "call_soon_threadsafe",
        "clock",
        "depleted_ms_total",
        "lost_bytes",
        "lost_count",
        "on_available",
    )

    def __init__(self, size: int, clock: Clock) -> None:
        self.size = size if size > 0 else UNBOUNDED
        self._reserve_free = size // RESERVE_DIVISOR if size > 0 else 0
        self.open_below = self.size - self._reserve_free  # grows with what is used of the reserve, because `used` has that too
        self.clock = clock
        self.used = 0
        self.depleted_ms_total = 0
        self.lost_count = 0
        self.lost_bytes = 0
        self.on_available: Callable[[], None] | None = None  # called when a request that was refused may get memory
        self.call_soon_threadsafe: Callable[[Callable[[], None]], object] | None = None
        self._lost: deque[tuple[int, bool]] = deque()  # size, is_of_reserve; the garbage collector appends in any thread
        self._depleted_since_ms: int | None = None
        self._window = _DepletedWindow(clock.monotonic_ms())

    @property
    def available(self) -> int:
        """The free bytes; negative after the pool granted more than it had."""
        return self.size - self.used

    @property
    def is_out_of_memory(self) -> bool:
        """Whether nothing but the reserve can be allocated before something is released."""
        return self.used >= self.open_below

    def has_room(self, size: int) -> bool:
        """Return whether a request of `size` bytes gets memory now."""
        return self.used < self.open_below or size <= self._reserve_free // RESERVE_TAKEN_DIVISOR

    def try_allocate(self, size: int, *, come: int = 0) -> PooledBuffer | None:
        """Return a buffer of exactly `size` (> 0) bytes, owned by the caller until `release`; None when there is no room for it.

        `come`: how many bytes its view has to have place for. Raises MemoryError: nothing is counted then.
        """
        if size <= 0:
            raise ValueError(f"cannot allocate {size} bytes")
        if self._lost:
            self.reclaim_lost()
        if not self.has_room(size):
            self._note_refused()
            return None
        buffer = PooledBuffer(self, size, come=come, is_of_reserve=self.is_out_of_memory)
        self.used += size
        if buffer.is_of_reserve:
            self._reserve_free -= size
            self.open_below += size
        return buffer

    def release(self, buffer: PooledBuffer) -> None:
        """Take back `buffer`; its view must not be used any more.

        Raises:
            ValueError: the buffer was released before, or belongs to another pool.
        """
        if buffer._pool is not self:
            raise ValueError("the buffer is not on loan from this pool")
        buffer._pool = None
        self._give_back(buffer.size, is_of_reserve=buffer.is_of_reserve)

    def count(self, size: int) -> None:
        """Count `size` bytes that the caller has allocated for a request, whether there is room or not, until `uncount`."""
        self.used += size

    def uncount(self, size: int) -> None:
        """Count `size` bytes no more."""
        if size:
            self._give_back(size, is_of_reserve=False)

    def _note_refused(self) -> None:
        # A request is not read for lack of memory: the pool counts as depleted from now until memory is back.
        if self._depleted_since_ms is None:
            self._depleted_since_ms = self.clock.monotonic_ms()

    def reclaim_lost(self) -> None:
        """Give back the bytes of buffers that were collected without release."""
        while self._lost:
            size, is_of_reserve = self._lost.popleft()
            self.lost_count += 1
            self.lost_bytes += size
            logger.error("A request buffer of %d bytes was lost without release, which is a bug; its memory is given back", size)
            self._give_back(size, is_of_reserve=is_of_reserve)

    def average_depleted_percent(self) -> float:
        """Return the share (0 to 1) of the time in which a request waited for memory, over the last 30 to 60 s."""
        now_ms = self.clock.monotonic_ms()
        if self._depleted_since_ms is not None:  # count the part of a depletion that is already over
            self._end_depletion(now_ms)
            self._depleted_since_ms = now_ms
        return self._window.share(now_ms)

    def _give_back(self, size: int, *, is_of_reserve: bool) -> None:
        was_out = self.used >= self.open_below
        self.used -= size
        if is_of_reserve:
            self._reserve_free += size
            self.open_below -= size
        if not was_out:
            return
        is_out = self.used >= self.open_below
        if self._depleted_since_ms is not None and not is_out:
            self._end_depletion(self.clock.monotonic_ms())
        if self.on_available is not None and (is_of_reserve or not is_out):
            self.on_available()

    def _end_depletion(self, now_ms: int) -> None:
        assert self._depleted_since_ms is not None
        spell_ms = now_ms - self._depleted_since_ms
        self._depleted_since_ms = None
        self.depleted_ms_total += spell_ms
        self._window.add(now_ms=now_ms, spell_ms=spell_ms)

    def _note_lost(self, size: int, *, is_of_reserve: bool) -> None:
        self._lost.append((size, is_of_reserve))
        if self.call_soon_threadsafe is not None:
            try:
                self.call_soon_threadsafe(self.reclaim_lost)
            except RuntimeError:
                self.call_soon_threadsafe = None  # the loop is closed; the pool's next use reclaims it


class _DepletedWindow:
    """Two samples of 30 s, as Kafka's Rate: the total of both over the time since the older one began."""

    __slots__ = ("_current_ms", "_current_start_ms", "_previous_ms", "_previous_start_ms")

    SAMPLE_MS: Final = 30_000

    def __init__(self, now_ms: int) -> None:
        self._previous_start_ms = self._current_start_ms = now_ms
        self._previous_ms = self._current_ms = 0

    def add(self, *, now_ms: int, spell_ms: int) -> None:
        self._advance(now_ms)
        self._current_ms += spell_ms

    def share(self, now_ms: int) -> float:
        self._advance(now_ms)
        # A new window is not taken for a full one: as in Kafka, it counts as at least one whole sample.
        elapsed_ms = max(now_ms - self._previous_start_ms, self.SAMPLE_MS)
        return min(1.0, (self._previous_ms + self._current_ms) / elapsed_ms)

    def _advance(self, now_ms: int) -> None:
        age_ms = now_ms - self._current_start_ms
        if age_ms < self.SAMPLE_MS:
            return
        if age_ms < 2 * self.SAMPLE_MS:
            self._previous_start_ms, self._previous_ms = self._current_start_ms, self._current_ms
            self._current_start_ms += self.SAMPLE_MS
        else:  # nothing was recorded for a whole sample: the past is forgotten
            self._previous_start_ms, self._previous_ms = now_ms - self.SAMPLE_MS, 0
            self._current_start_ms = now_ms
        self._current_ms = 0
