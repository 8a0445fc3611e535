"""Accepts the connections of one listener, as long as there is room for them.

Why not the loop's own server
    That server accepts every connection, and the only thing to do with one that exceeds the limit is to close it. Kafka's
    acceptor waits instead: the client's connection stays in the system's queue until another connection has closed. When no
    descriptor is left, asyncio logs a traceback each second, and libuv closes the connections that wait.

Here the loop watches the listening socket only while a connection could be taken, so no CPU is spent while none can.

Source: Acceptor, ConnectionQuotas.waitForConnectionSlot of Kafka.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
from typing import TYPE_CHECKING, Final

from pybroker.powers import is_power_of_ten

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pybroker.network.handshakes import Handshakes

logger = logging.getLogger(__name__)

ACCEPTS_AT_ONCE: Final = 64
HANDSHAKES_AT_ONCE: Final = 4
"""The number of connections with TLS that are accepted in a turn of the loop: each costs about 1 ms of its first turns."""
RETRY_S: Final = 1.0
_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Acceptor:
    """One listening socket. Owns it, and the accepted sockets that are not connections yet. Belongs to the loop.

    Args:
        listening: a socket that is bound and does not listen yet.
        connection: makes the protocol of a connection.
        room: returns how many more connections may be taken.
        pause_ms: counts a connection that was accepted, and returns for how long no other may be.
        on_arrived: called when an accepted connection is set up, or gone, so that it no longer counts as arriving. There may be
            room again then, at any listener: the limits are of all listeners together.
        on_full: called when a client has to wait because there is no room.
        name: the listener's name, for people.
        handshakes: sets up the connections of a listener with TLS.

    Attributes:
        name: the listener's.
        is_watched: whether clients are accepted as they come.
        is_waiting: whether a client waits because there is no room.
        arriving: connections that were accepted and are not set up yet.
        shortages: how many times the system had no descriptor for a connection.
        waits: how many times a client had to wait because there was no room.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        backlog: int,
        connection: Callable[[], asyncio.BaseProtocol],
        room: Callable[[], int],
        pause_ms: Callable[[], int] = lambda: 0,
        on_arrived: Callable[[], None],
        on_full: Callable[[], None],
        name: str,
        handshakes: Handshakes | None = None,
    ) -> None:
        self._listening = listening
        self._backlog = backlog
        self._connection = connection
        self._room = room
        self._pause_ms = pause_ms
        self._on_arrived = on_arrived
        self._on_full = on_full
        self.name = name
        self._handshakes = handshakes
        self._at_once = ACCEPTS_AT_ONCE if handshakes is None else HANDSHAKES_AT_ONCE
        self._loop = asyncio.get_running_loop()
        self.is_watched = False
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # of handshakes
        self.arriving = 0
        self.is_waiting = False
        self.shortages = 0
        self.waits = 0

    def start(self) -> None:
        """Listen, and accept connections as they come."""
        self._listening.listen(self._backlog)
        self.resume()

    def resume(self) -> None:
        """Accept connections again, if there is room now."""
        if not self.is_watched and self._retry is None and self._listening.fileno() >= 0 and self._room() > 0:
            self.is_watched, self.is_waiting = True, False
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more connections."""
        if self._retry is not None:
            self._retry.cancel()
        self._pause()
        self._listening.close()
        if self._handshakes is not None:
            self._handshakes.close()

    def give_up(self, count: int) -> int:
        """End up to `count` handshakes that last too long, because clients wait for a connection. Returns how many."""
        return 0 if self._handshakes is None else self._handshakes.give_up(count)

    async def settled(self) -> None:
        """Return when every connection accepted before `close` is set up, or gone."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        while self.arriving:  # noqa: ASYNC110  for a round of the loop
            await asyncio.sleep(0)

    def _pause(self) -> None:
        if self.is_watched:
            self.is_watched = False
            self._loop.remove_reader(self._listening.fileno())

    def _accept(self) -> None:
        room = self._room()
        if room <= 0:
            self._wait_for_room()
            return
        at_once = self._at_once if self.arriving else 1  # as a rule one comes alone, and to ask for more costs as much as it does
        for _ in range(min(room, at_once)):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait_for_descriptor(error)
                return
            self.arriving += 1
            if self._handshakes is None:
                self._step(self._loop.connect_accepted_socket(self._connection, accepted), accepted)
            else:
                task = self._loop.create_task(self._handshakes.set_up(self._connection, accepted))
                self._tasks.add(task)
                task.add_done_callback(self._shaken)
            if pause_ms := self._pause_ms():
                self._pause()
                self._retry = self._loop.call_later(pause_ms / 1000, self._try_again)
                return

    def _wait_for_room(self) -> None:
        self._pause()
        self.waits += 1
        if is_power_of_ten(self.waits):
            logger.warning(
                "No more connections fit under max.connections, the limit of open files (ulimit -n), or the memory for "
                "handshakes; further clients at %s wait until one is closed. Times that this has happened: %d",
                self.name,
                self.waits,
            )
        self.is_waiting = True
        self._on_full()

    def _wait_for_descriptor(self, error: OSError) -> None:
        self._pause()
        self._retry = self._loop.call_later(RETRY_S, self._try_again)
        self.shortages += 1
        if error.errno not in _SHORTAGES:
            logger.warning("Cannot accept connections at %s: %s", self.name, error)
        elif is_power_of_ten(self.shortages):  # the shortage may last
            logger.warning(
                "No file descriptor is left for connections at %s; waiting clients are accepted when there is one: %s",
                self.name,
                error,
            )

    def _try_again(self) -> None:
        self._retry = None
        self.resume()

    def _step(self, setting_up: Coroutine[Any, Any, object], accepted: socket.socket, _: object = None) -> None:
        """Continue to set up a connection. It waits for one round of the loop; a task would cost as much as the rest."""
        waiter: asyncio.Future[object] | None = None
        try:
            waiter = setting_up.send(None)
        except StopIteration:
            pass
        except OSError as error:  # the peer has gone already
            accepted.close()
            logger.debug("A connection at %s was closed by its peer before it was set up: %s", self.name, error)
        finally:
            if waiter is None:
                self._arrived()
            else:
                waiter.add_done_callback(functools.partial(self._step, setting_up, accepted))

    def _shaken(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._arrived()

    def _arrived(self) -> None:
        self.arriving -= 1
        self._on_arrived()
