"""Heartbeat: a member stays in the group, and learns whether it has to join again.

Source: GroupMetadataManager.classicGroupHeartbeat; KIP-345.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.classic_group import GroupState
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard


def heartbeat(shard: GroupShard, request: HeartbeatRequest) -> CoordinatorResult:
    """Start the member's session again, and let the member join again while a rebalance is being prepared."""
    group = shard.classic_groups.get(GroupId(request.group_id))
    if group is None:
        return _response(ErrorCode.UNKNOWN_MEMBER_ID)
    code = group.check_member(MemberId(request.member_id), request.group_instance_id)
    if not code and request.generation_id != group.generation_id:
        code = ErrorCode.ILLEGAL_GENERATION
    if code:
        return _response(code)
    is_preparing = group.state is GroupState.PREPARING_REBALANCE
    result = _response(ErrorCode.REBALANCE_IN_PROGRESS if is_preparing else ErrorCode.NONE)
    rebalance.restart_session(result, group, group.members[MemberId(request.member_id)])
    return result


def _response(code: ErrorCode) -> CoordinatorResult:
    return CoordinatorResult(response=HeartbeatResponse(error_code=code))
