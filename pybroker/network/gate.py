"""The gate of a SASL listener and the connections behind it, as they see each other; `api/gate.py` is the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler
    from pybroker.security.sasl.login import Login


class Guarded(Protocol):
    """A connection, as its gate sees it."""

    def serve_by(self, handler: RequestHandler, request_bytes_max: int) -> None:
        """Give requests to `handler` from the next turn on, and refuse those of more bytes."""

    def admit(self, handler: RequestHandler | None) -> None:
        """Serve the client by `handler`, or by the server's: it has logged in."""

    def end(self) -> None:
        """Take no more requests, and close when the one in work has its response."""


class Gate(Protocol):
    """The gate of one listener. `request_bytes_max` bounds a request that comes to it.

    `completed` and `failed` count logins, `expired` the connections that were closed because their logins had ended.
    """

    request_bytes_max: int
    completed: int
    failed: int
    expired: int

    def new_login(self) -> Login:
        """Return the login of a new connection."""

    def handle(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
        """Handle a request, as a `RequestHandler` does; when the client has logged in, admit it."""
