"""ConsumerGroupHeartbeat: a member of a KIP-848 group joins, reports what it has, learns its assignment, and leaves.

What a heartbeat does, in order
    A  A classic group of that name becomes a KIP-848 group (`upgrade`). The member is found or made (epoch 0), or it takes the
       place of a static member that had announced to come again, or that spoke the classic protocol.
    B  The group takes over what the member reports about itself. If that changes the topics that the group reads, or if a topic
       has changed since, the group's epoch grows.
    C  If the target belongs to an older epoch, a new target is made for all members.
    D  The member moves a step towards its target.
    E  The member's session starts again. If the member has partitions to give up, it has its rebalance timeout to do so.

A member that is silent for its session timeout, or that does not give up partitions in time, is removed, and then gets
UNKNOWN_MEMBER_ID. A member that joins again under its id, as a fenced member does, has no partitions and begins at epoch 0.

Source: GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave; KIP-848, KIP-1082.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pybroker.coordinator.consumer import member_timers
from pybroker.coordinator.consumer.draft import ConsumerGroupSettings, GroupDraft
from pybroker.coordinator.consumer.heartbeat_request import check
from pybroker.coordinator.consumer.upgrade import Upgrade, upgrade
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.state.consumer_group import ConsumerGroup
from pybroker.coordinator.state.consumer_member import (
    JOIN_EPOCH,
    NOTHING,
    STATIC_LEAVE_EPOCH,
    Assignment,
    ConsumerMember,
    MemberState,
    partitions_of,
)
from pybroker.coordinator.state.consumer_records import current_record
from pybroker.coordinator.state.records import group_tombstone
from pybroker.model import NO_MEMBER_ID, GroupId, MemberId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages import consumer_group_heartbeat as messages
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerHeartbeat:
    """A request with its version, its client, the cluster's image and the group's settings."""

    request: ConsumerGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    image: ClusterImage
    settings: ConsumerGroupSettings


def heartbeat(shard: GroupShard, beat: ConsumerHeartbeat, now_ms: int) -> Pausing[CoordinatorResult]:
    """Serve a heartbeat. The response is a ConsumerGroupHeartbeatResponse for an error too, with a text."""
    try:
        check(beat.request, beat.version, beat.settings.assignors)
        if beat.request.member_epoch < JOIN_EPOCH:
            return _leave(shard, beat, now_ms)
        return (yield from _heartbeat(shard, beat, now_ms))
    except KafkaError as error:
        return CoordinatorResult(response=ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))


def _heartbeat(shard: GroupShard, beat: ConsumerHeartbeat, now_ms: int) -> Pausing[CoordinatorResult]:
    request = beat.request
    group, records, change = yield from _group(shard, beat, now_ms)
    draft = GroupDraft(group, beat.image, now_ms)
    result = CoordinatorResult(records=draft.records)
    draft.records += records
    member_id = MemberId(request.member_id) or shard.settings.new_member_id("consumer")
    is_new = member_id not in group.members and request.instance_id not in group.static_members
    if is_new and request.member_epoch == JOIN_EPOCH and len(group.members) >= beat.settings.max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {beat.settings.max_size} members.",
        )
    before = _member(draft, request, member_id)  # A
    if before is not None:  # the member had another id, or spoke another protocol
        for old_id in {group.static_members.get(before.instance_id or ""), member_id if before.classic else None} - {None}:
            result.timers += member_timers.stop_timers(group.group_id, old_id or NO_MEMBER_ID)
    member = _with_request(before or ConsumerMember(member_id=member_id), beat)
    if member != before:  # B
        draft.put(member)
    yield from draft.refresh(before, member)
    yield from draft.retarget(beat.settings)  # C
    after = draft.step(member, lambda: _owned(request))  # D
    if draft.epoch != group.epoch or after.epoch != member.epoch or after.state is not member.state:
        logger.info(
            "Group %s in epoch %d: member %s is in %d, %s with %d partitions",
            *(group.group_id, draft.epoch, member_id, after.epoch, after.state.name.lower().replace("_", " ")),
            sum(1 for _ in partitions_of(after.assigned)),
        )
    if change is not None:
        yield from change.finish(result)
    member_timers.restart_session(result, group.group_id, after, beat.settings.session_timeout_ms)  # E
    member_timers.restart_revocation(result, group, after)
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    is_assignment_due = request.member_epoch == JOIN_EPOCH or is_full_request or after.assigned != member.assigned
    result.response = ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=beat.settings.heartbeat_interval_ms,
        assignment=_message(after.assigned) if is_assignment_due else None,
    )
    return result


# A


def _group(
    shard: GroupShard, beat: ConsumerHeartbeat, now_ms: int
) -> Pausing[tuple[ConsumerGroup, list[CoordinatorRecord], Upgrade | None]]:
    """Return the group, or a new group that does not exist until its records are replayed; it may replace a classic group."""
    group_id, is_joining = GroupId(beat.request.group_id), beat.request.member_epoch == JOIN_EPOCH
    group = shard.consumer_groups.get(group_id)
    if group is not None:
        return group, [], None
    classic = shard.classic_groups.get(group_id)
    if classic is None and not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if classic is None:
        return ConsumerGroup(group_id), [], None
    if not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if not classic.members:
        return ConsumerGroup(group_id), [group_tombstone(group_id)], None
    change = yield from upgrade(
        classic, beat.image, is_allowed=shard.settings.may_upgrade, max_size=beat.settings.max_size, now_ms=now_ms
    )
    return change.group, change.records, change


def _member(draft: GroupDraft, request: ConsumerGroupHeartbeatRequest, member_id: MemberId) -> ConsumerMember | None:
    """Return the member that sends the request, or None for a new member. Raises KafkaError."""
    group = draft.group
    is_joining = request.member_epoch == JOIN_EPOCH
    instance_id = request.instance_id
    if instance_id is not None and is_joining:
        holder = group.members.get(group.static_members.get(instance_id, NO_MEMBER_ID))
        if holder is None and member_id not in group.members:
            return None
        if holder is not None and holder.member_id != member_id:
            if holder.epoch != STATIC_LEAVE_EPOCH and holder.classic is None:
                raise KafkaError(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
                    f" owned by {holder.member_id} member.",
                )
            return draft.replace_static(holder, member_id)
    member = group.members.get(member_id) if is_joining else group.member(member_id, instance_id)
    if member is None:
        return None
    if isinstance(member, ErrorCode):
        raise KafkaError(
            member,
            f"Member {member_id} is not a member of group {group.group_id}." if member is ErrorCode.UNKNOWN_MEMBER_ID else None,
        )
    if is_joining:
        return replace(member, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    _check_epoch(member, request)
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Check the epoch of the request. Raises KafkaError with FENCED_MEMBER_EPOCH.

    The previous epoch is right too, if the member has no partition beyond its assignment: the last response may have been lost.
    """
    received = request.member_epoch
    if received == member.epoch:
        return
    if received < member.epoch and received == member.previous_epoch and (owned := _owned(request)) is not None:
        assigned = member.assigned
        if all(partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items()):
            return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if received > member.epoch else 'smaller'} member epoch ({received}) than"
        f" the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


# B


def _with_request(member: ConsumerMember, beat: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with what the request has about it; null means that the field has not changed."""
    request = beat.request
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    kept_names = member.topic_names if member.classic is None else ()
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topic_names=kept_names if names is None else tuple(sorted(set(names))),
        topic_regex=member.topic_regex if regex is None else (regex or None),
        client_id=beat.client_id,
        client_host=beat.client_host,
        classic=None,
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    if request.topic_partitions is None:
        return None
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in request.topic_partitions}


def _message(assignment: Assignment) -> messages.Assignment:
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(assignment.items())
        ]
    )


def _leave(shard: GroupShard, beat: ConsumerHeartbeat, now_ms: int) -> CoordinatorResult:
    request = beat.request
    group = shard.consumer_groups.get(GroupId(request.group_id))
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    member = group.member(MemberId(request.member_id), request.instance_id)
    if isinstance(member, ErrorCode):
        raise KafkaError(member)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        logger.info(
            "Group %s: static member %s leaves for a while, and keeps its place until its session times out",
            group.group_id,
            member.member_id,
        )
        absent = replace(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING)
        if absent.state is MemberState.UNREVOKED_PARTITIONS:
            absent = replace(absent, state=MemberState.STABLE)
        result = CoordinatorResult(records=[current_record(group.group_id, absent)])
    else:
        logger.info("Group %s: member %s leaves", group.group_id, member.member_id)
        result = member_timers.remove_members(shard, group, [member], now_ms)
    result.response = ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=member.member_id, member_epoch=request.member_epoch
    )
    return result
