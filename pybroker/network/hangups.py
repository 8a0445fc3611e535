"""Notices that a peer has ended its stream, or is gone, on a connection that is not read.

A paused transport notices neither, because the end of the stream stands behind bytes that are not read. A request may be parked
for as long as its client wants, and the bytes received behind it hold memory; without this module they would be kept for a peer
that has long gone.

The kernel distinguishes the end from readable data (EPOLLRDHUP), but no event loop passes that on. So such connections are in an
epoll of their own, which the loop watches like any other file. It costs two system calls each time that a connection is watched,
and nothing while nothing happens. Where there is no epoll, no peer's end is reported, and connections.max.idle.ms ends such a
connection.
"""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Watcher(Protocol):
    """A connection that is not read."""

    def peer_ended(self, *, is_lost: bool) -> None:
        """End the connection: the peer sends no more. `is_lost`: it receives no more either. It is not watched any longer."""


class Hangups:
    """The connections of one loop that are watched, by their file descriptors. Used in the loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watchers: dict[int, Watcher] = {}
        self._epoll: select.epoll | None = None
        if sys.platform == "linux":
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, descriptor: int, watcher: Watcher) -> None:
        """Call `watcher.peer_ended` once. The descriptor must stay open until then or until `unwatch`."""
        if self._epoll is not None:
            self._epoll.register(descriptor, select.EPOLLRDHUP)  # errors and hang-ups are always reported
            self._watchers[descriptor] = watcher

    def unwatch(self, descriptor: int) -> None:
        """Stop watching the descriptor."""
        if self._epoll is not None:
            del self._watchers[descriptor]
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all descriptors."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _ready(self) -> None:
        assert self._epoll is not None
        for descriptor, events in self._epoll.poll(0):
            watcher = self._watchers.get(descriptor)
            if watcher is not None:  # else a watcher that was called earlier in this loop has ended this one
                self.unwatch(descriptor)
                watcher.peer_ended(is_lost=bool(events & (select.EPOLLERR | select.EPOLLHUP)))
