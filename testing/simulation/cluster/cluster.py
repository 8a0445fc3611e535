"""Several brokers on one manual clock, in one process, with their network and their metadata store.

    with Cluster.open(seed=1) as cluster:
        cluster.start_all()
        cluster.scheduler.run_for(1_000)
        cluster.kill(1)                  or crash, pause, exit
        cluster.start(1)

A broker has its disk across its lives. A crash takes from the disk what was not synced; what the broker has sent, but the
network has not delivered yet, is lost with it, as the machine's memory is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

from pybroker.broker.joining import StartError
from pybroker.config.broker import BrokerConfig
from pybroker.metadata.elections import Election, candidates, plan_of_all
from pybroker.metadata.partition_commits import carry_out
from pybroker.metadata.store.base import StoreError
from pybroker.model import BrokerId, TopicPartition
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import decode_response
from pybroker.protocol.messages.produce import ProduceResponse
from testing.simulation.broker import START_MS, SimulatedBroker, drawn_from
from testing.simulation.clock import SettableClock
from testing.simulation.cluster.network import Network, SimulatedPeers
from testing.simulation.cluster.process import Process
from testing.simulation.cluster.scheduling import Scheduler
from testing.simulation.cluster.store import SharedStore
from testing.simulation.disk import SimulatedDisk
from testing.simulation.loop import SimulatedLock, SimulatedLoop

if TYPE_CHECKING:
    from pybroker.log.log_state import LogServices
    from pybroker.metadata.image import ClusterImage, PartitionChange, PartitionImage, TopicImage
    from pybroker.metadata.store.base import Store
    from pybroker.model import LeaderEpoch
    from pybroker.network.context import ConnectionContext
    from pybroker.network.counters import ListenerCounters
    from pybroker.replication.peers import Peers
    from pybroker.sharing.work import Pausing

CLIENTS = -1
LOOK_MS = 50
SESSION_GRACE_MS = 300
"""The time for which a broker may acknowledge after the end of its session: it is looked at every 100 ms only."""
SESSION_MS = 2_000
SETTINGS: dict[str, Any] = {
    "metadata_store": "etcd:http://127.0.0.1:1/simulated",
    "log_dirs": ("/data",),
    "broker_session_timeout_ms": SESSION_MS,
    "broker_heartbeat_interval_ms": 400,
    "replica_lag_time_max_ms": 1_500,
    "replica_socket_timeout_ms": 2_000,
    "replica_fetch_wait_max_ms": 800,
    "default_replication_factor": 3,
    "min_insync_replicas": 2,
    "num_partitions": 2,
    "offsets_topic_replication_factor": 3,
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_replication_factor": 3,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_min_isr": 2,
    "controlled_shutdown_enable": True,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 2_000,
}


class _Server:
    """Listens for a broker until that stops."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network, self._process = network, process
        self.listener_counters: dict[str, ListenerCounters] = {}  # of clients, of which there are none

    async def stop(self, grace_ms: int) -> None:
        """Take no new requests, and give those in work their time."""
        network, process = self._network, self._process
        del network.serving[process.node]
        for _ in range(grace_ms // LOOK_MS):
            if not network.is_in_work(process):
                break
            await asyncio.sleep(LOOK_MS / 1000)
        network.reset(process)


class ClusterBroker(SimulatedBroker):
    """A broker of a cluster, without sockets."""

    def __init__(self, config: BrokerConfig, cluster: Cluster, process: BrokerProcess) -> None:
        super().__init__(config, cluster.clock, cluster.disks[process.node], cast("Any", None))
        self._cluster, self._process = cluster, process

    def _open_store(self) -> Store:
        return self._cluster.store.open(self._process, self.failed.set)

    def _make_peers(self) -> Peers:
        return SimulatedPeers(self._cluster.network, self._process)

    def _make_dispatcher(self) -> None:
        super()._make_dispatcher()
        self.services.peers = None  # a wait for other brokers changes nothing, and its messages would draw other histories

    def _log_services(self) -> LogServices:
        return replace(super()._log_services(), jitter=Random(self._cluster.random.getrandbits(32)))

    def _listen(self) -> None:
        network, process = self._cluster.network, self._process
        network.serving[process.node] = process
        self.server = _Server(network, process)  # type: ignore[assignment]


class BrokerProcess(Process):
    """A life of a broker."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        super().__init__(cluster.scheduler, node, cluster.problems, cluster.interleaving)
        cluster.disks[node].between_operations = self.loop.within_operation
        self._cluster = cluster
        self.has_started = self.is_stopping = False
        self.resumed_ms = 0
        self._contexts: set[ConnectionContext] = set()
        self.broker: ClusterBroker
        self.task = self.loop.create_task(self._live(cluster.config(node)))

    async def _live(self, config: BrokerConfig) -> None:
        self.broker = ClusterBroker(config, self._cluster, self)
        try:
            await self.broker.start()
            self.has_started = True
            self._cluster.powerless.discard(self.node)
            await self.broker.failed.wait()
        except StartError as error:
            self._cluster.notes.append(f"broker {self.node} does not start: {error}")
        self._exit()

    async def stop(self) -> None:
        """Stop the broker as SIGTERM does."""
        self.is_stopping = True
        await self.broker.stop()
        self._exit()

    def move_leaders(self, topic: str, target: int) -> None:
        """Let a replica that is in sync lead all partitions of a topic, as if it were the preferred one."""
        self.loop.create_task(self._move_leaders(topic, BrokerId(target)))

    async def _move_leaders(self, topic: str, target: BrokerId) -> None:
        controller, is_planned = self.broker.controller, False

        def planned(image: ClusterImage, epoch: LeaderEpoch) -> Pausing[list[PartitionChange]]:
            nonlocal is_planned
            election = Election(candidates(image), epoch)

            def after(of: TopicImage, number: int) -> PartitionImage | None:
                partition = of.partitions[number]
                others = tuple(one for one in partition.replicas if one != target)
                changed = None if is_planned else election.preferred(replace(partition, replicas=(target, *others)))
                return None if changed is None else replace(changed, replicas=partition.replicas)

            changes = yield from plan_of_all([image.topics[topic]] if topic in image.topics else [], after)
            is_planned = True
            return changes

        with contextlib.suppress(StoreError):
            await carry_out(controller, self.broker.store.limits.operations_max, planned)

    def _exit(self) -> None:
        self._cluster.scheduler.later(0, lambda: None if self.is_dead else self._cluster.kill(self.node))

    def handle(self, context: ConnectionContext, frame: memoryview) -> Any:
        """Serve a request."""
        self._contexts.add(context)
        return self.broker.dispatcher.handle(context, frame)

    def end(self) -> None:
        """End the process at once, and its requests from the outside in: the garbage collector would have no such order."""
        asyncio._set_running_loop(self.loop)
        try:
            for context in self._contexts:
                context.lose()
        finally:
            asyncio._set_running_loop(None)
        super().end()

    def responds(self, key: ApiKey, version: int, response: bytes) -> None:
        """Note of which partitions the broker, as their leader, acknowledges records, and whether its session was over before."""
        if key == ApiKey.PRODUCE:
            now_ms, cluster = self.loop.clock.monotonic_ms(), self._cluster
            _, decoded = decode_response(ProduceResponse, version, memoryview(bytearray(response))[4:])
            for topic in decoded.responses:
                for one in topic.partition_responses:
                    tp = TopicPartition(topic.name, one.index)
                    partition = self.broker.replica_manager.partitions.get(tp)
                    if not one.error_code and partition is not None and partition.is_leader:
                        cluster.acknowledged.setdefault((tp, partition.leader_epoch), set()).add(self.node)
                        over_ms = now_ms - max(cluster.had_session_ms.get(self.node, now_ms), self.resumed_ms)
                        is_over = over_ms > SESSION_GRACE_MS and not cluster.store.has_session(self.node)
                        if is_over and len(partition.replicas) > 1:  # no other broker can lead one with a single replica
                            cluster.problems.append(
                                f"I7: broker {self.node} acknowledged records of {tp} {over_ms} ms after the end of its session"
                            )


class Cluster:
    """The brokers 1 to `count`, of which `lives` has those that run, and one process for all clients."""

    def __init__(self, seed: int, count: int, interleaving: float, settings: dict[str, Any], *, is_fine: bool) -> None:
        self.random = Random(seed)
        self.clock = SettableClock(START_MS)
        self.interleaving = interleaving
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.scheduler = Scheduler(self.clock, self.random, is_fine=is_fine)
        self.network = Network(self.scheduler, self.random)
        self.store = SharedStore(self.scheduler, self.network, self.problems)
        self.clients = Process(self.scheduler, CLIENTS, self.problems)
        self.nodes = tuple(range(1, count + 1))
        self.disks = {node: _new_disk(self.clock) for node in self.nodes}
        self.lives: dict[int, BrokerProcess] = {}
        self.powerless: set[int] = set()  # the nodes that have lost their power, and have not been started since
        self.acknowledged: dict[tuple[TopicPartition, int], set[int]] = {}  # the brokers that did so, by leader epoch
        self.had_session_ms: dict[int, int] = {}  # when each broker was last seen with a session
        self._settings = SETTINGS | settings

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, seed: int, *, count: int = 3, interleaving: float = 0.0, is_fine: bool = True, **settings: Any
    ) -> Iterator[Cluster]:
        """Make a cluster, in which nothing runs yet; everything has ended when the block is left. Others run between
        any two steps if `is_fine`; less time is needed otherwise.."""
        cluster = cls(seed, count, interleaving, settings, is_fine=is_fine)
        lock = SimpleNamespace(Lock=lambda: SimulatedLock(cast("SimulatedLoop", asyncio.get_running_loop())))
        with (
            drawn_from(cluster.random, is_fine=is_fine),
            mock.patch("pybroker.log.checkpoints.offset_checkpoint.threading", lock),
        ):
            try:
                yield cluster
            finally:
                for process in (*cluster.lives.values(), cluster.clients, cluster.store.process):
                    process.end()

    def config(self, node: int) -> BrokerConfig:
        """Return the configuration of a broker."""
        return _config(node, tuple(self._settings.items()))

    @property
    def now_ms(self) -> int:
        """The time since the beginning."""
        return self.clock.monotonic_ms() - START_MS

    def peers(self) -> SimulatedPeers:
        """Return what a client sends its requests by."""
        return SimulatedPeers(self.network, self.clients)

    # --- lives ---

    def start_all(self) -> None:
        """Start every broker that does not run."""
        for node in self.nodes:
            if node not in self.lives:
                self.start(node)

    def start(self, node: int) -> None:
        """Start a broker that does not run."""
        self.lives[node] = BrokerProcess(self, node)

    def stop(self, node: int) -> None:
        """Stop a broker as SIGTERM does; it is gone some time later."""
        process = self.lives[node]
        process.loop.create_task(process.stop())

    def kill(self, node: int) -> None:
        """Kill the process; what it wrote is there."""
        self._end(node, is_silent=False)
        self.disks[node].kill()

    def crash(self, node: int) -> None:
        """Cut the power; some of what was not synced is lost, and the other ends of connections notice nothing."""
        self._end(node, is_silent=True)
        self.disks[node].crash(self.random)
        self.powerless.add(node)

    def _end(self, node: int, *, is_silent: bool) -> None:
        process = self.lives.pop(node)
        self.disks[node].between_operations = None
        process.end()
        self.network.end(process, is_silent=is_silent)
        if is_silent:
            self.network.lose_what_is_sent_by(node)

    def pause(self, node: int) -> None:
        """Stop a process as SIGSTOP does; what is sent to it waits."""
        self.lives[node].loop.is_paused = True

    def resume(self, node: int) -> None:
        """Let a paused process run again."""
        process = self.lives[node]
        if process.loop.is_paused:
            process.loop.is_paused, process.resumed_ms = False, self.clock.monotonic_ms()

    def look_at_sessions(self) -> None:
        """Note which brokers have a session now."""
        for node in self.nodes:
            if self.store.has_session(node):
                self.had_session_ms[node] = self.clock.monotonic_ms()

    def heal(self) -> None:
        """Make all links whole, let all processes run, and lose no more calls of the store."""
        self.network.heal()
        self.store.lost_share = 0.0
        for node in self.lives:
            self.resume(node)
        self.store.process.loop.is_paused = False
        self.start_all()


@cache
def _config(node: int, settings: tuple[tuple[str, Any], ...]) -> BrokerConfig:
    address = f"PLAINTEXT://broker-{node}:9092"
    return BrokerConfig(node_id=node, listeners=address, advertised_listeners=address, **dict(settings))


def _new_disk(clock: SettableClock) -> SimulatedDisk:
    disk = SimulatedDisk(clock)
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk
