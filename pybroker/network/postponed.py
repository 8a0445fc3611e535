"""Has a request handled after something else, for what tests put in front of the handler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable

    from pybroker.network.context import ConnectionContext, EncodedResponse, RequestHandler


def postponed(
    before: Awaitable[object], handler: RequestHandler, connection: ConnectionContext, frame: memoryview
) -> Future[EncodedResponse]:
    """Have `handler` handle a request when `before` is done; the connection is not read meanwhile."""
    kept = memoryview(bytearray(frame))

    async def handle() -> EncodedResponse:
        await before
        if connection.is_lost:
            return None
        response = handler(connection, kept)
        connection.is_in_order = False  # it is the next request that the connection would take this for
        return await response if isinstance(response, asyncio.Future) else response

    return asyncio.get_running_loop().create_task(handle())
