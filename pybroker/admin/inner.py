"""Requests that come from no client. They take the way of all others, but for the network."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pybroker.client.requests import request_parts
from pybroker.faults.faults import collected
from pybroker.faults.trail import OWN
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode_response, response_class
from pybroker.protocol.schema import schema_of
from pybroker.security.acl.authorizer import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.admin.steps import Ask
    from pybroker.network.context import RequestHandler
    from pybroker.network.limits import BoundListener

_SIZE: Final = 4


class Inner:
    """A way to a broker from inside of it: each request has a connection of its own."""

    def __init__(self, handler: RequestHandler, bound: Sequence[BoundListener]) -> None:
        """`bound` is where the broker listens; responses name the first address."""
        self._handler = handler
        self._address = bound[0].host, bound[0].port

    async def handle(self, frame: memoryview, principal: str = OPERATOR, peer_host: str = "") -> bytes:
        """Return the response to a request, in the broker's loop."""
        host, port = self._address
        connection = ConnectionContext(connection_id=0, peer_host=peer_host or host, local_host=host, local_port=port)
        connection.principal = principal
        sent = self._handler(connection, frame)
        encoded = await sent if isinstance(sent, asyncio.Future) else sent
        assert encoded is not None, "each request of these has a response"
        return collected(encoded)


def frame_of(ask: Ask) -> memoryview:
    """Return the bytes of a request."""
    parts = request_parts(ask.request, ask.version, correlation_id=0, client_id=OWN)
    return memoryview(bytearray(b"".join(parts)))[_SIZE:]


def response_of(ask: Ask, data: bytes) -> Any:
    """Return the response to a request, out of its bytes."""
    api_key = schema_of(type(ask.request)).api_key
    assert api_key is not None
    return decode_response(response_class(api_key), ask.version, memoryview(data)[_SIZE:])[1]
