"""LeaveGroup (key 13), v0-5: members leave, and the other members share their partitions at once.

Behaviour
    A member names itself; an administrator names a static member by its instance alone. Each member has a result of its own; the
    group rebalances once. A static consumer that is only closed does not send this request.
    In a KIP-848 group, members of the classic protocol are served by `coordinator/consumer/classic_requests.py`.
Versions
    v0-2 one member, whose error is the response's. v1 throttle time. v3 any number of members (KIP-345). v4 flexible. v5 reason
    (KIP-800), which is not used.
Not done
    Nothing.
Source: KafkaApis.handleLeaveGroupRequest, GroupCoordinatorService.leaveGroup, LeaveGroupResponse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import Pieces
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

PIECES: Final = Pieces(("members", "members"), elements=1_000)

_SEVERAL_MEMBERS_VERSION: Final = 3


def handle(
    broker: Services, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Future[LeaveGroupResponse]:
    """Remove the members from the group."""
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    is_single = context.api_version < _SEVERAL_MEMBERS_VERSION
    if is_single:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def respond(outcome: LeaveGroupResponse | ErrorCode) -> LeaveGroupResponse:
        if isinstance(outcome, ErrorCode):
            return LeaveGroupResponse(error_code=outcome)
        if is_single:
            return LeaveGroupResponse(error_code=outcome.members[0].error_code)
        return outcome

    deferred = Deferred(respond)
    broker.groups.leave(request, deferred.complete)
    return deferred.response()
