"""The records of consumer groups: how they are made from state, and what they mean when they are replayed.

A member is in two records: its reports about itself, and what it has. The replay of either keeps the other half. The broker does
not write racks. It writes the topics into a record of their own, as Kafka up to 4.0 does; later versions of Kafka read it too.

Source: GroupCoordinatorRecordHelpers, GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.consumer.member import NOTHING, Assignment, ClassicMetadata, ConsumerMember, MemberState
from pybroker.coordinator.runtime.result import CoordinatorRecord
from pybroker.model import NO_GROUP_EPOCH, NO_MEMBER_EPOCH, GroupEpoch, MemberEpoch, group_epoch
from pybroker.protocol.messages import group_records as messages
from pybroker.protocol.messages.group_records import RecordType
from pybroker.protocol.wire import DecodeError

if TYPE_CHECKING:
    from pybroker.coordinator.consumer.group import ConsumerGroup, Topics
    from pybroker.model import GroupId, MemberId

_VERSION: Final = 0
_KEYS: Final = {
    RecordType.CONSUMER_GROUP_METADATA: messages.ConsumerGroupMetadataKey,
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: messages.ConsumerGroupPartitionMetadataKey,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: messages.ConsumerGroupTargetAssignmentMetadataKey,
}
_MEMBER_KEYS: Final = {
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: messages.ConsumerGroupCurrentMemberAssignmentKey,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: messages.ConsumerGroupTargetAssignmentMemberKey,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: messages.ConsumerGroupMemberMetadataKey,
}


def _of_group(kind: RecordType, group_id: GroupId, value: Any = None) -> CoordinatorRecord:
    return CoordinatorRecord(kind, _KEYS[kind](group_id=group_id), value, _VERSION)


def _of_member(kind: RecordType, group_id: GroupId, member_id: MemberId, value: Any = None) -> CoordinatorRecord:
    return CoordinatorRecord(kind, _MEMBER_KEYS[kind](group_id=group_id, member_id=member_id), value, _VERSION)


def epoch_record(group_id: GroupId, epoch: GroupEpoch) -> CoordinatorRecord:
    """Return the record of the group's epoch."""
    return _of_group(RecordType.CONSUMER_GROUP_METADATA, group_id, messages.ConsumerGroupMetadataValue(epoch=epoch))


def topics_record(group_id: GroupId, topics: Topics) -> CoordinatorRecord:
    """Return the record of the topics that the group reads."""
    value = messages.ConsumerGroupPartitionMetadataValue(
        topics=[
            messages.TopicMetadata(topic_id=topic_id, topic_name=name, num_partitions=count)
            for name, (topic_id, count) in sorted(topics.items())
        ]
    )
    return _of_group(RecordType.CONSUMER_GROUP_PARTITION_METADATA, group_id, value)


def member_record(group_id: GroupId, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member reports about itself."""
    value = messages.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=_classic_metadata(member.classic),
    )
    return _of_member(RecordType.CONSUMER_GROUP_MEMBER_METADATA, group_id, member.member_id, value)


def _classic_metadata(classic: ClassicMetadata | None) -> messages.ClassicMemberMetadata | None:
    if classic is None:
        return None
    protocols = [messages.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols]
    return messages.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=protocols)


def current_record(group_id: GroupId, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member has."""
    value = messages.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current(member.assigned),
        partitions_pending_revocation=_current(member.pending_revocation),
    )
    return _of_member(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, group_id, member.member_id, value)


def _current(assignment: Assignment) -> list[messages.TopicPartitions]:
    return [
        messages.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions), assignment_epochs=[])
        for topic_id, partitions in sorted(assignment.items())
    ]


def target_record(group_id: GroupId, member_id: MemberId, target: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target."""
    value = messages.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            messages.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(target.items())
        ]
    )
    return _of_member(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, group_id, member_id, value)


def target_epoch_record(group_id: GroupId, *, epoch: GroupEpoch, now_ms: int) -> CoordinatorRecord:
    """Return the record which shows that all targets belong to this epoch."""
    value = messages.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _of_group(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group_id, value)


def regex_record(group_id: GroupId, regex: str, topics: Iterable[str], *, revision: int, now_ms: int) -> CoordinatorRecord:
    """Return the record of the topics that a regular expression matches."""
    key = messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    value = messages.ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=revision, timestamp=now_ms)
    return CoordinatorRecord(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, key, value, _VERSION)


def regex_tombstone(group_id: GroupId, regex: str) -> CoordinatorRecord:
    """Return the record which shows that no member subscribes to a regular expression any more."""
    key = messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, key, None, _VERSION)


def member_tombstones(group_id: GroupId, member_id: MemberId) -> list[CoordinatorRecord]:
    """Return the records that remove a member."""
    return [_of_member(kind, group_id, member_id) for kind in _MEMBER_KEYS]


def group_tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records that remove the group, but not its offsets."""
    return [
        *(record for member_id in group.members for record in member_tombstones(group.group_id, member_id)),
        *(regex_tombstone(group.group_id, regex) for regex in group.regexes),
        _of_group(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group.group_id),
        _of_group(RecordType.CONSUMER_GROUP_PARTITION_METADATA, group.group_id),
        _of_group(RecordType.CONSUMER_GROUP_METADATA, group.group_id),
    ]


# Replay; a tombstone's value is None


def _epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.epoch = group_epoch(value.epoch)


def _topics(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.topics = {} if value is None else {t.topic_name: (bytes(t.topic_id), t.num_partitions) for t in value.topics}


def _member(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    member = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    classic_metadata = value.classic_member_metadata
    group.put(
        replace(
            member,
            classic=None
            if classic_metadata is None
            else ClassicMetadata(
                classic_metadata.session_timeout_ms,
                tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic_metadata.supported_protocols),
            ),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
        )
    )


def _current_assignment(group: ConsumerGroup, key: Any, value: Any) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(
                replace(
                    member, epoch=NO_MEMBER_EPOCH, previous_epoch=NO_MEMBER_EPOCH, assigned=NOTHING, pending_revocation=NOTHING
                )
            )
        return
    member = member or ConsumerMember(member_id=key.member_id)
    group.put(
        replace(
            member,
            epoch=MemberEpoch(value.member_epoch),
            previous_epoch=MemberEpoch(value.previous_member_epoch),
            state=_state(value.state),
            assigned=_assignment(value.assigned_partitions),
            pending_revocation=_assignment(value.partitions_pending_revocation),
        )
    )


def _target(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = _assignment(value.topic_partitions)


def _target_epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.target_epoch = NO_GROUP_EPOCH if value is None else group_epoch(value.assignment_epoch)


def _regex(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = frozenset(value.topics)


def _state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError as error:
        raise DecodeError(f"a member has the unknown state {number}") from error


def _assignment(topics: Iterable[Any]) -> Assignment:
    return {bytes(topic.topic_id): frozenset(topic.partitions) for topic in topics if topic.partitions}


REPLAYS: Final[Mapping[int, Callable[[ConsumerGroup, Any, Any], None]]] = MappingProxyType(
    {
        RecordType.CONSUMER_GROUP_METADATA: _epoch,
        RecordType.CONSUMER_GROUP_PARTITION_METADATA: _topics,
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: _member,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _current_assignment,
        RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex,
    }
)
"""The effect of each type of record on its group. The shard handles the tombstone of the epoch, which removes the group."""
