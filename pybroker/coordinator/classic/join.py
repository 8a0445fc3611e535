"""JoinGroup: a member comes, comes again, or takes the place of its earlier self.

Cases
    A  a new dynamic member from v4 on: it gets an id and comes again with it (KIP-394), so that a client which gives up and
       tries again leaves only an id behind, not a member that everybody waits for.
    B  a new member otherwise, or the id of A: it is added, and the group rebalances.
    C  a new static member whose instance is there already (KIP-345): it takes the place and the assignment of the old one,
       whose requests are fenced. In a Stable group whose protocol stays, nobody else notices.
    D  a member that is known: see the table in `classic/group.py`.

Source: GroupMetadataManager.classicGroupJoinToClassicGroup and what it calls; KIP-394, KIP-345, KIP-559, KIP-814.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.classic.group import ClassicGroup, ClassicMember, GroupState, Protocols
from pybroker.coordinator.records import group_record
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, Respond, TimerChange
from pybroker.model import NO_MEMBER_ID
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.shard import GroupShard
    from pybroker.model import GroupId, MemberId


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinRequest:
    """What a JoinGroup says, and what the connection says of its client."""

    group_id: GroupId
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    requires_member_id: bool
    """From v4."""
    can_skip_assignment: bool
    """From v9: a static leader that comes back is told not to assign anew (KIP-814)."""
    respond: Respond


def join(shard: GroupShard, request: JoinRequest, now_ms: int) -> CoordinatorResult:
    """See the module. The answer goes to `request.respond`, now or when the group's next generation begins."""
    settings = shard.settings
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return _refused(request, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
    is_new = request.member_id == NO_MEMBER_ID
    group = shard.classic_groups.get(request.group_id)
    if group is None:
        if not is_new:
            return _refused(request, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        if not (request.protocol_type and request.protocols):  # an answer that must not leave a group behind
            return _refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
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
        if request.group_instance_id is not None:  # ids are only given out to dynamic members
            return _refused(request, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return _add(shard, group, request, request.member_id, now_ms)  # Case B
    code = group.check_member(request.member_id, request.group_instance_id)
    if code:
        return _refused(request, code, request.member_id)
    return _join_known(shard, group, group.members[request.member_id], request, now_ms)


def _refused(request: JoinRequest, code: ErrorCode, member_id: MemberId = NO_MEMBER_ID) -> CoordinatorResult:
    return CoordinatorResult(
        parked_responses=[ParkedResponse(request.respond, JoinGroupResponse(error_code=code, member_id=member_id))]
    )


def _has_room(shard: GroupShard, group: ClassicGroup, member_id: MemberId) -> bool:
    """Whether the group takes the member within `group.max.size`. In preparation those who wait count, as the others may go."""
    max_size = shard.settings.max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.awaiting_join is not None) or group.awaiting_join_count < max_size
    if group.state is GroupState.EMPTY:
        return True
    return member_id in group.members or len(group.members) < max_size


def _forget(result: CoordinatorResult, group: ClassicGroup, member_id: MemberId, now_ms: int) -> None:
    """Take out a member for which there is no room; it may be the one that a rebalance waits for."""
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
    """Case D."""
    is_same = member.protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_same:
        # It may not have got the answer to its first request.
        return CoordinatorResult(parked_responses=[ParkedResponse(request.respond, rebalance.joined_response(group, member))])
    if group.state is GroupState.STABLE and is_same and member.member_id != group.leader_id:
        return CoordinatorResult(parked_responses=[ParkedResponse(request.respond, rebalance.joined_response(group, member))])
    # In a Stable group the leader's coming means that it sees a reason, such as new partitions.
    result = CoordinatorResult()
    earlier = group.take_join(member)
    if earlier is not None:  # its client has given up on that one: one request of a member waits at a time
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
    """Case C."""
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
        rebalance.prepare(shard, result, group, now_ms)  # the leader would assign to the old id
    else:
        rebalance.complete_if_all_joined(result, group, now_ms)
    return result


def _fence(result: CoordinatorResult, group: ClassicGroup, member: ClassicMember) -> None:
    """Answer what still waits of a static member that has been replaced, and stop its session."""
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
    """Write down the new id, then answer with the generation as it stands. If it cannot be written the old id stays."""
    result.records.append(group_record(group, {m.member_id: m.assignment for m in group.members.values()}))
    result.is_replayed = False

    def on_durable(code: ErrorCode, _now_ms: int) -> CoordinatorResult:
        follow_up = CoordinatorResult()
        if group.members.get(member.member_id) is not member:
            return follow_up  # gone meanwhile, and answered
        respond = group.take_join(member)
        if code:
            _take_back(follow_up, group, old, member)
            response = JoinGroupResponse(error_code=code, generation_id=group.generation_id, leader=leader_before)
        else:
            response = rebalance.joined_response(group, member)
            if not request.can_skip_assignment:
                # Before v9 a leader that saw itself as such would assign anew, and nobody would take notice.
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
