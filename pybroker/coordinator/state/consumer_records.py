"""The records of consumer groups, as they are made from state. `consumer_replay` has what they mean.

The broker does not write racks. It writes the topics into a record of their own, as Kafka up to 4.0
does; later versions of Kafka read it too.

Source: GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pybroker.coordinator.runtime.result import CoordinatorRecord
from pybroker.protocol.messages import group_records as messages
from pybroker.protocol.messages.group_records import RecordType

if TYPE_CHECKING:
    from pybroker.coordinator.state.consumer_member import Assignment, ClassicMetadata, ConsumerMember, Topics
    from pybroker.model import GroupEpoch, GroupId, MemberId

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


def group_tombstones(group_id: GroupId, members: Iterable[MemberId], regexes: Iterable[str]) -> list[CoordinatorRecord]:
    """Return the records that remove a group with these members and regular expressions, but not its offsets."""
    return [
        *(record for member_id in members for record in member_tombstones(group_id, member_id)),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        _of_group(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, group_id),
        _of_group(RecordType.CONSUMER_GROUP_PARTITION_METADATA, group_id),
        _of_group(RecordType.CONSUMER_GROUP_METADATA, group_id),
    ]
