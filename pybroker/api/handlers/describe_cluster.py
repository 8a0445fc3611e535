"""DescribeCluster (key 60), v0-2: the brokers, without topics.

Behaviour
    The addresses are those of Metadata. A broker that is registered and not live is fenced. A broker refuses a request for the
    controllers, because its listeners are for clients.
Versions
    v1 the type of the requested endpoints: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE (KIP-919). v2 whether to include
    fenced brokers (KIP-1073).
Not done
    Authorization: everything is allowed, which the operations show.
Source: KafkaApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse; KIP-700.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.nodes import CLUSTER_OPERATIONS, fenced_nodes, reach
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.api.nodes import Node

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(broker: Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Respond from the image of the cluster."""
    if request.endpoint_type == CONTROLLERS:
        text = "The request was sent to a broker, but asks about controllers."
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=text)
    if request.endpoint_type != BROKERS:
        text = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=text)
    reachable = reach(broker, context)
    response = DescribeClusterResponse(
        cluster_id=broker.controller.image.cluster_id,
        controller_id=reachable.controller_id,
        brokers=[_described(node) for node in reachable.nodes],
    )
    if request.include_fenced_brokers:
        response.brokers += [_described(node, is_fenced=True) for node in fenced_nodes(broker, context)]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _described(node: Node, *, is_fenced: bool = False) -> DescribeClusterBroker:
    return DescribeClusterBroker(broker_id=node.broker_id, host=node.host, port=node.port, rack=node.rack, is_fenced=is_fenced)
