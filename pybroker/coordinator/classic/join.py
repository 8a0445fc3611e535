"""JoinGroup: a member joins, joins again, or takes the place of its earlier self.

Cases
    A  A new dynamic member from v4 on gets an id and joins again with this id (KIP-394). A client that gives up and tries again
       thus leaves behind only an id, not a member for which all others wait.
    B  Any other new member, and a member with an id from A, is added, and the group rebalances.
    C  A new static member whose instance is in the group already (KIP-345) takes the place and the assignment of the old member,
       whose requests are fenced. In a Stable group whose protocol stays the same, the other members do not notice.
    D  For a known member see the table in `state/classic_group.py`.

Source: GroupMetadataManager.classicGroupJoinToClassicGroup and what it calls; KIP-394, KIP-345, KIP-559, KIP-814.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, TimerChange
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.model import NO_MEMBER_ID
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.group import JoinRequest
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import MemberId


def join(shard: GroupShard, request: JoinRequest, now_ms: int) -> CoordinatorResult:
    """Serve a JoinGroup; see the module. The response goes to `request.respond`, now or when the next generation begins."""
    group = shard.classic_groups.get(request.group_id)
    code = _refusal_of_timeout(shard, request) if group is not None else refusal_without_group(shard, request)
    if code:
        return _refused(request, code, request.member_id)
    is_new = request.member_id == NO_MEMBER_ID
    if group is None:
        group = shard.classic_group(request.group_id)
    if not _has_room(shard, group, request.member_id):
        result = _refused(request, ErrorCode.GROUP_MAX_SIZE_REACHED)
        _forget(result, group, request.member_id, now_ms)
        return result
    if not group.supports(request.protocol_type, (name for name, _ in request.protocols)):
        return _refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    if is_new:
        return _join_new(shard, group, request, now_ms)
    if request.member_id in group.pending_joins:
        if request.group_instance_id is not None:  # only dynamic members get ids
            return _refused(request, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return _add(shard, group, request, request.member_id, now_ms)  # Case B
    if code := group.check_member(request.member_id, request.group_instance_id):
        return _refused(request, code, request.member_id)
    return _join_known(shard, group, group.members[request.member_id], request, now_ms)


def refusal_without_group(shard: GroupShard, request: JoinRequest) -> ErrorCode:
    """Return NONE if the request may begin a group, else what is wrong: a refused request must not leave a group behind."""
    if code := _refusal_of_timeout(shard, request):
        return code
    if request.member_id != NO_MEMBER_ID:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if request.protocol_type and request.protocols else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _refusal_of_timeout(shard: GroupShard, request: JoinRequest) -> ErrorCode:
    limits = shard.settings
    is_allowed = limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms
    return ErrorCode.NONE if is_allowed else ErrorCode.INVALID_SESSION_TIMEOUT


def _refused(request: JoinRequest, code: ErrorCode, member_id: MemberId = NO_MEMBER_ID) -> CoordinatorResult:
    return CoordinatorResult(
        parked_responses=[ParkedResponse(request.respond, JoinGroupResponse(error_code=code, member_id=member_id))]
    )


def _has_room(shard: GroupShard, group: ClassicGroup, member_id: MemberId) -> bool:
    """Return whether `group.max.size` leaves room for the member.

    While a rebalance is being prepared only the members that wait count, because the others may not join again.
    """
    max_size = shard.settings.max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < max_size
    if group.state is GroupState.EMPTY:
        return True
    return member_id in group.members or len(group.members) < max_size


def _forget(result: CoordinatorResult, group: ClassicGroup, member_id: MemberId, now_ms: int) -> None:
    """Remove a member for which there is no room; a rebalance may have waited for this member."""
    member = group.members.get(member_id)
    if member is not None:
        rebalance.drop(result, group, member)
    elif member_id in group.pending_joins:
        group.remove(member_id)
        result.timers.append(TimerChange(rebalance.session_key(group, member_id), None))
    else:
        return
    rebalance.complete_if_all_joined(result, group, now_ms)


def _join_new(shard: GroupShard, group: ClassicGroup, request: JoinRequest, now_ms: int) -> CoordinatorResult:
    instance_id = request.group_instance_id
    member_id = shard.settings.new_member_id(request.client_id if instance_id is None else instance_id)
    if instance_id is not None and instance_id in group.static_members:
        return _replace_static(shard, group, request, member_id, now_ms)  # Case C
    if instance_id is None and request.requires_member_id:  # Case A
        group.pending_joins.add(member_id)
        result = _refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        expire = rebalance.unless_replaced(group, lambda shard, now_ms: rebalance.expire_session(shard, group, member_id, now_ms))
        result.timers.append(TimerChange(rebalance.session_key(group, member_id), request.session_timeout_ms, expire))
        return result
    return _add(shard, group, request, member_id, now_ms)  # Case B


def _add(shard: GroupShard, group: ClassicGroup, request: JoinRequest, member_id: MemberId, now_ms: int) -> CoordinatorResult:
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
    )
    member.is_new = True
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.has_new_member = True
    group.add(member, request.respond)
    result = CoordinatorResult()
    rebalance.restart_session(result, group, member, rebalance.NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.prepare_or_complete(shard, result, group, now_ms)
    return result


def _join_known(
    shard: GroupShard, group: ClassicGroup, member: ClassicMember, request: JoinRequest, now_ms: int
) -> CoordinatorResult:
    """Serve a known member (case D)."""
    is_same = member.protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_same:
        # The response to the member's first request may have been lost.
        return CoordinatorResult(parked_responses=[ParkedResponse(request.respond, rebalance.joined_response(group, member))])
    if group.state is GroupState.STABLE and is_same and member.member_id != group.leader_id:
        return CoordinatorResult(parked_responses=[ParkedResponse(request.respond, rebalance.joined_response(group, member))])
    # When the leader of a Stable group joins again, it has a reason, such as new partitions.
    result = CoordinatorResult()
    earlier = group.take_join(member)
    if earlier is not None:  # its client has given up that request: only one request of a member waits at a time
        result.parked_responses.append(ParkedResponse(earlier, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    _update(group, member, request)
    rebalance.prepare_or_complete(shard, result, group, now_ms)
    return result


def _update(group: ClassicGroup, member: ClassicMember, request: JoinRequest) -> None:
    group.update(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        respond=request.respond,
    )


def _replace_static(
    shard: GroupShard, group: ClassicGroup, request: JoinRequest, member_id: MemberId, now_ms: int
) -> CoordinatorResult:
    """Let a static member take the place of its earlier self (case C)."""
    result = CoordinatorResult()
    instance_id = request.group_instance_id
    assert instance_id is not None
    old = group.members[group.static_members[instance_id]]
    leader_before = group.leader_id
    _fence(result, group, old)
    member = group.replace_static(instance_id, member_id)
    group.pending_syncs.discard(old.member_id)
    rebalance.restart_session(result, group, member)
    _update(group, member, request)
    if group.state is GroupState.STABLE:
        if group.elected_protocol() == group.protocol_name:
            _keep_generation(result, group, old, member, request=request, leader_before=leader_before or NO_MEMBER_ID)
            return result
        rebalance.prepare_or_complete(shard, result, group, now_ms)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        rebalance.prepare(shard, result, group, now_ms)  # otherwise the leader would assign to the old id
    else:
        rebalance.complete_if_all_joined(result, group, now_ms)
    return result


def _fence(result: CoordinatorResult, group: ClassicGroup, member: ClassicMember) -> None:
    """Respond FENCED_INSTANCE_ID to the request that waits of a replaced static member, and stop its session."""
    result.parked_responses += rebalance.refuse_waiting(group, member, ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id)
    result.timers.append(TimerChange(rebalance.session_key(group, member.member_id), None))


def _keep_generation(
    result: CoordinatorResult,
    group: ClassicGroup,
    old: ClassicMember,
    member: ClassicMember,
    *,
    request: JoinRequest,
    leader_before: MemberId,
) -> None:
    """Write the new id to the log, then respond with the present generation. If the write fails, the old id stays."""
    result.records.append(group_record(group, {m.member_id: m.assignment for m in group.members.values()}))
    result.is_replayed = False

    def on_durable(code: ErrorCode, _now_ms: int) -> CoordinatorResult:
        follow_up = CoordinatorResult()
        if group.members.get(member.member_id) is not member:
            return follow_up  # the member was removed meanwhile, with a response
        respond = group.take_join(member)
        if code:
            _take_back(follow_up, group, old, member)
            response = JoinGroupResponse(error_code=code, generation_id=group.generation_id, leader=leader_before)
        else:
            response = rebalance.joined_response(group, member)
            if not request.can_skip_assignment:
                # Before v9 a leader that saw itself named would assign again, and no other member would notice.
                response.leader, response.members = leader_before, []
            elif member.member_id == group.leader_id:
                response.skip_assignment = True
        if respond is not None:
            follow_up.parked_responses.append(ParkedResponse(respond, response))
        return follow_up

    result.on_durable = on_durable


def _take_back(result: CoordinatorResult, group: ClassicGroup, old: ClassicMember, member: ClassicMember) -> None:
    assert member.group_instance_id is not None
    group.update(
        member,
        protocols=old.protocols,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        respond=None,
    )
    result.timers.append(TimerChange(rebalance.session_key(group, member.member_id), None))
    rebalance.restart_session(result, group, group.replace_static(member.group_instance_id, old.member_id))
