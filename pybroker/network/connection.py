"""One connection as an asyncio protocol: native where it was built, else Python; `pybroker/native.py` chooses.

The contract is in `_connection_python.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pybroker.native import choose
from pybroker.network import _connection_python
from pybroker.network._connection_python import TURN_NS, TURN_REQUESTS, WAITING_MAX, WRITE_REQUESTS, ConnectionCore
from pybroker.network.mute import MuteReason

if TYPE_CHECKING:
    from pybroker.network.context import RequestHandler

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

    __slots__ = ()

    # -- what the transport calls seldom

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the accepted connection at once, or set it up."""
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
