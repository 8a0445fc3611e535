"""ConsumerGroupHeartbeat (key 68), v0-1: everything that a member of a KIP-848 group reports, and what it gets.

Behaviour
    Epoch 0 joins, -1 leaves, -2 leaves for a while (static members). Any other epoch is the member's own; see
    `coordinator/consumer/heartbeat.py`. The broker responds when the state behind the response is durable. The response has an
    assignment if that changed or the request was a full one. The first member that joins turns a classic group of consumers into
    a KIP-848 group, if `group.consumer.migration.policy` allows that; other groups of the classic protocol that have members are
    GROUP_ID_NOT_FOUND.
    Every request is UNSUPPORTED_VERSION where `group.coordinator.rebalance.protocols` lacks consumer, and while the feature
    group.version is 0.
Versions
    v1 regular expressions (INVALID_REGULAR_EXPRESSION), and members choose their ids (KIP-1082).
Not done
    Racks have no influence.
Source: KafkaApis.handleConsumerGroupHeartbeat, GroupCoordinatorService.consumerGroupHeartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.deferred import Deferred
from pybroker.metadata.features import serves_consumer_groups
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services


def handle(
    broker: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]:
    """Pass the heartbeat to the group's coordinator."""
    if not broker.config.has_consumer_groups or not serves_consumer_groups(broker.controller.image):
        return _respond(ErrorCode.UNSUPPORTED_VERSION)
    deferred = Deferred(_respond)
    broker.groups.consumer_heartbeat(
        request,
        version=context.api_version,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer_host}",  # as Java writes an address
        done=deferred.complete,
    )
    return deferred.response()


def _respond(outcome: ConsumerGroupHeartbeatResponse | ErrorCode) -> ConsumerGroupHeartbeatResponse:
    if isinstance(outcome, ErrorCode):
        return ConsumerGroupHeartbeatResponse(error_code=outcome, error_message=outcome.message)
    return outcome
