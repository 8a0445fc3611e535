"""A whole broker except its sockets: real logs in a temporary directory, a manual clock, and the dispatcher, which takes
requests.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.api.context import Services
from pybroker.api.dispatch import Dispatcher
from pybroker.broker.authorizing import authorizer_of
from pybroker.broker.dynamic_settings import DynamicSettings
from pybroker.broker.limiting import hold_to_quotas
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.coordinator.service import GroupCoordinator
from pybroker.coordinator.transaction.service import TransactionCoordinator
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.metadata.controller import Controller
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.base import Store
from pybroker.metadata.store.memory import MemoryStore
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import BrokerId, MemberId
from pybroker.network.context import ConnectionContext, Outgoing
from pybroker.protocol.codec import decode_response, encode_request, response_class
from pybroker.protocol.schema import schema_of
from pybroker.purgatory.purgatory import Purgatory
from pybroker.purgatory.timer import OperationTimer
from pybroker.replication.fetch_session import FetchSessionCache
from pybroker.replication.peers import Peers
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.members import add_live_broker
from testing.scenes.no_wake_up import never
from testing.simulation.clock import SettableClock

NOW_MS = 1_700_000_000_000


class Whole:
    """A broker without sockets. `ask` sends a request and reads the response as a client of a version does."""

    def __init__(self, directory: Path, *, store: Store | None = None, clock: SettableClock | None = None, **config: Any) -> None:
        self.clock = clock or SettableClock(NOW_MS)
        self.config = BrokerConfig(**{"node_id": 1, "log_dirs": (str(directory),), **config})
        self.broker_id = BrokerId(self.config.node_id)
        self.controller = Controller(store or MemoryStore(), self.config, broker_id=self.broker_id)
        self.timer = OperationTimer(self.clock, never)
        self.metrics = BrokerMetrics()
        self._member_numbers = itertools.count(1)
        self.call_soon: Callable[[Callable[[], None]], object] = lambda work: work()
        self.peers: Peers | None = None
        self.connection = ConnectionContext(connection_id=1, local_host="127.0.0.1", local_port=9092)

    async def start(self) -> Whole:
        await self.controller.start(cluster_id="cluster-id")
        await add_live_broker(self.controller, BrokerRegistration(broker_id=self.broker_id, endpoints={}))
        self.logs = LogManager(
            self.config.log_dirs,
            cluster_id="cluster-id",
            node_id=self.broker_id,
            services=LogServices(clock=self.clock),
            config_of=lambda _topic: TopicConfig.resolve(self.config, {}),
        )
        self.logs.start()
        self.replicas = ReplicaManager(
            broker_id=self.broker_id,
            config=self.config,
            clock=self.clock,
            log_manager=self.logs,
            image=self.controller.image,
            metrics=self.metrics,
            fetch_purgatory=Purgatory("Fetch", self.timer),
            timer=self.timer,
        )
        self.controller.subscribe(self.replicas.follow, self.replicas.prepare)
        self.serve()
        return self

    def serve(self) -> None:
        """Start the group coordinator and the dispatcher.

        A second call starts new ones from the logs alone, as a restart does.
        """
        for before in (getattr(self, "groups", None), getattr(self, "transactions", None)):
            if before is not None:
                before.stop()
                self.controller.unsubscribe(before.apply_image)
        self.groups = GroupCoordinator(
            self.config,
            clock=self.clock,
            timer=self.timer,
            replicas=self.replicas,
            controller=self.controller,
            call_soon=self._soon,
            new_member_id=lambda name: MemberId(f"{name}-{next(self._member_numbers)}"),
        )
        self.controller.subscribe(self.groups.apply_image)
        self.groups.start()
        self.transactions = TransactionCoordinator(
            self.config,
            clock=self.clock,
            timer=self.timer,
            replicas=self.replicas,
            controller=self.controller,
            groups=lambda: self.groups,
            call_soon=self._soon,
            peers=self.peers,
        )
        self.controller.subscribe(self.transactions.apply_image)
        self.transactions.start()
        self.services = Services(
            config=self.config,
            clock=self.clock,
            metrics=self.metrics,
            controller=self.controller,
            replica_manager=self.replicas,
            fetch_sessions=FetchSessionCache(self.clock, slots_max=10, partitions_max=10_000),
            make_groups=lambda: self.groups,
            make_transactions=lambda: self.transactions,
            authorizer=authorizer_of(self.config, self.controller, lambda: [self.connection]),
            peers=self.peers,
        )
        self.controller.subscribe(DynamicSettings(self.controller, self.services, self.replicas))
        self.dispatcher = Dispatcher(self.services)
        hold_to_quotas(self.services, self.dispatcher, lambda: [self.connection])

    def _soon(self, work: Callable[[], None]) -> None:
        self.call_soon(work)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, and return its id."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        (outcome,) = await self.controller.create_topics([NewTopic(name=name, partition_count=partitions, configs=dotted)])
        assert outcome.topic is not None, outcome.error
        return outcome.topic.topic_id

    def pass_time(self, delta_ms: int) -> None:
        """Advance the clock second by second, so that timers that start others do so in time."""
        while delta_ms > 0:
            self.clock.advance(min(delta_ms, 1000))
            self.timer.advance()
            delta_ms -= 1000

    def send(self, request: object, version: int, client_id: str = "test") -> Any:
        """Return what the dispatcher returns for the request: encoded, or a Future."""
        frame = frame_of(request, version, client_id)
        return self.dispatcher.handle(self.connection, frame)

    async def ask(self, request: object, version: int) -> Any:
        """Return the decoded response; None when there is none."""
        return self.read(await settled(self.send(request, version)), request, version)

    def read(self, sent: Any, request: object, version: int) -> Any:
        """Decode what `send` returned, pulling all its parts as the network would."""
        if sent is None:
            return None
        data = collected(sent)
        assert int.from_bytes(data[:4]) == len(data) - 4
        key = schema_of(type(request)).api_key
        assert key is not None
        correlation_id, response = decode_response(response_class(key), version, memoryview(data)[4:])
        assert correlation_id == 77
        return response


def frame_of(request: object, version: int, client_id: str | None = "test") -> memoryview:
    """Return a request as the network hands it to the dispatcher: writable bytes without the size."""
    parts = encode_request(request, version, correlation_id=77, client_id=client_id)
    return memoryview(bytearray(b"".join(bytes(part) for part in parts)))[4:]  # type: ignore[arg-type]  # no late parts


async def settled(sent: Any) -> Any:
    """Return the response itself; wait for it if it is a Future."""
    return await sent if isinstance(sent, asyncio.Future) else sent


def collected(sent: bytes | Outgoing) -> bytes:
    """Return all bytes of a response, and check the announced sizes of its parts."""
    if isinstance(sent, bytes):
        return sent
    data = bytearray()
    for part in sent.parts:
        if isinstance(part, bytes | bytearray | memoryview):
            data += part
            continue
        before = len(data)
        while pieces := part.pull(1 << 20):
            for piece in pieces:
                data += piece
        assert len(data) - before == part.size
        part.close()
    assert len(data) == sent.size
    if sent.on_sent is not None:
        sent.on_sent()
    return bytes(data)
