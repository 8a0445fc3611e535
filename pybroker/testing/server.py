"""The server of a broker that is a guest in another program's process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.admin.inner import Inner, frame_of, response_of
from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.old_data import sqlite_path
from pybroker.log.checkpoints.checkpoint import CLEAN_SHUTDOWN_FILE
from pybroker.metadata.store.sqlite import SqliteStore
from pybroker.times.virtual_times import VirtualTimes

if TYPE_CHECKING:
    from pybroker.admin.steps import Ask
    from pybroker.config.broker import BrokerConfig
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import Trail
    from pybroker.metadata.store.base import Store
    from pybroker.network.context import ConnectionContext
    from pybroker.network.limits import BoundListener
    from pybroker.times.lanes import Lanes


class GuestServer(BrokerServer):
    """A broker whose threads end with it: none of its own remains, and it needs none of its host's event loop to start."""

    def __init__(self, config: BrokerConfig, trail: Trail, faults: Faults, lanes: Lanes | None = None) -> None:
        super().__init__(config, times=None if lanes is None else VirtualTimes(lanes), faults=faults, trail=trail)

    async def start(self) -> list[BoundListener]:
        """Start as a broker does. Raises StartError, and OSError."""
        try:
            bound = await super().start()
        except BaseException:
            self._end_time()
            raise
        self.disks.begin()  # a test that looks for threads which it has left would find one of the broker
        self.inner = Inner(self.dispatcher.handle, bound)
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
        return response_of(ask, await self.inner.handle(frame_of(ask)))

    def _open_store(self) -> Store:
        """Open the store, whose commits are written in the loop: a file of a test is in memory, or small."""
        path = sqlite_path(self.config)
        return super()._open_store() if path is None else SqliteStore.open(Path(path))

    def _end_time(self) -> None:
        if self.times.lanes is not None:
            self.times.lanes.close()
