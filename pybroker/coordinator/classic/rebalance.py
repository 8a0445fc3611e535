"""The way from one generation of a group to the next: how a rebalance begins, for which members it waits, and how it is
completed.

The coordinator prepares a rebalance: it asks members to join, by the response REBALANCE_IN_PROGRESS to their heartbeats. It
completes the rebalance when all members have joined or the longest rebalance timeout is over; it then removes the dynamic members
that have not joined. After that the group waits for the leader's assignment (`sync`). The first rebalance of an Empty group
begins with a delay, `group.initial.rebalance.delay.ms`, which is extended while new members join, up to the rebalance timeout. A
group whose members start together thus rebalances once.

All functions add what must be done to the result that they are given. Work for each member of a large group is done in slices,
between which the group is held.

Source: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin, tryCompleteInitialRebalanceElseSchedule.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from pybroker.coordinator.runtime.result import CoordinatorResult, Operation, ParkedResponse, TimerChange
from pybroker.coordinator.state.classic_group import ClassicGroup, ClassicMember, GroupState
from pybroker.coordinator.state.classic_records import group_record
from pybroker.model import NO_MEMBER_ID, GenerationId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from pybroker.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import MemberId
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""A new member does not know its id yet, so it cannot send heartbeats while its first JoinGroup waits."""


def session_key(group: ClassicGroup, member_id: MemberId) -> tuple[str, str, str]:
    """Return the key of the timer that removes a silent member."""
    return ("session", group.group_id, member_id)


def join_key(group: ClassicGroup) -> tuple[str, str]:
    """Return the key of the timer that ends the wait for members to join."""
    return ("join", group.group_id)


def sync_key(group: ClassicGroup) -> tuple[str, str]:
    """Return the key of the timer that ends the wait for the SyncGroup of members that have joined."""
    return ("sync", group.group_id)


def unless_replaced(group: ClassicGroup, operation: Operation) -> Operation:
    """Return an operation that runs `operation` unless another group has the name by then, or none."""

    def run(shard: GroupShard, now_ms: int) -> CoordinatorResult | Pausing[CoordinatorResult]:
        if shard.classic_groups.get(group.group_id) is not group:
            return CoordinatorResult()
        return operation(shard, now_ms)

    return run


def restart_session(result: CoordinatorResult, group: ClassicGroup, member: ClassicMember, delay_ms: int | None = None) -> None:
    """Start the member's session again, because the member has shown that it is alive."""
    member_id = member.member_id
    delay_ms = member.session_timeout_ms if delay_ms is None else delay_ms
    expire = unless_replaced(group, lambda shard, now_ms: expire_session(shard, group, member_id, now_ms))
    result.timers.append(TimerChange(session_key(group, member_id), delay_ms, expire))


def expire_session(shard: GroupShard, group: ClassicGroup, member_id: MemberId, now_ms: int) -> CoordinatorResult:
    """Remove a member that was silent for its session timeout, or an id with which no client has joined."""
    result = CoordinatorResult()
    if member_id in group.pending_joins:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            complete_join(result, group, now_ms)
        return result
    member = group.members.get(member_id)
    if member is not None and not member.is_excused:
        logger.info("Group %s: the session of member %s has timed out; the member is removed", group.group_id, member_id)
        drop(result, group, member)
        after_removal(shard, result, group, now_ms)
    return result


def refuse_waiting(
    group: ClassicGroup, member: ClassicMember, code: ErrorCode, *, member_id: MemberId = NO_MEMBER_ID
) -> list[ParkedResponse]:
    """Return `code` as the response to the request of the member that waits, if any. The request no longer waits.

    `member_id` is the id that the response to a JoinGroup names.
    """
    refusals: list[ParkedResponse] = []
    if (respond := group.take_join(member)) is not None:
        refusals.append(ParkedResponse(respond, JoinGroupResponse(error_code=code, member_id=member_id)))
    if member.awaiting_sync is not None:
        refusals.append(ParkedResponse(member.awaiting_sync, SyncGroupResponse(error_code=code)))
        member.awaiting_sync = None
    return refusals


def drop(result: CoordinatorResult, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member.

    If a request of it waits, the response is UNKNOWN_MEMBER_ID, so that a client that is alive joins again.
    """
    result.parked_responses += refuse_waiting(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
    result.timers.append(TimerChange(session_key(group, member.member_id), None))


def after_removal(shard: GroupShard, result: CoordinatorResult, group: ClassicGroup, now_ms: int) -> None:
    """Begin a rebalance because a member was removed, or complete the one in preparation if it waited only for that member."""
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare(shard, result, group, now_ms)
    elif group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(result, group, now_ms)


def prepare_or_complete(shard: GroupShard, result: CoordinatorResult, group: ClassicGroup, now_ms: int) -> None:
    """Begin a rebalance because a member has joined, or complete the one in preparation if it waited only for that member."""
    if group.can_rebalance:
        prepare(shard, result, group, now_ms)
    else:
        complete_if_all_joined(result, group, now_ms)


def complete_if_all_joined(result: CoordinatorResult, group: ClassicGroup, now_ms: int) -> None:
    """Complete the rebalance if all have joined, but never the first one of an Empty group before its delay is over."""
    is_initial = group.previous_state is GroupState.EMPTY
    if group.state is GroupState.PREPARING_REBALANCE and not is_initial and group.has_all_joined:
        complete_join(result, group, now_ms)


def prepare(shard: GroupShard, result: CoordinatorResult, group: ClassicGroup, now_ms: int) -> None:
    """Begin a rebalance. Members that wait for an assignment get REBALANCE_IN_PROGRESS, so that they join again."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        respond_to_syncs(result, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    result.timers.append(TimerChange(sync_key(group), None))
    is_initial = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
    logger.info("Group %s prepares a rebalance after generation %d", group.group_id, group.generation_id)
    if is_initial:
        delay_ms = shard.settings.initial_rebalance_delay_ms
        _wait_for_more(result, group, delay_ms=delay_ms, remaining_ms=max(group.rebalance_timeout_ms - delay_ms, 0))
    elif group.has_all_joined:
        complete_join(result, group, now_ms)
    else:
        _wait_for_all(result, group)


def _wait_for_all(result: CoordinatorResult, group: ClassicGroup) -> None:
    complete = unless_replaced(group, lambda _shard, now_ms: _completed_join(group, now_ms))
    result.timers.append(TimerChange(join_key(group), group.rebalance_timeout_ms, complete))


def _wait_for_more(result: CoordinatorResult, group: ClassicGroup, *, delay_ms: int, remaining_ms: int) -> None:
    """Give the first members of an Empty group time to gather."""

    def expire(shard: GroupShard, now_ms: int) -> CoordinatorResult:
        if not group.has_new_member or remaining_ms == 0:
            return _completed_join(group, now_ms)
        result_again = CoordinatorResult()
        group.has_new_member = False
        next_ms = min(shard.settings.initial_rebalance_delay_ms, remaining_ms)
        _wait_for_more(result_again, group, delay_ms=next_ms, remaining_ms=max(remaining_ms - delay_ms, 0))
        return result_again

    result.timers.append(TimerChange(join_key(group), delay_ms, unless_replaced(group, expire)))


def _completed_join(group: ClassicGroup, now_ms: int) -> CoordinatorResult:
    result = CoordinatorResult()
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join(result, group, now_ms)
    return result


def complete_join(result: CoordinatorResult, group: ClassicGroup, now_ms: int) -> None:
    """Begin the next generation with the members that have joined, because all have or the time is up."""
    result.timers.append(TimerChange(join_key(group), None))
    late_members = [m for m in group.members.values() if m.awaiting_join is None and m.group_instance_id is None]
    for member in late_members:
        group.remove(member.member_id)
        result.timers.append(TimerChange(session_key(group, member.member_id), None))
    if late_members:
        logger.info("Group %s: %d members did not join in time and are removed", group.group_id, len(late_members))
    if group.members and not group.elect_joined_leader():
        _wait_for_all(
            result, group
        )  # only static members are left, and none has joined: wait for them or the end of their sessions
        return
    group.begin_generation(now_ms)
    if group.state is GroupState.EMPTY:
        logger.info("Group %s is empty in generation %d", group.group_id, group.generation_id)
        result.records.append(group_record(group, {}))
        result.is_replayed = False
        return
    logger.info("Group %s begins generation %d with %d members", group.group_id, group.generation_id, len(group.members))
    if group.is_consumer_group and group.topics is None:
        logger.info(
            "Group %s counts as reading every topic, because a subscription cannot be read or is too long", group.group_id
        )
    result.rest = chain(result.rest, _respond_to_joins(result, group))
    generation_id = group.generation_id
    expire = unless_replaced(group, lambda shard, now_ms: _expire_sync(shard, group, generation_id=generation_id, now_ms=now_ms))
    result.timers.append(TimerChange(sync_key(group), group.rebalance_timeout_ms, expire))


def _respond_to_joins(result: CoordinatorResult, group: ClassicGroup) -> Pausing[None]:
    for member in list(group.members.values()):
        if (respond := group.take_join(member)) is not None:
            result.parked_responses.append(ParkedResponse(respond, joined_response(group, member)))
        restart_session(result, group, member)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
        yield


def joined_response(group: ClassicGroup, member: ClassicMember) -> JoinGroupResponse:
    """Return the response that describes the generation to this member."""
    is_leader = member.member_id == group.leader_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_for_leader(group) if is_leader else [],
    )


def members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Return all members with their metadata, for the leader to assign partitions to them."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def respond_to_syncs(result: CoordinatorResult, group: ClassicGroup, code: ErrorCode) -> None:
    """Respond to every SyncGroup that waits, with the assignment or `code`, and start the sessions of these members again,
    because sessions do not count while members wait.
    """
    result.rest = chain(result.rest, _respond_to_syncs(result, group, code))


def _respond_to_syncs(result: CoordinatorResult, group: ClassicGroup, code: ErrorCode) -> Pausing[None]:
    for member in list(group.members.values()):
        if member.awaiting_sync is not None:
            response = SyncGroupResponse(error_code=code) if code else sync_response(group, member)
            result.parked_responses.append(ParkedResponse(member.awaiting_sync, response))
            member.awaiting_sync = None
            restart_session(result, group, member)
        yield


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return the response that holds the member's assignment."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _expire_sync(
    shard: GroupShard, group: ClassicGroup, *, generation_id: GenerationId, now_ms: int
) -> Pausing[CoordinatorResult]:
    """Remove the members that have joined but sent no SyncGroup in time; the others rebalance again."""
    result = CoordinatorResult()
    in_time = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and group.generation_id == generation_id
    if in_time and group.pending_syncs:
        logger.info("Group %s: %d members did not sync in time and are removed", group.group_id, len(group.pending_syncs))
        for member_id in sorted(group.pending_syncs):
            drop(result, group, group.members[member_id])
            yield
        prepare(shard, result, group, now_ms)
    return result
