"""Sees that a peer has ended its stream, or is gone, on a connection that is not read.

A paused transport sees neither: the end of the stream stands behind bytes that nobody takes. A request may be parked for as long
as its client says, and what was received behind it holds memory, so that would be kept for a peer that has long gone.

The kernel tells it apart from readable data (EPOLLRDHUP), but no event loop passes that on. So such connections are in an epoll
of their own, which the loop watches like any other file. It costs two system calls per connection and time that it is watched,
nothing while nothing happens. Where there is no epoll nobody is told, and connections.max.idle.ms is what ends such a connection.
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
        """The peer sends no more; `is_lost`: it does not receive any more either. It is not watched any longer."""


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
        """Tell `watcher` once. The descriptor must stay open until then or `unwatch`."""
        if self._epoll is not None:
            self._epoll.register(descriptor, select.EPOLLRDHUP)  # errors and hang-ups are always reported
            self._watchers[descriptor] = watcher

    def unwatch(self, descriptor: int) -> None:
        """Tell nobody."""
        if self._epoll is not None:
            del self._watchers[descriptor]
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _ready(self) -> None:
        assert self._epoll is not None
        for descriptor, events in self._epoll.poll(0):
            watcher = self._watchers.get(descriptor)
            if watcher is not None:  # else one that was told before in this loop has ended it
                self.unwatch(descriptor)
                watcher.peer_ended(is_lost=bool(events & (select.EPOLLERR | select.EPOLLHUP)))
