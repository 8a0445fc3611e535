"""The server, as its connections see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.long_work import LongWork
    from pybroker.network._connection_python import ConnectionCore
    from pybroker.network.admission import Admission
    from pybroker.network.connection import Connection
    from pybroker.network.context import RequestHandler
    from pybroker.network.large_pieces import LargePieces
    from pybroker.network.mute import MuteCounters
    from pybroker.sharing.turns.watch import Watch


class ConnectionOwner(Protocol):
    """The server, as its connections see it."""

    admission: Admission
    conversions: LongWork
    large_pieces: LargePieces
    scratch: memoryview
    request_bytes_max: int
    mute_counters: MuteCounters
    turns: Watch

    @property
    def handler(self) -> RequestHandler:
        """The function that handles requests."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """Monotonic time in ns."""

    @property
    def turn_later(self) -> Callable[[Callable[[], object], int], None]:
        """The function that runs a turn in a later round of the loop (`Rounds.turn_later`)."""

    def opened(self, connection: ConnectionCore) -> bool:
        """Return whether the accepted connection may stay; False when a limit forbids it."""

    def active(self, connection: ConnectionCore) -> int:
        """Note that bytes came or went at `active_ns`. Returns until when (monotonic ns) further bytes need no note."""

    def guard(self, connection: Connection) -> None:
        """Give the requests of a new connection to what lets its client log in."""

    def requested(self, connection: ConnectionCore) -> None:
        """Note that the connection has completed its first request, or that its client has logged in."""

    def unread(self, connection: ConnectionCore) -> None:
        """Note that the peer does not take its response at once: the transport is above its high water mark."""

    def taken(self, connection: ConnectionCore) -> None:
        """Note that the transport is below its low water mark."""

    def lost(self, connection: ConnectionCore) -> None:
        """Forget a connection that is gone. Only called when `opened` returned True."""

    def watch(self, connection: ConnectionCore) -> None:
        """Call `connection.peer_ended` when its peer sends no more or is gone, although the connection is not read."""

    def unwatch(self, connection: ConnectionCore) -> None:
        """Stop watching the connection."""
