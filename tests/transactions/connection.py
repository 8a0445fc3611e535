"""Requests to the broker of a simulated process, whose responses come as long as the process lives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode_response, response_class
from pybroker.protocol.schema import schema_of
from testing.scenes.api.whole import collected, frame_of

if TYPE_CHECKING:
    from testing.simulation.broker import SimulatedBroker


class DisconnectedError(Exception):
    """The process has ended: the request may have been carried out or not."""


class Connection:
    """The way to the broker. Nothing counts that happens after `is_closed` was set: the process had ended."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._broker = broker
        self._context = ConnectionContext(connection_id=1, local_host="127.0.0.1", local_port=9092)
        self.is_closed = False

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic that exists. Raises DisconnectedError."""
        if self.is_closed:
            raise DisconnectedError
        return self._broker.controller.image.topics[name].topic_id

    async def ask(self, request: object, version: int) -> Any:
        """Return the decoded response. Raises DisconnectedError."""
        if self.is_closed:
            raise DisconnectedError
        frame = frame_of(request, version, "story")
        sent = self._broker.dispatcher.handle(self._context, frame)
        if isinstance(sent, asyncio.Future):
            sent = await sent
        await asyncio.sleep(0)  # as a network does: others may come first
        if self.is_closed:
            raise DisconnectedError
        key = schema_of(type(request)).api_key
        assert key is not None
        assert sent is not None
        return decode_response(response_class(key), version, memoryview(collected(sent))[4:])[1]
