"""Has requests wait while time passes: the clients have the machine's time, in which an advance is one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.network.postponed import postponed

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler
    from pybroker.times.lanes import Lanes


def held(handler: RequestHandler, lanes: Lanes) -> RequestHandler:
    """Return a handler that hands requests to `handler` when no advance is under way.

    A heartbeat in the middle of an advance would extend a session that is over at its end.
    """

    def handle(connection: ConnectionContext, frame: memoryview) -> EncodedResponse | Future[EncodedResponse]:
        if not lanes.is_advancing:
            return handler(connection, frame)
        return postponed(lanes.over(), handler, connection, frame)

    return handle
