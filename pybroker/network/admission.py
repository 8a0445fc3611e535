"""Decides when a connection may begin to receive a request: by memory (queued.max.request.bytes) and by number
(queued.max.requests).

A connection asks when the size of its next request is known. While there is no memory, or while too many requests are queued, the
connection waits here, muted, and gets its buffer the moment that there is memory: nothing polls. Only the connections that wait
are touched, so the cost does not grow with idle connections. KIP-72 mutes every connection that can be muted when memory is out.
The effect here is the same: an idle connection has nothing to read, and a connection that begins to send delivers no more than
the 4 bytes of a size before it is refused memory and muted.

While connections wait, nothing is free for a newcomer but the pool's reserve for small requests. Memory of the reserve that
becomes free goes to the connection that waits for the least. Of the rest, half of the bytes that become free go to that
connection, the other half to one that is drawn at random. So no connection starves: one that asks for much waits for the rest
only, and the reserve takes nothing from it. And strangers that announce large requests, and hold memory until their time is up,
do not keep out clients with small ones: these have the reserve. KIP-72 draws all at random; beside 500 such strangers a client
then waits for many minutes. While no connection waits, nothing is shuffled.

A queued request is one that has been received and waits only for its connection's next turn. That is what Kafka's request queue
holds, with the loop in the place of Kafka's handler threads. As in Kafka, a connection counts at most one queued request;
otherwise one deeply pipelined connection could fill the queue. A parked request does not count, nor does anything queued behind
it or behind a response that its peer does not read: counting those could block the very request that they wait for.

Source: KIP-72; Kafka's Selector (determineHandlingOrder), RequestChannel.
"""

from __future__ import annotations

import random
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pybroker.network.state import AdmissionState

if TYPE_CHECKING:
    from pybroker.network.memory_pool import MemoryPool, PooledBuffer


class Waiter(Protocol):
    """A connection whose next request has no memory yet."""

    bytes_wanted: int
    bytes_come: int

    def granted(self, buffer: PooledBuffer) -> None:
        """Take ownership of `buffer`: the memory is there. Must not call the request handler: it may run inside another's."""

    def failed(self, error: MemoryError) -> None:
        """Give up: the system has no memory for the request. As `granted`, it may run inside another connection's handling."""


class _Entry(NamedTuple):
    """A place in the heap of waiters. It is stale if its waiter has another number by now, or none."""

    bytes_wanted: int
    lot: float  # draws among those that want the same
    number: int
    waiter: Waiter


class Admission(AdmissionState):
    """The gate in front of the memory pool. `queued_requests` is the gauge for the queue's size."""

    __slots__ = (
        "_by_size",
        "_drawn",
        "_index",
        "_is_serving",
        "_lead_bytes",
        "_numbers",
        "_places",
        "_random",
        "_waiters",
    )

    def __init__(self, pool: MemoryPool, queued_requests_max: int, rng: random.Random | None = None) -> None:
        self.pool = pool
        self.queued_requests = 0
        self.queued_requests_max = queued_requests_max
        self._waiters: list[Waiter] = []
        self._index: dict[Waiter, int] = {}
        self._by_size: list[_Entry] = []  # a heap, with stale entries
        self._places: dict[Waiter, int] = {}  # the number of a waiter's entry in the heap
        self._numbers = count()
        self._drawn: Waiter | None = None  # comes next once the smallest were given as much as it wants
        self._lead_bytes = 0  # what the smallest were given more than those that were drawn, since a connection began to wait
        self._random = rng if rng is not None else random.Random()  # noqa: S311  (fairness, not secrecy)
        self._is_serving = False
        pool.on_available = self._serve

    @property
    def waiting(self) -> int:
        """The number of connections that wait."""
        return len(self._waiters)

    def try_allocate(self, size: int, *, come: int = 0) -> PooledBuffer | None:
        """Return memory for a request of `size` bytes, of which `come` have come, or None: the caller then calls `wait`.

        Raises MemoryError.
        """
        if self.queued_requests >= self.queued_requests_max:
            return None
        return self.pool.try_allocate(size, come=come)

    def wait(self, waiter: Waiter) -> None:
        """Put `waiter` into the queue for `waiter.bytes_wanted` bytes."""
        assert waiter not in self._index
        if self.pool.has_room(waiter.bytes_wanted):
            assert self.queued_requests >= self.queued_requests_max, "the waiter would never be served"
        self._index[waiter] = len(self._waiters)
        self._waiters.append(waiter)
        self._places[waiter] = number = next(self._numbers)
        heappush(self._by_size, _Entry(waiter.bytes_wanted, self._random.random(), number, waiter))

    def leave(self, waiter: Waiter) -> None:
        """Forget a waiter whose connection was lost."""
        position = self._index.pop(waiter)
        last = self._waiters.pop()
        if last is not waiter:
            self._waiters[position] = last
            self._index[last] = position
        del self._places[waiter]
        if waiter is self._drawn:
            self._drawn = None
        if not self._waiters:
            self._by_size.clear()
            self._lead_bytes = 0
        elif len(self._by_size) > 2 * len(self._waiters):  # at least half are stale: once for as many that left
            self._by_size = [entry for entry in self._by_size if self._is_current(entry)]
            heapify(self._by_size)

    def queue(self) -> None:
        """Count one more request that waits for its connection's turn."""
        self.queued_requests += 1

    def unqueue(self) -> None:
        """Count one queued request less: it went to the handler, or was lost with its connection."""
        was_full = self.queued_requests >= self.queued_requests_max
        self.queued_requests -= 1
        if was_full and self._waiters:
            self._serve()

    def _serve(self) -> None:
        if self._is_serving:  # the loop below serves the newcomer too
            return
        self._is_serving = True
        try:
            while self._waiters and self.queued_requests < self.queued_requests_max:
                waiter = self._next()
                if waiter is None:
                    break
                self.leave(waiter)
                try:
                    buffer = self.pool.try_allocate(waiter.bytes_wanted, come=waiter.bytes_come)
                except MemoryError as error:
                    waiter.failed(error)
                    continue
                assert buffer is not None, "there was room"
                waiter.granted(buffer)
        finally:
            self._is_serving = False

    def _next(self) -> Waiter | None:
        """Return the connection that gets memory now, or None: there is none for any that waits."""
        if self.pool.is_out_of_memory:
            smallest = self._smallest()
            return smallest if self.pool.has_room(smallest.bytes_wanted) else None
        drawn = self._drawn
        if drawn is None:
            self._drawn = drawn = self._waiters[self._random.randrange(len(self._waiters))]
        if self._lead_bytes >= drawn.bytes_wanted:
            self._lead_bytes -= drawn.bytes_wanted
            return drawn
        smallest = self._smallest()
        self._lead_bytes += smallest.bytes_wanted
        return smallest

    def _smallest(self) -> Waiter:
        while not self._is_current(self._by_size[0]):
            heappop(self._by_size)
        return self._by_size[0].waiter

    def _is_current(self, entry: _Entry) -> bool:
        return self._places.get(entry.waiter) == entry.number
