"""JoinGroup (key 11), v0-9: a member comes into its group, or comes again for a rebalance.

Behaviour
    The broker responds when the group's next generation begins: when all members have joined or the longest rebalance timeout has
    passed. Until then the request waits. A member is removed when its session ends, not when the connection of the request is
    lost. The cases and the responses by state are in `coordinator/classic/join.py` and `coordinator/state/classic_group.py`.
    A member that names more than PROTOCOLS_MAX protocols is INVALID_REQUEST: all of them are compared with those of each other
    member in one turn of the loop. Clients have up to ten.
    In a KIP-848 group, members of the classic protocol are served by `coordinator/consumer/classic_requests.py`.
Versions
    v0 the session timeout is the rebalance timeout too. v1 rebalance timeout. v2 throttle time. v4 MEMBER_ID_REQUIRED (KIP-394).
    v5 static members (KIP-345). v6 flexible. v7 protocol type and nullable protocol in the response (KIP-559). v8 reason
    (KIP-800). v9 skip assignment (KIP-814).
Not done
    Nothing.
Source: KafkaApis.handleJoinGroupRequest, GroupCoordinatorService.joinGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.coordinator.state.group import JoinRequest
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

_REBALANCE_TIMEOUT_VERSION: Final = 1
_MEMBER_ID_REQUIRED_VERSION: Final = 4
_NULLABLE_PROTOCOL_VERSION: Final = 7
_SKIP_ASSIGNMENT_VERSION: Final = 9

PROTOCOLS_MAX: Final = 100
"""The number of protocols that a member may name."""


def handle(
    broker: Services, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Deferred[JoinGroupResponse | ErrorCode, JoinGroupResponse]:
    """Join, and wait for the generation."""
    version = context.api_version

    def respond(outcome: JoinGroupResponse | ErrorCode) -> JoinGroupResponse:
        if isinstance(outcome, ErrorCode):
            outcome = JoinGroupResponse(error_code=outcome, member_id=request.member_id)
        if outcome.protocol_name is None and version < _NULLABLE_PROTOCOL_VERSION:
            outcome.protocol_name = ""
        return outcome

    if not request.group_id:
        return respond(ErrorCode.INVALID_GROUP_ID)
    if len(request.protocols) > PROTOCOLS_MAX:
        return respond(ErrorCode.INVALID_REQUEST)
    deferred = Deferred(respond)
    session_ms = request.session_timeout_ms
    broker.groups.join(
        JoinRequest(
            group_id=GroupId(request.group_id),
            member_id=MemberId(request.member_id),
            group_instance_id=request.group_instance_id,
            client_id=context.client_id or "",
            client_host=f"/{context.connection.peer_host}",  # as Java writes an address
            protocol_type=request.protocol_type,
            protocols=tuple({protocol.name: protocol.metadata for protocol in request.protocols}.items()),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms if version >= _REBALANCE_TIMEOUT_VERSION else session_ms,
            requires_member_id=version >= _MEMBER_ID_REQUIRED_VERSION,
            can_skip_assignment=version >= _SKIP_ASSIGNMENT_VERSION,
            respond=deferred.complete,
        )
    )
    return deferred.later()
