"""One connection as an asyncio protocol: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_connection_python.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pybroker.native import choose
from pybroker.network import _connection_python
from pybroker.network._connection_python import TURN_NS, TURN_REQUESTS, WAITING_MAX, WRITE_REQUESTS, ConnectionCore
from pybroker.network.mute import MuteEvent, MuteReason

if TYPE_CHECKING:
    from asyncio import Future, TimerHandle

    from pybroker.network.context import EncodedResponse, RequestHandler

__all__ = ["IS_NATIVE", "TURN_NS", "TURN_REQUESTS", "WAITING_MAX", "WRITE_REQUESTS", "Connection", "take_bytes"]

IS_NATIVE: Final = choose(_connection_python, globals())


def take_bytes(connection: ConnectionCore) -> tuple[int, int]:
    """Return how many bytes came and how many were handed to the transport since the last call."""
    context, sender = connection.context, connection._sender
    taken = context.bytes_in, sender.bytes_out
    context.bytes_in = sender.bytes_out = 0
    return taken


class Connection(ConnectionCore, asyncio.BufferedProtocol):
    """Takes bytes in, hands requests to the handler, and sends responses. Belongs to the loop."""

    __slots__ = ("_throttle",)

    _throttle: tuple[Future[EncodedResponse], TimerHandle] | None
    """During a throttle time: the last of `_waiting`, whose result will be None, and what ends the time."""

    # -- what the transport calls seldom

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the accepted connection at once, or set it up."""
        self._throttle = None
        self._turns.begin()
        try:
            self._made(transport)
            if self.is_open and self.context.login is not None:
                self._owner.guard(self)
        finally:
            self._turns.end("a new connection")

    def eof_received(self) -> bool:
        """Return whether the connection stays open to respond, now that the peer sends no more."""
        self._turns.begin()
        try:
            return self._stays_open()
        finally:
            self._turns.end("end of input")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (a peer that goes away is not worth a line)
        """Give everything back, whatever the reason of the loss."""
        self._turns.begin()
        try:
            self._end_throttle()
            self._lost()
        finally:
            self._turns.end("a lost connection")

    def pause_writing(self) -> None:
        """Stop sending: the transport is above its high water mark."""
        self._turns.begin()
        try:
            self._sender.pause()
            self._owner.unread(self)
        finally:
            self._turns.end("no room to write")

    # -- quotas

    def throttle(self, throttle_ms: int) -> None:
        """Take no request from the next turn on until `throttle_ms` have passed, and those in hand have their responses."""
        self._loop.call_soon(self._begin_throttle, self._loop.time() + throttle_ms / 1000)

    def _begin_throttle(self, until: float) -> None:
        if not self.is_open or self._is_ending:
            return
        if self._throttle is None:
            over: Future[EncodedResponse] = self._loop.create_future()
            over.add_done_callback(self._unpark)
            self._waiting.append(over)
            self._is_parked = True
            self._mute_event(MuteEvent.THROTTLED)
            if not self._is_watched:
                self._is_watched = True
                self._owner.watch(self)
        else:
            over, timer = self._throttle
            if until <= timer.when():
                return
            timer.cancel()
        self._throttle = over, self._loop.call_at(until, self._end_throttle)

    def _end_throttle(self) -> None:
        throttle, self._throttle = self._throttle, None
        if throttle is not None:
            over, timer = throttle
            timer.cancel()
            self._mute_event(MuteEvent.THROTTLE_OVER)
            if not over.done():
                over.set_result(None)

    def end(self) -> None:
        """Take no more requests and drop those that were received; close when the one in work has its response."""
        self._end_throttle()
        super().end()

    @property
    def is_waiting_for_broker(self) -> bool:
        """Whether the broker does not receive what the peer sends, for lack of memory, or by a quota: it is not idle then."""
        return self._throttle is not None or super().is_waiting_for_broker

    # -- what the gate of a SASL listener calls

    def serve_by(self, handler: RequestHandler, request_bytes_max: int) -> None:
        """Give requests to `handler` from the next turn on, and refuse those of more bytes."""
        self._handler = handler
        self._receiver.bound(request_bytes_max)

    def admit(self, handler: RequestHandler | None) -> None:
        """Serve the client by `handler`, or by the server's: it has logged in."""
        owner = self._owner
        self.serve_by(handler or owner.handler, owner.request_bytes_max)
        owner.requested(self)

    @property
    def mute_reasons(self) -> set[MuteReason]:
        """The reasons why this connection is not read now; empty when it is read."""
        return {reason for reason in MuteReason if self._mute & reason}
