"""Closes connections that only hold what clients need: those without a first request, and requests that do not arrive.

Kafka closes a connection that is idle for `connections.max.idle.ms`, ten minutes. Until then, strangers with enough connections,
or with the sizes of requests that never come, keep its clients out. The rules here do not wait that long:

    a connection has completed its first request after `first_request_timeout_ms`; at a SASL listener, the login
    a request that is being received gets PROGRESS_BYTES, or its end, in every `request_progress_timeout_ms`; while other
        requests wait for memory, in every PRESSED_MS, and its end within half of `request_progress_timeout_ms`
    responses that peers have not taken have at most `unsent_response_bytes_max` by sum, or those that have waited longest for a
        peer that takes nothing are given up, and after them those of peers that take something
    while clients wait for a connection because all are taken, of the broker or of a listener, connections are given up for them:
        at first those without a first request for GRACE_MS, then those that do not continue with a request, or with taking a
        response, for PRESSED_MS

Time for which the broker itself does not read is not counted. A client that has sent a request and is idle has only Kafka's
bound: it cannot be distinguished from an honest one. `max.connections.per.ip` keeps one address from taking all connections.

Cost
    A new connection is in a dict until its first request; one more comparison for each turn of a connection. A connection is in
    another dict while its transport is above the high water mark. Every LOOK_MS all connections are looked at, SLICE of them in a
    turn of the loop.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.powers import is_power_of_ten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pybroker.network._connection_python import ConnectionCore
    from pybroker.network.limits import NetworkLimits

logger = logging.getLogger(__name__)

GRACE_MS: Final = 1_000
PRESSED_MS: Final = 5_000
PROGRESS_BYTES: Final = 1_024
SPARED_MAX: Final = 100
"""The number of connections that stay because their peers read, whenever responses have more than the bound."""
LOOK_MS: Final = 1_000
SLICE: Final = 1_000

_NS_PER_MS: Final = 1_000_000
_FOREVER_MS: Final = 1 << 40


class _Partial(NamedTuple):
    """A request that was being received when it was looked at: which of the connection, what had come and since when, and when
    the request was looked at first.
    """

    requests: int
    come: int
    since_ns: int
    first_ns: int


class Strangers:
    """The connections of one server that it may close.

    Attributes:
        closed: the number of those that it closed, for all reasons.
        unsent_bytes: what the responses take that peers have not taken, of the connections above their high water marks.
    """

    __slots__ = ("_fresh", "_now_ns", "_partial", "_stalled", "_unread", "closed", "unsent_bytes")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._fresh: OrderedDict[ConnectionCore, int] = OrderedDict()  # when they were opened; no first request yet
        self._partial: dict[ConnectionCore, _Partial] = {}
        self._stalled: OrderedDict[ConnectionCore, None] = OrderedDict()  # as of the last look
        self._unread: OrderedDict[ConnectionCore, int] = OrderedDict()  # their unsent bytes; those that wait longest first
        self.closed = self.unsent_bytes = 0

    def opened(self, connection: ConnectionCore) -> None:
        """Note a new connection."""
        self._fresh[connection] = self._now_ns()

    def requested(self, connection: ConnectionCore) -> None:
        """Note the first complete request of a connection."""
        self._fresh.pop(connection, None)

    def lost(self, connection: ConnectionCore) -> None:
        """Forget a connection."""
        self._fresh.pop(connection, None)
        self._partial.pop(connection, None)
        self._stalled.pop(connection, None)
        self.taken(connection)

    def unread(self, connection: ConnectionCore, bytes_max: int) -> None:
        """Count what a peer does not take at once, and close others until all that wait have at most `bytes_max`."""
        self.taken(connection)
        size = connection.unsent_bytes()
        self.unsent_bytes += size
        if self.unsent_bytes > bytes_max:
            self._bound_unsent(bytes_max)
        self._unread[connection] = size

    def taken(self, connection: ConnectionCore) -> None:
        """Forget what was counted of a connection: its peer has taken it."""
        self.unsent_bytes -= self._unread.pop(connection, 0)

    def look(self, connections: list[ConnectionCore], limits: NetworkLimits, *, is_pressed: bool) -> Iterator[None]:
        """Look at all connections, and close those that are too slow; yield after each slice.

        `is_pressed`: requests of other connections wait for memory.
        """
        self._close_late(limits.first_request_timeout_ms)
        timeout_ms, whole_ms = limits.request_progress_timeout_ms, _FOREVER_MS
        if is_pressed:  # clients wait as long as the progress timeout by default, and their requests have to come, too
            timeout_ms, whole_ms = min(timeout_ms, PRESSED_MS), timeout_ms // 2
        for start in range(0, len(connections), SLICE):
            now_ns = self._now_ns()
            for connection in connections[start : start + SLICE]:
                if connection.is_open:
                    self._look_at(connection, now_ns=now_ns, timeout_ms=timeout_ms, whole_ms=whole_ms)
            yield

    def give_up(self, count: int, listener: str | None = None) -> int:
        """Close up to `count` connections, at any listener or at one, because clients wait for one. Returns how many."""

        def chosen(connections: Mapping[ConnectionCore, object]) -> Iterator[ConnectionCore]:
            return (one for one in connections if listener is None or one.context.listener_name == listener)

        before_ns = self._now_ns() - GRACE_MS * _NS_PER_MS
        late = [
            one for one in islice(chosen(self._fresh), count) if self._fresh[one] <= before_ns and not one.is_waiting_for_broker
        ]
        stalled = list(islice(chosen(self._stalled), count - len(late)))
        for connection in late:
            self._close(connection, "it has sent no request, and other clients wait for a connection")
        for connection in stalled:
            self._close(connection, "it is stalled, and other clients wait for a connection")
        return len(late) + len(stalled)

    def _bound_unsent(self, bytes_max: int) -> None:
        """Close the connections that have waited longest.

        A peer that has taken something since its connection was counted waits from now on, but not all such peers do, because
        those that read by the byte would then never be closed.
        """
        unread, left = self._unread, SPARED_MAX
        while self.unsent_bytes > bytes_max and unread:
            connection, before = unread.popitem(last=False)
            size = connection.unsent_bytes()
            self.unsent_bytes -= before
            if size < before and left:
                left -= 1
                self.unsent_bytes += size
                unread[connection] = size
            elif connection.is_open:
                reason = f"it does not take {size} bytes of its response, and all that wait have more than {bytes_max}"
                self._close(connection, reason)

    def _close_late(self, timeout_ms: int) -> None:
        now_ns = self._now_ns()
        before_ns = now_ns - timeout_ms * _NS_PER_MS
        late: list[ConnectionCore] = []
        for connection, since_ns in self._fresh.items():
            if since_ns > before_ns or len(late) == SLICE:
                break
            late.append(connection)
        for connection in late:
            if connection.is_waiting_for_broker:
                del self._fresh[connection]
                self._fresh[connection] = now_ns
            else:
                what = "sent no complete request" if connection.context.login is None else "not logged in"
                self._close(connection, f"it has {what} within {timeout_ms} ms")

    def _look_at(self, connection: ConnectionCore, *, now_ns: int, timeout_ms: int, whole_ms: int) -> None:
        come = connection.partial_bytes()
        partial = self._partial.get(connection)
        if come < 0:
            if partial is not None:
                del self._partial[connection]
            if connection.is_sending and now_ns - connection.active_ns >= PRESSED_MS * _NS_PER_MS:
                self._stalled[connection] = None
            else:
                self._stalled.pop(connection, None)
            return
        requests = connection.requests
        if partial is None or partial.requests != requests:
            partial = _Partial(requests, -PROGRESS_BYTES, now_ns, now_ns)
        if now_ns - partial.first_ns >= whole_ms * _NS_PER_MS:
            self._close(connection, f"its request has not come within {whole_ms} ms, and others wait for memory")
            return
        if come >= partial.come + PROGRESS_BYTES:
            self._partial[connection] = _Partial(requests, come, now_ns, partial.first_ns)
            self._stalled.pop(connection, None)
            return
        waited_ns = now_ns - partial.since_ns
        if waited_ns >= timeout_ms * _NS_PER_MS:
            self._close(connection, f"its request got less than {PROGRESS_BYTES} bytes in {timeout_ms} ms")
        elif waited_ns >= PRESSED_MS * _NS_PER_MS:
            self._stalled[connection] = None

    def _close(self, connection: ConnectionCore, reason: str) -> None:
        self.lost(connection)
        self.closed += 1
        logger.debug("Closing %s: %s", connection.context, reason)
        if is_power_of_ten(self.closed):
            logger.info("Closing %s: %s (%d such connections so far)", connection.context, reason, self.closed)
        connection.abort()
