"""The server of a broker that is a guest in another program's process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.old_data import sqlite_path
from pybroker.metadata.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from pybroker.metadata.store.base import Store


class GuestServer(BrokerServer):
    """A broker whose threads end with it: none of its own remains, and it needs none of its host's event loop to start."""

    def _open_store(self) -> Store:
        """Open the store, whose commits are written in the loop: a file of a test is in memory, or small."""
        path = sqlite_path(self.config)
        return super()._open_store() if path is None else SqliteStore.open(Path(path))

    async def stop(self) -> None:
        """Stop as a broker does, and wait for the ends of its threads."""
        await super().stop()
        self.disks.join()
