"""Several brokers that are one cluster, in the running event loop.

    async with Cluster(3) as cluster:
        await cluster.create_topic("orders", replication_factor=3)
        await cluster.kill(await cluster.leader_of("orders"))

The metadata store is in this process too, and outlasts the brokers that are killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar

from pybroker.admin.steps import Ask, Patience, carry_out, check
from pybroker.admin.topics import RETRY_S, cluster, offsets_of, reset
from pybroker.broker.handling import load_file
from pybroker.faults.trail import SeenRequest, Trail
from pybroker.metadata.store.shared.server import StoreServer
from pybroker.network.limits import host_and_port
from pybroker.testing.directory import Directory
from pybroker.testing.faults import ClusterFaults
from pybroker.testing.place import NotRunningError
from pybroker.testing.server import GuestServer
from pybroker.testing.settings import config_of, texts_of
from pybroker.testing.snapshot import ClusterSnapshot, KeptStore, Snapshot
from pybroker.testing.verbs import AsyncVerbs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting
    from pybroker.testing.blocking import ThreadCluster

Result = TypeVar("Result")

COPIES: Final = 3
"""The replicas of a topic that asks for no number, if there are as many brokers."""
SOCKET: Final = "metadata.socket"
LEADER_NOT_AVAILABLE: Final = 5
LATEST: Final = -1


class Cluster(AsyncVerbs):
    """Brokers with the node ids 1, 2, 3 and so on, as long as the `async with` block lasts.

    Args:
        count: how many brokers there are.
        settings: settings of all of them by Kafka's names.

    Attributes:
        faults: the rules by which requests to all brokers go wrong, and those of each by its node id.
    """

    def __init__(self, count: int = 3, settings: Mapping[str, Setting] | None = None) -> None:
        copies = str(min(count, COPIES))
        topics = ("default", "offsets.topic", "transaction.state.log")
        self._texts = {**{f"{name}.replication.factor": copies for name in topics}, **texts_of(settings)}
        self._servers: dict[int, GuestServer | None] = dict.fromkeys(range(1, count + 1))
        self._addresses: dict[int, tuple[str, int]] = {}
        self._directory: Directory | None = None
        self._memory = KeptStore()
        self._store: StoreServer | None = None
        self._trail = Trail()
        self.faults = ClusterFaults(self._servers)

    @staticmethod
    def in_thread(count: int = 3, settings: Mapping[str, Setting] | None = None) -> ThreadCluster:
        """Return a cluster for `with`, which runs in a thread with an event loop of its own."""
        from pybroker.testing.blocking import ThreadCluster  # noqa: PLC0415  it is built on this module

        return ThreadCluster(count, settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers for `bootstrap.servers`."""
        return ",".join(host_and_port(*self._addresses[node]) for node in sorted(self._addresses))

    @property
    def admin_urls(self) -> dict[int, str]:
        """Where the API of each broker that runs is, by node id, if `pybroker.admin.listener` is set."""
        urls = {node: server.lifecycle.admin_url for node, server in self._servers.items() if server is not None}
        return {node: url for node, url in urls.items() if url is not None}

    @property
    def requests(self) -> list[SeenRequest]:
        """The last requests of clients to any broker, oldest first."""
        return self._trail.all()

    async def start(self) -> None:
        """Start the brokers; clients can connect when this returns. Raises StartError, and OSError."""
        assert self._directory is None, "a cluster starts once"
        self._directory = Directory()
        try:
            load_file(self.faults.load, config_of(self._texts, self._directory.path))
            await self._start_all(self._directory.path)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the brokers, and remove their data; idempotent."""
        directory, self._directory = self._directory, None
        try:
            await self._kill_all()  # their data ends with them, so no leader has to move
        finally:
            if directory is not None:
                directory.remove()

    async def kill(self, node: int) -> None:
        """End a broker as a killed process ends; the others lead its partitions then. `restart` starts it again.

        Raises NotRunningError.
        """
        server = self._servers.get(node)
        if server is None:
            running = [one for one, other in self._servers.items() if other is not None]
            raise NotRunningError(f"there is no broker {node} that runs, but {', '.join(map(str, running)) or 'none at all'}")
        self._servers[node] = None
        await server.kill()

    async def restart(self, node: int) -> None:
        """Stop a broker, unless it was killed, and start it again with its data, at its address. Raises StartError, OSError."""
        path = self._path
        server, self._servers[node] = self._servers[node], None
        if server is not None:
            await server.stop()
        await self._start(node, path)

    async def reset(self) -> None:
        """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests.

        Clients stay connected. Brokers that were killed, or whose disks have failed, are started. Raises StartError, and OSError.
        """
        self.faults.clear()
        for node, server in self._servers.items():
            self.faults[node].release()
            if server is None or server.log_manager.has_failed_directory:
                await self.restart(node)
        await self._carry_out(reset())
        await self._carry_out(self._forgotten())
        self._trail.clear()

    def _forgotten(self) -> Steps[None]:
        """Wait until no broker knows a topic: one that has not followed yet could respond for another of the same name."""
        while any(server is not None and server.controller.image.topics for server in self._servers.values()):
            yield RETRY_S

    async def snapshot(self) -> ClusterSnapshot:
        """Copy everything that the brokers have, those included that were killed. Clients stay connected."""
        for server in self._servers.values():
            if server is not None:
                await server.disks.idle()
        return self._memory.snapshot(Snapshot(self._path))

    async def restore(self, snapshot: ClusterSnapshot) -> None:
        """Put back what all brokers had, which cuts all connections, and forget the requests. Raises StartError, OSError, and
        ValueError for a snapshot of another cluster.
        """
        path = self._path
        snapshot.files.check_is_of(path)
        await self._kill_all()
        snapshot.files.put_back()
        self._memory = KeptStore(snapshot.entries, snapshot.revision)
        self._trail.clear()
        await self._start_all(path)

    async def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the node id of the leader of a partition, as soon as there is one. Raises KafkaError."""
        return await self._carry_out(self._leader_of(topic, partition))

    def _leader_of(self, name: str, partition: int) -> Steps[int]:
        patience = Patience()
        while True:
            found = yield from cluster([name])
            (topic,) = found.topics
            if not patience.allows(topic.error_code):
                leaders = {one.partition_index: one.leader_id for one in topic.partitions}
                check(0 if partition in leaders else 3, f"the topic {name} has no partition {partition}")
                leader = leaders[partition]
                served = yield from offsets_of([topic], LATEST)
                if self._servers.get(leader) is not None and (name, partition) in served:
                    return leader
                check(0 if patience.left_s else LEADER_NOT_AVAILABLE)
            yield RETRY_S

    @property
    def _path(self) -> Path:
        assert self._directory is not None, "the cluster was not started"
        return self._directory.path

    async def _start_all(self, path: Path) -> None:
        self._store = StoreServer(self._memory)
        await self._store.listen(path / SOCKET)
        for node in self._servers:
            await self._start(node, path)

    async def _kill_all(self) -> None:
        running = [server for server in self._servers.values() if server is not None]
        self._servers = dict.fromkeys(self._servers)
        store, self._store = self._store, None
        for server in running:
            await server.kill()
        if store is not None:
            await store.close()

    async def _start(self, node: int, path: Path) -> None:
        data = path / "data" / f"broker_{node}"
        own = {"node.id": str(node), "log.dirs": str(data), "metadata.store": f"unix:{path / SOCKET}"}
        port = self._addresses[node][1] if node in self._addresses else 0
        server = GuestServer(config_of({**self._texts, **own}, path, port=port), self._trail, self.faults[node])
        bound = await server.start()
        self._servers[node] = server
        self._addresses[node] = (bound[0].host, bound[0].port)

    async def _carry_out(self, steps: Steps[Result]) -> Result:
        return await carry_out(steps, lambda ask: self._server_for(ask).ask(ask))

    def _server_for(self, ask: Ask) -> GuestServer:
        """Return the broker of a request; any that runs if that one does not, whose response names the leader."""
        wanted = None if ask.node is None else self._servers.get(ask.node)
        server = wanted or next((one for one in self._servers.values() if one is not None), None)
        assert server is not None, "no broker runs"
        return server
