"""A transport without a socket: the test delivers what the peer sends and decides when the peer reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.network.connection import Connection


class FakeTransport(asyncio.Transport):
    """A transport that collects what is written and delivers only while it is read.

    What is written stays unsent until the test calls `drain`. With more than `high` bytes unsent the transport calls `on_full`,
    as asyncio's transports call `pause_writing`; a forgetful transport does so only when its limits are set.

    Attributes:
        high: the high water mark; infinity stays, whatever limits are set.
        takes_all: whether the peer reads at once, so that nothing is ever unsent.
        limits: the high water marks that were set, in order.
        connection: the connection that gets what the test delivers.
    """

    def __init__(self, high: float = float("inf"), *, is_forgetful: bool = False, takes_all: bool = False) -> None:
        super().__init__()
        self.high = high
        self.is_forgetful = is_forgetful
        self.takes_all = takes_all
        self.unsent = 0
        self.limits: list[int] = []
        self.is_paused = False
        self.on_full: Callable[[], None] = lambda: None
        self.on_drained: Callable[[], None] = lambda: None
        self.writes: list[bytes] = []
        self.connection: Connection | None = None
        self.is_reading_ = True
        self.is_open = True
        self.reads = 0

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join(list_of_data)
        self.writes.append(data)
        if self.takes_all:
            return
        self.unsent += len(data)
        if not self.is_forgetful:
            self.pause_if_full()

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.limits.append(high)
        if self.high != float("inf"):
            self.high = high
        self.pause_if_full()

    def pause_if_full(self) -> None:
        if not self.is_paused and self.unsent > self.high:
            self.is_paused = True
            self.on_full()

    def drain(self) -> None:
        """Let the peer read everything that is unsent."""
        self.unsent = 0
        if self.is_paused:
            self.is_paused = False
            self.on_drained()

    def pause_reading(self) -> None:
        assert self.is_reading_
        self.is_reading_ = False

    def resume_reading(self) -> None:
        assert not self.is_reading_
        self.is_reading_ = True

    def is_closing(self) -> bool:
        return not self.is_open

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            assert self.connection is not None
            self.connection.connection_lost(None)

    abort = close

    def deliver(self, data: bytes) -> bytes:
        """Receive once, if the connection is read, and return the bytes that did not fit."""
        if not (self.is_reading_ and self.is_open):
            return data
        assert self.connection is not None
        into = self.connection.get_buffer(-1)
        count = min(len(into), len(data))
        into[:count] = data[:count]
        self.reads += 1
        self.connection.buffer_updated(count)
        return data[count:]
