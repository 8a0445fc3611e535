"""How the cluster's brokers are reached from where a request came in, and what a client may do without an authorizer.

A broker tells the address that is configured for the listener of the client's connection. Without one, it tells the address by
which the client has just reached it: that one works. Only this broker can do so; another broker without a fixed address for the
listener is out of the client's reach.

Source: KRaftMetadataCache.getAliveEndpoint, AuthHelper.authorizedOperations, AclEntry.supportedOperations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from pybroker.api.context import Broker, RequestContext
    from pybroker.metadata.image import PartitionImage

TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe configs, alter configs, as bits of AclOperation's codes."""

CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe configs, alter configs, idempotent write."""


class Node(NamedTuple):
    """A broker with the address that the client shall use."""

    broker_id: int
    host: str
    port: int
    rack: str | None


def reachable_nodes(broker: Broker, context: RequestContext) -> tuple[Node, ...]:
    """The brokers that the client can reach, in the order of their ids."""
    image, connection = broker.controller.image, context.connection
    key = ("nodes", connection.listener_name, connection.local_host, connection.local_port)
    known = cast("tuple[Node, ...] | None", image.derived.get(key))
    if known is not None:
        return known
    nodes = []
    for broker_id, registration in sorted(image.brokers.items()):
        endpoint = registration.endpoints.get(connection.listener_name)
        if endpoint is not None:
            nodes.append(Node(broker_id, endpoint.host, endpoint.port, registration.rack))
        elif broker_id == broker.controller.broker_id:
            nodes.append(Node(broker_id, connection.local_host, connection.local_port, registration.rack))
    known = image.derived[key] = tuple(nodes)
    return known


def offline_replicas(partition: PartitionImage, reachable: frozenset[int]) -> list[int]:
    """Replicas on brokers that are away, or out of the client's reach."""
    return [broker_id for broker_id in partition.replicas if broker_id not in reachable]


def controller_id(broker: Broker, nodes: tuple[Node, ...]) -> int:
    """Which of `nodes` a client shall send its changes of the cluster to; -1 when the controller is not among them."""
    wanted = broker.controller.image.controller_id
    return wanted if any(node.broker_id == wanted for node in nodes) else -1
