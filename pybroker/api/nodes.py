"""Decides how a client reaches the cluster's brokers from its listener, which replicas it sees as offline, and what it may do
without an authorizer.

A broker returns the address that is configured for the listener of the client's connection. Without a configured address, it
returns the address by which the client has just reached it, because that one works. In a container it may not work, because a
published port is another address; the address that such a client gets was settled when it connected (docs/design/addresses.md).
Only this broker can do so; another broker without a fixed address for the listener is out of the client's reach.

Source: KRaftMetadataCache.getAliveEndpoint, AuthHelper.authorizedOperations, AclEntry.supportedOperations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_BROKER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import PartitionImage
    from pybroker.metadata.members import BrokerRegistration
    from pybroker.model import BrokerId

TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe configs, alter configs, as bits of AclOperation's codes."""

GROUP_OPERATIONS: Final = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, delete, describe, describe configs, alter configs, the same way."""

CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe configs, alter configs, idempotent write."""

NO_CONTROLLER: Final = NO_BROKER_ID


class Node(NamedTuple):
    """A broker with the address that the client must use."""

    broker_id: BrokerId
    host: str
    port: int
    rack: str | None


class Reach:
    """The brokers that the clients of one listener can reach, in one image of the cluster. Shared: never change it."""

    __slots__ = ("controller_id", "ids", "nodes")

    def __init__(self, nodes: tuple[Node, ...], wanted_controller: BrokerId) -> None:
        self.nodes = nodes  # in the order of their ids
        self.ids = frozenset(node.broker_id for node in nodes)
        self.controller_id = wanted_controller if wanted_controller in self.ids else NO_CONTROLLER


def reach(broker: Services, context: RequestContext) -> Reach:
    """Return the brokers that the client can reach. Made once per image and address, and kept in the image's `derived`."""
    image, connection = broker.controller.image, context.connection
    key = (Reach, connection.listener_name, connection.advertised_host, connection.advertised_port)
    known: Reach | None = image.derived.get(key)
    if known is not None:
        return known
    nodes = _nodes(broker, context, image.brokers)
    known = image.derived[key] = Reach(nodes, image.controller_id)
    return known


def fenced_nodes(broker: Services, context: RequestContext) -> tuple[Node, ...]:
    """Return the registered brokers that are not live."""
    image = broker.controller.image
    return _nodes(broker, context, {one: image.registered[one] for one in image.registered.keys() - image.brokers.keys()})


def _nodes(broker: Services, context: RequestContext, registrations: Mapping[BrokerId, BrokerRegistration]) -> tuple[Node, ...]:
    """Return those of the brokers that have an address for the client, in the order of their ids."""
    nodes, connection = [], context.connection
    for broker_id, registration in sorted(registrations.items()):
        endpoint = registration.endpoints.get(connection.listener_name)
        if endpoint is not None:
            nodes.append(Node(broker_id, endpoint.host, endpoint.port, registration.rack))
        elif broker_id == broker.controller.broker_id:
            nodes.append(Node(broker_id, connection.advertised_host, connection.advertised_port, registration.rack))
    return tuple(nodes)


def offline_replicas(partition: PartitionImage, reachable: frozenset[BrokerId]) -> list[int]:
    """Return the replicas on brokers that are away, or out of the client's reach."""
    return [broker_id for broker_id in partition.replicas if broker_id not in reachable]
