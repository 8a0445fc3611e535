"""LeaveGroup: members leave the group.

Source: GroupMetadataManager.classicGroupLeave; KIP-345.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.runtime.result import CoordinatorResult, TimerChange
from pybroker.coordinator.state.classic_group import ClassicGroup, GroupState
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard


def leave(shard: GroupShard, request: LeaveGroupRequest, now_ms: int) -> CoordinatorResult:
    """Remove each member of the request, or respond with an error for it; then rebalance the group once."""
    group = shard.classic_groups.get(GroupId(request.group_id))
    response = LeaveGroupResponse(error_code=ErrorCode.NONE)
    result = CoordinatorResult(response=response)
    for identity in request.members:
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave_one(result, group, identity)
        response.members.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
    if group is None or all(member.error_code for member in response.members):
        return result
    if group.state is GroupState.PREPARING_REBALANCE:
        rebalance.complete_if_all_joined(result, group, now_ms)
    elif group.state is not GroupState.EMPTY:
        rebalance.prepare(shard, result, group, now_ms)
    return result


def _leave_one(result: CoordinatorResult, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    member_id, instance_id = MemberId(identity.member_id), identity.group_instance_id
    if not member_id:  # an administrator knows only the instance
        if instance_id is None or instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[instance_id]
    elif member_id in group.pending_joins:
        group.remove(member_id)
        result.timers.append(TimerChange(rebalance.session_key(group, member_id), None))
        return ErrorCode.NONE
    code = group.check_member(member_id, instance_id)
    if not code:
        rebalance.drop(result, group, group.members[member_id])
    return code
