"""SyncGroup: members ask for their assignment, and the leader brings the assignments of all.

The leader's request makes the generation durable. Only then do members get their assignments, and the group becomes Stable. If
the record cannot be written, all members get the error and the group rebalances again.

Source: GroupMetadataManager.classicGroupSyncToClassicGroup; KIP-559.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, Respond, TimerChange
from pybroker.coordinator.state.classic_group import ClassicGroup, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.model import GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard


def sync(shard: GroupShard, request: SyncGroupRequest, respond: Respond) -> CoordinatorResult:
    """Serve a SyncGroup. The response goes to `respond`, now or when the leader's assignment is durable."""
    group = shard.classic_groups.get(GroupId(request.group_id))
    code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _refusal(group, request)
    if group is None or code:
        return CoordinatorResult(parked_responses=[ParkedResponse(respond, SyncGroupResponse(error_code=code))])
    member = group.members[MemberId(request.member_id)]
    result = CoordinatorResult()
    group.pending_syncs.discard(MemberId(request.member_id))
    if not group.pending_syncs:
        result.timers.append(TimerChange(rebalance.sync_key(group), None))
    if group.state is GroupState.STABLE:
        result.parked_responses.append(ParkedResponse(respond, rebalance.sync_response(group, member)))
        return result
    if member.awaiting_sync is not None:  # its client has given up that request
        result.parked_responses.append(
            ParkedResponse(member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        )
    member.awaiting_sync = respond
    if member.member_id == group.leader_id:
        _take_assignment(shard, result, group, request)
    return result


def _refusal(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    code = group.check_member(MemberId(request.member_id), request.group_instance_id)
    if code:
        return code
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _take_assignment(shard: GroupShard, result: CoordinatorResult, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Write the leader's assignment to the log.

    Members that the leader left out get an empty assignment; assignments of ids that are not members are ignored.
    """
    assigned = {one.member_id: one.assignment for one in request.assignments}
    assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}
    generation_id = group.generation_id
    result.records.append(group_record(group, assignments))
    result.is_replayed = False

    def on_durable(code: ErrorCode, now_ms: int) -> CoordinatorResult:
        follow_up = CoordinatorResult()
        # If a member has joined or left meanwhile, another rebalance has begun, and all members already have a response.
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return follow_up
        for member in group.members.values():
            member.assignment = b"" if code else assignments[member.member_id]
        if not code:
            group.transition_to(GroupState.STABLE, now_ms)
        rebalance.respond_to_syncs(follow_up, group, code)
        if code:
            rebalance.prepare(shard, follow_up, group, now_ms)
        return follow_up

    result.on_durable = on_durable
