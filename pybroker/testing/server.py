"""The server of a broker that is a guest in another program's process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.old_data import sqlite_path
from pybroker.client.requests import request_parts
from pybroker.faults.faults import collected
from pybroker.log.checkpoints.checkpoint import CLEAN_SHUTDOWN_FILE
from pybroker.metadata.store.sqlite import SqliteStore
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode_response, response_class
from pybroker.protocol.schema import schema_of
from pybroker.testing.virtual_times import VirtualTimes

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import Trail
    from pybroker.metadata.store.base import Store
    from pybroker.network.limits import BoundListener
    from pybroker.testing.lanes import Lanes
    from pybroker.testing.steps import Ask

CLIENT_ID = "pybroker.testing"
SETTLED_TURNS = 4
"""The turns of the loop without work after which nothing follows from what was begun."""


class GuestServer(BrokerServer):
    """A broker whose threads end with it: none of its own remains, and it needs none of its host's event loop to start."""

    def __init__(self, config: BrokerConfig, trail: Trail, faults: Faults, lanes: Lanes | None = None) -> None:
        super().__init__(config, times=None if lanes is None else VirtualTimes(lanes), faults=faults, trail=trail)
        self._lanes = lanes

    async def start(self) -> list[BoundListener]:
        """Start as a broker does. Raises StartError, and OSError."""
        try:
            bound = await super().start()
        except BaseException:
            self._end_time()
            raise
        if self._lanes is not None:
            self._lanes.settle = self._settled
        self._connection = ConnectionContext(
            connection_id=0, peer_host=bound[0].host, local_host=bound[0].host, local_port=bound[0].port
        )
        return bound

    async def stop(self) -> None:
        """Stop as a broker does, and wait for the ends of its threads."""
        try:
            await super().stop()
            self.disks.join()
        finally:
            self._end_time()

    async def kill(self) -> None:
        """End as a killed process does, as far as clients and the next start can see.

        Connections are cut at once, and the logs have no marker of a clean stop, so the next start recovers them.
        """
        self.server.abort()
        if self.membership.control is not None:
            await self.membership.control.close()  # without a word to the others, which see its session end
        await self.stop()
        for path in self.config.log_dirs:
            (Path(path) / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)

    def connections(self) -> list[ConnectionContext]:
        """Return the open connections of clients."""
        return [connection.context for connection in self.server.connections()]

    async def ask(self, ask: Ask) -> Any:
        """Return the response to a request that comes from no client. It takes the way of all others, but for the network."""
        parts = request_parts(ask.request, ask.version, correlation_id=0, client_id=CLIENT_ID)
        sent = self.dispatcher.handle(self._connection, memoryview(bytearray(b"".join(parts)))[4:])
        encoded = await sent if isinstance(sent, asyncio.Future) else sent
        assert encoded is not None, "each request of these has a response"
        data = collected(encoded)
        api_key = schema_of(type(ask.request)).api_key
        assert api_key is not None
        return decode_response(response_class(api_key), ask.version, memoryview(data)[4:])[1]

    def _open_store(self) -> Store:
        """Open the store, whose commits are written in the loop: a file of a test is in memory, or small."""
        path = sqlite_path(self.config)
        return super()._open_store() if path is None else SqliteStore.open(Path(path))

    def _end_time(self) -> None:
        if self._lanes is not None:
            self._lanes.close()

    async def _settled(self) -> None:
        """Wait until the broker has done what it has begun: in its threads, in the background, in the next turns of the loop."""
        turns = 0
        while turns < SETTLED_TURNS:
            await self.disks.idle()
            self.background.hurry()
            await asyncio.sleep(0)
            turns = 0 if self.disks.is_busy or self.background.is_busy else turns + 1
