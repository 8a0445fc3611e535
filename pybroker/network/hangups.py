"""Notices that a peer has ended its stream, or is gone, on a connection that is not read.

A paused transport notices neither, because the end of the stream stands behind bytes that are not read. A request may be parked
for as long as its client wants, and the bytes received behind it hold memory; without this module they would be kept for a peer
that has long gone.

The kernel distinguishes the end from readable data (EPOLLRDHUP), but no event loop passes that on. So such connections are in an
epoll of their own, which the loop watches like any other file. That takes two system calls for each connection, and nothing while
nothing happens. Most requests that are parked have their response a moment later, as commits that share a batch do. So a
connection comes into the epoll only when the loop has had a whole iteration since its request was parked. Where there is no
epoll, no peer's end is reported, and connections.max.idle.ms ends such a connection.
"""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Watcher(Protocol):
    """A connection that is not read."""

    @property
    def descriptor(self) -> int:
        """The file descriptor of its socket, which stays open while it is watched."""

    def peer_ended(self, *, is_lost: bool) -> None:
        """End the connection: the peer sends no more. `is_lost`: it receives no more either. It is not watched any longer."""


class Hangups:
    """The connections of one loop that are watched. Used in the loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watchers: dict[int, Watcher] = {}  # in the epoll, by their descriptors
        self._descriptors: dict[Watcher, int] = {}
        self._new: set[Watcher] = set()  # since the last iteration of the loop
        self._waiting: set[Watcher] = set()  # since the one before
        self._is_scheduled = False
        self._epoll: select.epoll | None = None
        if sys.platform == "linux":
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher.peer_ended` once, unless `unwatch` comes before."""
        self._new.add(watcher)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._register)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop watching the connection, whose socket may be closed already if it has TLS."""
        if watcher in self._new:
            self._new.remove(watcher)
        elif watcher in self._waiting:
            self._waiting.remove(watcher)
        elif self._epoll is not None:
            descriptor = self._descriptors.pop(watcher)
            if self._watchers.get(descriptor) is not watcher:
                return  # a connection with TLS is lost after its socket was closed: the number may be another's by then
            del self._watchers[descriptor]
            with suppress(OSError):  # closed, which ended the watch
                self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all descriptors."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _register(self) -> None:
        """Watch the requests that have waited for a whole iteration of the loop. Those that were parked in this one get their
        turn first."""
        due, self._waiting, self._new = self._waiting, self._new, set()
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._register)
        if self._epoll is None:
            return
        for watcher in due:
            descriptor = self._descriptors[watcher] = watcher.descriptor
            self._watchers[descriptor] = watcher
            with suppress(OSError, ValueError):  # closed already, and about to be lost
                self._epoll.register(descriptor, select.EPOLLRDHUP)  # errors and hang-ups are always reported

    def _ready(self) -> None:
        assert self._epoll is not None
        for descriptor, events in self._epoll.poll(0):
            watcher = self._watchers.get(descriptor)
            if watcher is not None:  # else a watcher that was called earlier in this loop has ended this one
                self.unwatch(watcher)
                watcher.peer_ended(is_lost=bool(events & (select.EPOLLERR | select.EPOLLHUP)))
