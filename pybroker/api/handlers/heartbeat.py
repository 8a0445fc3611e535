"""Heartbeat (key 12), v0-4: a member shows that it is alive and learns whether it must rejoin.

Behaviour
    Restarts the member's session timer. REBALANCE_IN_PROGRESS asks the member to join again; it stays a member until the
    rebalance timeout. A static member whose instance has a new member is FENCED_INSTANCE_ID. While groups are loaded every
    heartbeat succeeds, because no session ends then.
    In a KIP-848 group, members of the classic protocol are served by `coordinator/consumer/classic_requests.py`.
Versions
    v1 throttle time. v3 group instance id (KIP-345). v4 flexible.
Not done
    Nothing.
Source: KafkaApis.handleHeartbeatRequest, GroupCoordinatorService.heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.deferred import Deferred
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: HeartbeatRequest,
) -> HeartbeatResponse | Future[HeartbeatResponse]:
    """Restart the session."""
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    deferred = Deferred(_respond)
    broker.groups.heartbeat(request, deferred.complete)
    return deferred.response()


def _respond(outcome: HeartbeatResponse | ErrorCode) -> HeartbeatResponse:
    if not isinstance(outcome, ErrorCode):
        return outcome
    is_loading = outcome is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else outcome)
