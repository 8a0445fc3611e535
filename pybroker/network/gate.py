"""What takes the requests of a connection until its client has logged in, as the server sees it: `api/gate.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.network.context import ConnectionContext, EncodedResponse
    from pybroker.security.sasl.login import Login


class Gate(Protocol):
    """The gate of one listener. `request_bytes_max` bounds a request that comes to it."""

    request_bytes_max: int

    def new_login(self) -> Login:
        """Return the login of a new connection."""

    def handle(self, context: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
        """Handle a request, as a `RequestHandler` does; when the client has logged in, admit it."""
