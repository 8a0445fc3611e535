"""A broker without sockets and logs, for handlers that use only the controller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pybroker.api.context import RequestContext, Services
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.metadata.controller import Controller
from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.network.context import ConnectionContext
from pybroker.protocol.codec import decode, decode_response, encode, encode_response, response_class
from pybroker.protocol.schema import schema_of
from testing.scenes.members import add_live_broker

if TYPE_CHECKING:
    from pybroker.metadata.store.base import Store

BROKER_ID = 1
Message = TypeVar("Message")


class ClusterScene:
    """A broker that has no service except its controller. `ask` calls a handler as the dispatcher does."""

    def __init__(self, store: Store | None = None, **config: Any) -> None:
        self.config = BrokerConfig(node_id=BROKER_ID, **config)
        self.controller = Controller(MemoryStore() if store is None else store, self.config, broker_id=BrokerId(BROKER_ID))
        absent = cast("Any", None)
        self.broker = Services(
            config=self.config,
            clock=ManualClock(),
            metrics=absent,
            controller=self.controller,
            replica_manager=absent,
            fetch_sessions=absent,
            make_groups=absent,
            make_transactions=absent,
        )

    async def start(self, *others: BrokerRegistration, **endpoints: Endpoint) -> ClusterScene:
        await self.controller.start(cluster_id="cluster-id")
        await add_live_broker(self.controller, BrokerRegistration(broker_id=BrokerId(BROKER_ID), endpoints=endpoints, rack="r1"))
        for other in others:
            await add_live_broker(self.controller, other)
        return self

    async def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic, and return its id."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        (outcome,) = await self.controller.create_topics([NewTopic(name=name, partition_count=partitions, configs=dotted)])
        assert outcome.topic is not None, outcome.error
        return outcome.topic.topic_id

    def context(self, version: int, listener_name: str = "PLAINTEXT") -> RequestContext:
        connection = ConnectionContext(connection_id=1, listener_name=listener_name, local_host="10.0.0.7", local_port=9092)
        return RequestContext(connection, version, 1, "test")

    async def ask(
        self,
        handle: Callable[[Services, RequestContext, Any], Any],
        version: int,
        request: object,
        context: RequestContext | None = None,
    ) -> Any:
        """Return the response as a client of `version` reads it; encoding and decoding both messages must succeed."""
        context = self.context(version) if context is None else context
        response = handle(self.broker, context, transmitted(request, version))
        if isinstance(response, Awaitable):
            response = await response
        if isinstance(response, bytes):
            key = schema_of(type(request)).api_key
            assert key is not None
            return decode_response(response_class(key), version, memoryview(response)[4:])[1]
        assert encode_response(response, version, 1)
        return transmitted(response, version)


def transmitted(message: Message, version: int) -> Message:
    """Return the message as the other side reads it."""
    parts = cast("list[bytes]", encode(message, version))  # no records, so there is no SendPart
    return decode(type(message), version, memoryview(b"".join(parts)))
