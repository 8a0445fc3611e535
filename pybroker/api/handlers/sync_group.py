"""SyncGroup (key 14), v0-5: a member gets its assignment; the leader brings those of all.

Behaviour
    The broker responds when the leader's assignment is durable. A member that has joined but does not send this request within
    the rebalance timeout is removed.
    In a KIP-848 group, members of the classic protocol are served by `coordinator/consumer/classic_requests.py`.
Versions
    v1 throttle time. v3 static members (KIP-345). v4 flexible. v5 protocol type and name, which must be the group's (KIP-559);
    INCONSISTENT_GROUP_PROTOCOL when one is missing.
Not done
    Nothing.
Source: KafkaApis.handleSyncGroupRequest, GroupCoordinatorService.syncGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

_PROTOCOL_VERSION: Final = 5


def handle(
    broker: Services, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred[SyncGroupResponse | ErrorCode, SyncGroupResponse]:
    """Wait for the assignment."""
    if context.api_version >= _PROTOCOL_VERSION and None in (request.protocol_type, request.protocol_name):
        return _respond(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return _respond(ErrorCode.INVALID_GROUP_ID)
    deferred = Deferred(_respond)
    broker.groups.sync(request, deferred.complete)
    return deferred.later()


def _respond(outcome: SyncGroupResponse | ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=outcome) if isinstance(outcome, ErrorCode) else outcome
