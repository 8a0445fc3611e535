"""Who may begin to receive a request: memory (queued.max.request.bytes) and number (queued.max.requests), both at once.

A connection asks when the size of its next request is known. While there is no memory, or while too many requests are queued,
it waits here, muted, and gets its buffer the moment that there is memory: nothing polls. The connections that wait are the only
ones that are touched, so the cost does not grow with idle connections. KIP-72 mutes every connection that can be muted when
memory is out; the effect here is the same, because an idle connection has nothing to read, and one that begins to send gives no
more than the 4 bytes of a size before it is refused and muted.

Who waits is served in random order, so none starves: as long as one waits nothing is free for a newcomer. As long as nobody
waits nothing is shuffled.

A queued request is one that has been received and waits for nothing but its connection's next turn: what Kafka's request queue
holds, with the loop in the place of its handler threads. As there, it is at most one per connection, or a single deep pipeline
would keep all others out; and neither a parked request is queued nor what stands behind it, or behind an answer that its peer
does not read, or they would keep out the very request that they wait for.

Source: KIP-72; Kafka's Selector (determineHandlingOrder), RequestChannel.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pybroker.network.memory_pool import MemoryPool, PooledBuffer


class Waiter(Protocol):
    """A connection whose next request has no memory yet."""

    bytes_wanted: int

    def granted(self, buffer: PooledBuffer) -> None:
        """The memory is there; owned by the waiter now. Must not call the request handler: it may run inside another's."""


class Admission:
    """The gate in front of the memory pool. `queued_requests` is the gauge for the queue's size."""

    __slots__ = ("_index", "_is_serving", "_random", "_waiters", "pool", "queued_requests", "queued_requests_max")

    def __init__(self, pool: MemoryPool, queued_requests_max: int, rng: random.Random | None = None) -> None:
        self.pool = pool
        self.queued_requests = 0
        self.queued_requests_max = queued_requests_max
        self._waiters: list[Waiter] = []
        self._index: dict[Waiter, int] = {}
        self._random = rng if rng is not None else random.Random()  # noqa: S311  (fairness, not secrecy)
        self._is_serving = False
        pool.on_available = self._serve

    @property
    def is_open(self) -> bool:
        """Whether a request may be received now."""
        return self.pool.used < self.pool.size and self.queued_requests < self.queued_requests_max

    @property
    def waiting(self) -> int:
        """How many connections wait."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> PooledBuffer | None:
        """Memory for a request of `size` bytes, or None: the caller then calls `wait`."""
        if self.queued_requests >= self.queued_requests_max:
            return None
        return self.pool.try_allocate(size)

    def wait(self, waiter: Waiter) -> None:
        """Let `waiter` wait for `waiter.bytes_wanted` bytes."""
        assert waiter not in self._index
        if not self.pool.is_out_of_memory:
            assert self.queued_requests >= self.queued_requests_max, "who waits would wait for ever"
        self._index[waiter] = len(self._waiters)
        self._waiters.append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """The waiter's connection died."""
        position = self._index.pop(waiter)
        last = self._waiters.pop()
        if last is not waiter:
            self._waiters[position] = last
            self._index[last] = position

    def queue(self) -> None:
        """One more request waits for its connection's turn."""
        self.queued_requests += 1

    def unqueue(self) -> None:
        """It went to the handler or died with its connection."""
        was_full = self.queued_requests >= self.queued_requests_max
        self.queued_requests -= 1
        if was_full and self._waiters:
            self._serve()

    def _serve(self) -> None:
        if self._is_serving:  # the loop below sees it
            return
        self._is_serving = True
        try:
            while self._waiters and self.is_open:
                waiter = self._waiters[self._random.randrange(len(self._waiters))]
                self.leave(waiter)
                buffer = self.pool.try_allocate(waiter.bytes_wanted)
                assert buffer is not None, "one byte was free"
                waiter.granted(buffer)
        finally:
            self._is_serving = False
