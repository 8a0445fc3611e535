"""A broker in the running event loop, of whatever kind that is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pybroker.admin.steps import carry_out
from pybroker.admin.topics import reset
from pybroker.broker.handling import load_file
from pybroker.faults.faults import Faults
from pybroker.faults.trail import SeenRequest, Trail
from pybroker.testing.directory import Directory
from pybroker.testing.leaks import leaks, open_connections
from pybroker.testing.place import NotRunningError, Placed
from pybroker.testing.server import GuestServer
from pybroker.testing.settings import config_of, texts_of
from pybroker.testing.snapshot import Snapshot
from pybroker.testing.verbs import AsyncVerbs
from pybroker.times.clock import BrokerClock
from pybroker.times.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType

    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting
    from pybroker.api.seen_clients import SeenClient
    from pybroker.config.broker import BrokerConfig
    from pybroker.testing.blocking import ThreadBroker
    from pybroker.testing.process import ProcessBroker

Result = TypeVar("Result")


ACCEPTING_ROUNDS: Final = 5
"""Rounds of the loop in which a connection that waits to be accepted is there."""


class Broker(Placed, AsyncVerbs):
    """A broker that listens on a free port of 127.0.0.1 as long as its `async with` block lasts, with its data in memory.

    Args:
        settings: settings of the broker by Kafka's names, as `{"num.partitions": 3}`.
        virtual_time: whether `clock.advance` can move the broker's time.
        as_version: the release of Kafka that clients see, as "0.10.2"; by default they see all that pybroker serves.

    Attributes:
        clock: the broker's time, which is the machine's until `advance`.
        faults: the rules by which requests go wrong.

    Raises ConfigError for a name that no setting has, and for a bad value.
    """

    def __init__(
        self, settings: Mapping[str, Setting] | None = None, *, virtual_time: bool = False, as_version: str | None = None
    ) -> None:
        self._texts = texts_of(settings, as_version)
        self._server: GuestServer | None = None
        self._trail = Trail()
        self.faults = Faults()
        self.clock = BrokerClock(Lanes() if virtual_time else None)

    @staticmethod
    def in_thread(
        settings: Mapping[str, Setting] | None = None, *, virtual_time: bool = False, as_version: str | None = None
    ) -> ThreadBroker:
        """Return a broker for `with`, which runs in a thread with an event loop of its own. The arguments are those of Broker."""
        from pybroker.testing.blocking import ThreadBroker  # noqa: PLC0415  it is built on this module

        return ThreadBroker(settings, virtual_time=virtual_time, as_version=as_version)

    @staticmethod
    def subprocess(
        settings: Mapping[str, Setting] | None = None, *, virtual_time: bool = False, as_version: str | None = None
    ) -> ProcessBroker:
        """Return a broker for `with`, which is a process, and ends with this one. The arguments are those of Broker.

        The methods that look into a process are requests to it: as a release before 3.9 it refuses some of them.
        """
        from pybroker.testing.process import ProcessBroker  # noqa: PLC0415  as above

        return ProcessBroker(settings, virtual_time=virtual_time, as_version=as_version)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the broker; clients can connect when this returns. Raises StartError, and OSError."""
        assert self._directory is None, "a broker starts once; `restart` starts it again"
        self._directory = Directory()
        try:
            config = self._config(port=0)
            load_file(self.faults.load, config)
            await self._start(config)
        except BaseException:
            self._directory.remove()
            self._directory = None
            raise

    async def stop(self) -> None:
        """Stop the broker, and remove its data; idempotent."""
        directory, self._directory = self._directory, None
        try:
            await self._stop()
        finally:
            if directory is not None:
                directory.remove()

    async def restart(self) -> None:
        """Stop the broker, unless it was killed, and start it again with its data, at the same address.

        Raises StartError, and OSError.
        """
        await self._stop()
        await self._start(self._config(port=self.port))

    async def kill(self) -> None:
        """End the broker as a killed process ends: connections are cut, and `restart` has to recover the logs."""
        server, self._server = self._running, None
        await server.kill()

    async def snapshot(self) -> Snapshot:
        """Copy everything that the broker has: topics, records, groups, transactions, settings. Clients stay connected."""
        await self._running.disks.idle()
        return Snapshot(self._of_life.path)

    async def restore(self, snapshot: Snapshot) -> None:
        """Put back what the broker had, which cuts all connections, and forget the requests. Raises StartError, OSError, and
        ValueError for a snapshot of another broker.
        """
        snapshot.check_is_of(self._of_life.path)
        if self._server is not None:
            await self.kill()
        snapshot.put_back()
        self._trail.clear()
        await self._start(self._config(port=self.port))

    async def leaks(self, shared: Collection[Sequence[str]] = ()) -> list[str]:
        """Return a line for each open transaction, each member of a group, and each connection of a client.

        Clients that are `shared`, by client id and the name and version of their software, may have connections.
        """
        lines = await self._carry_out(leaks())
        for _ in range(ACCEPTING_ROUNDS):  # a connection that a client has just opened may not be accepted yet
            await asyncio.sleep(0)
        return lines + open_connections(self._running.connections(), shared)

    async def reset(self) -> None:
        """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests.

        Clients stay connected, unless the disk has failed: then the broker is started again, as it is if it was killed. Raises
        StartError, and OSError.
        """
        self.faults.clear()
        self.faults.release()
        if self._server is None or self._server.log_manager.has_failed_directory:
            await self.restart()
        await self._carry_out(reset())
        self._running.kept_clients.clear()
        self._trail.clear()

    async def clients(self) -> list[SeenClient]:
        """Return what each client has used up to now, connected or not; `reset` forgets those that are not."""
        return await self._running.kept_clients.seen()

    @property
    def admin_url(self) -> str | None:
        """Where the API for other languages is, if `pybroker.admin.listener` is set."""
        return self._running.lifecycle.admin_url

    @property
    def requests(self) -> list[SeenRequest]:
        """The last requests of clients, oldest first; `reset` forgets them."""
        return self._trail.all()

    async def _carry_out(self, steps: Steps[Result]) -> Result:
        return await carry_out(steps, self._running.ask)

    @property
    def _running(self) -> GuestServer:
        if self._server is None:
            raise NotRunningError
        return self._server

    def _config(self, *, port: int) -> BrokerConfig:
        return config_of(self._texts, self._of_life.path, port=port)

    async def _start(self, config: BrokerConfig) -> None:
        server = GuestServer(config, self._trail, self.faults, self.clock.lanes)
        bound = await server.start()
        self._server = server
        self._address = (bound[0].host, bound[0].port)

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
