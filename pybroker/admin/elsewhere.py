"""Requests to the other brokers of a cluster, sent as this broker sends its own: to their listeners for brokers, with its login.

The checks of a user's request stand in front of the connection, as they stand in front of a handler: what the user may not do is
refused or left out here, and the rest is sent. Each request has a connection of its own in a thread, so the loop decodes nothing.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pybroker.admin.calls import UNAVAILABLE, AdminError
from pybroker.api.access.checked import checked
from pybroker.api.context import RequestContext
from pybroker.api.registry import load_api
from pybroker.client.connection import Connection
from pybroker.client.errors import ClientError
from pybroker.client.frames import Frames
from pybroker.client.security import Security
from pybroker.faults.trail import OWN
from pybroker.network.context import ConnectionContext
from pybroker.network.limits import host_and_port
from pybroker.protocol.schema import schema_of
from pybroker.security.acl.authorizer import OPERATOR

if TYPE_CHECKING:
    from pybroker.admin.steps import Ask
    from pybroker.api.context import Services
    from pybroker.metadata.members import Endpoint
    from pybroker.security.sasl.client_login import ClientLogin
    from pybroker.security.tls.listener import ListenerTls

CONNECT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The other brokers, as this one reaches them. Belongs to the broker's loop.

    Attributes:
        listener: the name of the listener for brokers.
        tls, login: what that listener wants from this broker; None if nothing.
    """

    services: Services
    listener: str
    tls: ListenerTls | None
    login: ClientLogin | None

    async def ask(self, ask: Ask, principal: str, host: str) -> Any:
        """Return the response of the broker `ask.node` to what a principal from a host may request.

        Raises KafkaError for a request that is refused, and AdminError if the broker does not respond.
        """
        assert ask.node is not None
        broker = self.services.controller.image.brokers.get(ask.node)  # type: ignore[call-overload]
        if broker is None or self.listener not in broker.endpoints:
            raise AdminError(UNAVAILABLE, f"The broker {ask.node} is not there")
        endpoint = broker.endpoints[self.listener]
        security = Security(None if self.tls is None else self.tls.client_context, self.login)

        def send(_services: Services, _context: RequestContext, message: Any) -> Any:
            return asyncio.to_thread(_sent, endpoint, security, ask._replace(request=message))

        authorizer = self.services.authorizer
        key = schema_of(type(ask.request)).api_key
        assert key is not None
        connection = ConnectionContext(connection_id=0, peer_host=host)
        connection.principal = principal
        context = RequestContext(connection, api_version=ask.version, correlation_id=0, client_id=OWN)
        api = replace(load_api(key), handle=send, pieces=None, memo=None, repeats=None)
        if authorizer is not None and principal != OPERATOR:
            api = checked(api, authorizer)
        response: Any = api.handle(self.services, context, ask.request)
        return await response if hasattr(response, "__await__") else response


def _sent(endpoint: Endpoint, security: Security, ask: Ask) -> Any:
    """Return the response of another broker. Raises AdminError."""
    name = host_and_port(*endpoint)
    try:
        connected = security.over(socket.create_connection(endpoint, CONNECT_S), endpoint.host)
        with Frames(connected, address=name, client_id=OWN) as frames:
            connection = Connection(frames)
            security.log_in(connection)
            return connection.call(ask.request, ask.version)
    except (ClientError, OSError) as error:
        raise AdminError(UNAVAILABLE, f"The broker {ask.node} at {name} does not respond: {error}") from error
