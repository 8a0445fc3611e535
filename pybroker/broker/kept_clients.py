"""Keeps the counts of clients over restarts: looks at the connections every few seconds, and writes the file.

The file of the last life is read with the first write, so it costs the start nothing. Each write replaces the file, in the thread
of its directory, and need not be durable: after a crash of the machine some counts may be missing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pybroker.clients.file import DamagedFileError, lines_of, read
from pybroker.log.checkpoints.checkpoint import CLIENTS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.seen_clients import SeenClient
    from pybroker.broker.periodic import Periodic
    from pybroker.clients.clients import Client, Clients
    from pybroker.log.manager.manager import LogManager
    from pybroker.network.server import SocketServer
    from pybroker.sharing.work import Pausing, WorkRunner

logger = logging.getLogger(__name__)

LOOK_MS: Final = 5_000


class KeptClients:
    """The file of one broker. Belongs to the loop."""

    def __init__(self, clients: Clients, server: SocketServer, logs: LogManager, run: WorkRunner, periodic: Periodic) -> None:
        self._clients, self._server, self._run = clients, server, run
        self._directory = logs.directories[0]
        self._path = f"{self._directory.path}/{CLIENTS_FILE}"
        self._is_read = self._is_busy = self._has_failed = False
        self._written = 0
        """The requests and the ends of connections up to the last write."""
        periodic.every(LOOK_MS, self.look)

    def look(self) -> None:
        """Count what the connections have done, and write the file if there is something new."""
        if not self._is_busy and self._news() != self._written:
            self._is_busy = True
            self._after_reading(lambda: self._run("the counts of clients", self._look()))

    def stop(self) -> None:
        """Write the file for the last time; no connection is left. The thread of the directory ends after that."""
        if self._news() != self._written:
            self._after_reading(lambda: self._write("".join(lines_of(self._clients.all(), self._clients.now_ms()))))

    async def clients(self) -> list[Client]:
        """Return all clients, with what their connections have done up to now."""
        known = asyncio.get_running_loop().create_future()
        self._after_reading(lambda: known.set_result(None))
        await known
        for connection in self._server.connections():
            self._clients.look(connection)
        return self._clients.all()

    async def seen(self) -> list[SeenClient]:
        """Return all clients as people see them."""
        from pybroker.api.seen_clients import seen  # noqa: PLC0415  only where clients are shown

        found = []
        for client in await self.clients():
            found.append(seen(client))
            await asyncio.sleep(0)
        return found

    def clear(self) -> None:
        """Forget all clients. Connections that are open count for new ones."""
        self._clients.clear()

    def _news(self) -> int:
        return sum(one.requests + one.connections_closed for one in self._server.listener_counters.values())

    def _look(self) -> Pausing[None]:
        news = self._news()
        for connection in self._server.connections():
            if connection.is_open:
                self._clients.look(connection)
            yield
        lines = []
        for line in lines_of(self._clients.all(), self._clients.now_ms()):
            lines.append(line)
            yield
        self._written = news
        self._write("".join(lines))

    def _after_reading(self, then: Callable[[], None]) -> None:
        """Call `then` when the clients of earlier lives are known."""
        earlier: list[Client] = []

        def done(error: OSError | None) -> None:
            if error is not None:
                logger.warning("Cannot read %s (%s); the counts of clients begin again", self._path, error)
            if not self._is_read:
                self._is_read = True
                self._clients.add_earlier(earlier)
            then()

        if self._is_read or self._directory.is_offline:
            then()
        else:
            self._directory.run_in_thread(lambda: earlier.extend(self._earlier()), done)

    def _earlier(self) -> list[Client]:
        filesystem = self._directory.filesystem
        if not filesystem.exists(self._path):
            return []
        try:
            return read(filesystem.read_file(self._path))[1]
        except DamagedFileError as error:
            logger.warning("%s is damaged (%s); the counts of clients begin again", self._path, error)
            return []

    def _write(self, text: str) -> None:
        def done(error: OSError | None) -> None:
            self._is_busy = False
            if error is not None and not self._has_failed:
                logger.warning("Cannot write %s (%s); it keeps older counts of clients", self._path, error)
            self._has_failed = error is not None

        if not self._directory.is_offline:
            self._directory.run_in_thread(
                lambda: self._directory.filesystem.replace_file(self._path, text.encode(), sync=False), done
            )
