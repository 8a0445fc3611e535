"""Members of the classic protocol in a KIP-848 group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup to such a group.

While a group changes from one protocol to the other, consumer by consumer, it has members of both protocols. A member of the
classic protocol has a target like the others and moves towards it by the same steps. Its generation is its epoch; it reports in
JoinGroup what it owns, and gets its assignment from SyncGroup. It does not wait for the other members, and no member is the
leader.

    request    what it does                                 when the member has to join again
    JoinGroup  moves the member a step towards its target
    SyncGroup  responds with what the member has            REBALANCE_IN_PROGRESS when the group's epoch is ahead, unless it has
                                                            partitions to give up, which the assignment shows
    Heartbeat  starts the member's session again            REBALANCE_IN_PROGRESS when the group's epoch is ahead, when it has
                                                            partitions to give up, or when what it waits for has become free
    LeaveGroup removes members of both protocols

A member that must join again has its rebalance timeout to do so, and then the same time to send a SyncGroup.

Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, ...SyncToConsumerGroup, ...HeartbeatToConsumerGroup,
...LeaveToConsumerGroup; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pybroker.coordinator.classic.join import refusal_without_group
from pybroker.coordinator.consumer import downgrade, member_timers
from pybroker.coordinator.consumer.draft import GroupDraft
from pybroker.coordinator.embedded_protocol import PROTOCOL_TYPE, read_subscription, write_assignment
from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, Respond
from pybroker.coordinator.state.consumer_member import NAMES_MAX, ClassicMetadata, ConsumerMember, MemberState
from pybroker.model import NO_MEMBER_ID, MemberId
from pybroker.protocol.codec import DecodeError
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker.protocol.messages.join_group import JoinGroupResponse
from pybroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from pybroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from pybroker.coordinator.consumer.draft import ConsumerGroupSettings
    from pybroker.coordinator.state.consumer_group import ConsumerGroup
    from pybroker.coordinator.state.group import JoinRequest
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.metadata.image import ClusterImage
    from pybroker.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)


class ClassicRequestsToConsumerGroup:
    """`GroupRequests` to a KIP-848 group."""

    __slots__ = ("_group", "_image", "_settings", "_shard")

    def __init__(self, shard: GroupShard, group: ConsumerGroup, image: ClusterImage, settings: ConsumerGroupSettings) -> None:
        self._shard = shard
        self._group = group
        self._image = image
        self._settings = settings

    def make_way(self, request: JoinRequest) -> CoordinatorResult:
        """Return the end of a group without members, so that a classic group can take over its offsets."""
        if self._group.members or refusal_without_group(self._shard, request):
            return CoordinatorResult()
        return CoordinatorResult(records=self._group.tombstones())

    def join(self, request: JoinRequest, now_ms: int) -> Pausing[CoordinatorResult]:
        """Serve a JoinGroup; the response is sent when the changes are durable. Raises KafkaError."""
        shard, group, image, settings = self._shard, self._group, self._image, self._settings
        is_new = request.member_id == NO_MEMBER_ID
        instance_id = request.group_instance_id
        if not group.members and (code := refusal_without_group(shard, request)):
            raise KafkaError(code)
        _check_join(shard, group, request, settings)
        member_id = request.member_id
        if is_new:
            member_id = shard.settings.new_member_id(request.client_id if instance_id is None else instance_id)
            if instance_id is None and request.requires_member_id:
                response = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
                return CoordinatorResult(response=response)
        subscription = _subscription(request)
        draft = GroupDraft(group, image, now_ms)
        replaced = group.members.get(group.static_members.get(instance_id or "", NO_MEMBER_ID)) if is_new else None
        before: ConsumerMember | None
        if replaced is not None:
            before = draft.replace_static(replaced, member_id)
        elif instance_id is not None and not is_new:
            before = _member(group, member_id, instance_id)
        else:
            before = group.members.get(member_id)
        member = _with_request(before or ConsumerMember(member_id=member_id), request, subscription)
        if member != before:
            draft.put(member)
        yield from draft.refresh(before, member)
        yield from draft.retarget(settings)
        after = draft.step(member, lambda: _owned(subscription, image))
        logger.info(
            "Group %s in epoch %d: member %s of the classic protocol is in %d, %s",
            *(group.group_id, draft.epoch, member_id, after.epoch, after.state.name.lower().replace("_", " ")),
        )
        members = {**draft.members, member_id: after}
        if replaced is not None and downgrade.is_due(shard, [replaced], members):
            result = _downgraded(shard, draft, members, (member_id, request), now_ms)
        else:
            result = CoordinatorResult(records=draft.records, response=_joined(after))
            member_timers.restart_session(result, group.group_id, after, request.session_timeout_ms)
            member_timers.start_sync_timer(result, group.group_id, after)
            if replaced is not None:
                result.timers += member_timers.stop_timers(group.group_id, replaced.member_id)
        return result

    def sync(self, request: SyncGroupRequest, _respond: Respond, _now_ms: int) -> CoordinatorResult:
        """Serve a SyncGroup. Raises KafkaError."""
        group = self._group
        member, classic = _checked(group, request)
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, classic.protocol_name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        result = CoordinatorResult()
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            member_timers.start_join_timer(result, group.group_id, member)
            result.response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            return result
        names = group.topic_names()
        topics = {names[topic_id]: partitions for topic_id, partitions in member.assigned.items() if topic_id in names}
        result.response = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(topics, classic.protocols[0][1]),
        )
        member_timers.end_sync_timer(result, group.group_id, member)
        member_timers.restart_session(result, group.group_id, member, classic.session_timeout_ms)
        return result

    def heartbeat(self, request: HeartbeatRequest, _now_ms: int) -> CoordinatorResult:
        """Serve a Heartbeat. Raises KafkaError."""
        group = self._group
        member, classic = _checked(group, request)
        result = CoordinatorResult(response=HeartbeatResponse(error_code=ErrorCode.NONE))
        member_timers.restart_session(result, group.group_id, member, classic.session_timeout_ms)
        if (
            member.epoch < group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            result.response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
            member_timers.start_join_timer(result, group.group_id, member)
        return result

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> CoordinatorResult:
        """Remove each member of the request, or respond with an error for it."""
        shard, group = self._shard, self._group
        response = LeaveGroupResponse(error_code=ErrorCode.NONE)
        leaving: dict[MemberId, ConsumerMember] = {}
        for identity in request.members:
            member = _identified(group, identity)
            if isinstance(member, ConsumerMember):
                logger.info("Group %s: member %s leaves", group.group_id, member.member_id)
                leaving[member.member_id] = member
            response.members.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=member if isinstance(member, ErrorCode) else ErrorCode.NONE,
                )
            )
        result = member_timers.remove_members(shard, group, list(leaving.values()), now_ms) if leaving else CoordinatorResult()
        result.response = response
        return result

    def note_commit(self, _result: CoordinatorResult, _member_id: MemberId) -> None:
        """Do nothing, because heartbeats alone keep a session alive."""

    def resume(self, result: CoordinatorResult, _now_ms: int) -> None:
        """Give every member a whole session in `result`, and a whole rebalance timeout to give up partitions."""
        member_timers.restart_timers(result, self._group, self._settings.session_timeout_ms)

    def refuse_waiting(self, _code: ErrorCode) -> tuple[ParkedResponse, ...]:
        """Return no responses: a response only waits for its records, and the runtime refuses it."""
        return ()


def _check_join(shard: GroupShard, group: ConsumerGroup, request: JoinRequest, settings: ConsumerGroupSettings) -> None:
    limits = shard.settings
    if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    if not (limits.may_upgrade or limits.may_downgrade):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_known = request.member_id in group.members or request.group_instance_id in group.static_members
    if not is_known and len(group.members) >= settings.max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if request.protocol_type != PROTOCOL_TYPE or not group.supports_classic([name for name, _ in request.protocols]):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(request: JoinRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0][1], NAMES_MAX)
    except DecodeError as error:
        logger.info("Group %s refuses client %s: its subscription cannot be read: %s", request.group_id, request.client_id, error)
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error


def _with_request(member: ConsumerMember, request: JoinRequest, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )


def _owned(subscription: ConsumerProtocolSubscription, image: ClusterImage) -> dict[bytes, frozenset[int]]:
    """Return what the member reports to own.

    A member that gives up everything before it joins reports nothing, and owns nothing.
    """
    return {
        bytes(topic.topic_id): frozenset(owned.partitions)
        for owned in subscription.owned_partitions
        if (topic := image.topics.get(owned.topic)) is not None
    }


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocol_name,
        member_id=member.member_id,
    )


def _downgraded(
    shard: GroupShard,
    draft: GroupDraft,
    members: Mapping[MemberId, ConsumerMember],
    joining: tuple[MemberId, JoinRequest],
    now_ms: int,
) -> CoordinatorResult:
    """Make the group a classic group, because its last member of the consumer protocol, a static member, has joined again with
    the classic protocol. Nothing of the draft needs to be written, because nothing of the KIP-848 group is left.
    """
    group, (member_id, request) = draft.group, joining
    result = downgrade.to_classic(group, members, draft.targets, epoch=draft.epoch, now_ms=now_ms)
    finish = downgrade.FinishDowngrade(
        shard,
        group.group_id,
        members,
        joining=(member_id, request.respond),
        is_settled=draft.epoch == group.epoch and all(member.has_reached(draft.target_epoch) for member in members.values()),
    )
    without_timers = sorted({*members, *group.members})

    def on_durable(code: ErrorCode, now_ms: int) -> CoordinatorResult:
        follow_up = finish(code, now_ms)
        for stopped_id in () if code else without_timers:
            follow_up.timers += member_timers.stop_timers(group.group_id, stopped_id)
        return follow_up

    result.on_durable = on_durable
    return result


def _member(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> ConsumerMember:
    member = group.member(member_id, instance_id)
    if isinstance(member, ErrorCode):
        raise KafkaError(member)
    return member


def _checked(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> tuple[ConsumerMember, ClassicMetadata]:
    """Return the member of the classic protocol that sent the request, after a check of its generation. Raises KafkaError."""
    member = _member(group, MemberId(request.member_id), request.group_instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != request.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember | ErrorCode:
    """Return the member, or an ErrorCode. An administrator names only the instance."""
    if identity.group_instance_id is not None and not identity.member_id:
        member_id = group.static_members.get(identity.group_instance_id, NO_MEMBER_ID)
        return group.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    return group.member(MemberId(identity.member_id), identity.group_instance_id)
