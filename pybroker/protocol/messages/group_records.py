"""The records of `__consumer_offsets`: the state of offsets, classic groups and KIP-848 groups.

A record's key and value each begin with an int16 that is not part of these messages: the key's is the type of the record
(`RecordType`), its message is always version 0; the value's is the version of its message. A null value deletes.

Kafka 3.9 calls the key's number a version of the key, so type 1 is version 1 of OffsetCommitKey there; the bytes are the same.

Source: group-coordinator/src/main/resources/common/message/*.json, CoordinatorRecordType.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pybroker.protocol.schema import Message, Struct, field
from pybroker.protocol.wire import Int8, Int32, Int64, Uuid


class RecordType(IntEnum):
    """The number that a record's key begins with."""

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


# Committed offsets


class LegacyOffsetCommitKey(Message, versions="0", flexible="none"):
    """The form of `OffsetCommitKey` that was written before Kafka 0.9."""

    group: str = field()
    topic: str = field()
    partition: Int32 = field()


class LegacyOffsetCommitValue(Message, versions="0", flexible="none"):
    """The form of `OffsetCommitValue` v0 that was written before Kafka 0.9."""

    offset: Int64 = field()
    metadata: str = field()
    commit_timestamp: Int64 = field()


class OffsetCommitKey(Message, versions="0", flexible="none"):
    """The group, topic and partition of a committed offset."""

    group: str = field()
    topic: str = field()
    partition: Int32 = field()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset: how far the group has read."""

    offset: Int64 = field()
    leader_epoch: Int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field()
    commit_timestamp: Int64 = field()  # ms
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)  # ms; -1: by the broker's settings
    topic_id: Uuid = field("4+", tag=0, ignorable=True)


# Classic groups


class GroupMetadataKey(Message, versions="0", flexible="none"):
    """The group that a record is about."""

    group: str = field()


class MemberMetadata(Struct):
    """A member of a classic group."""

    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None, ignorable=True)
    client_id: str = field()
    client_host: str = field()
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)  # ms
    session_timeout: Int32 = field()  # ms
    subscription: bytes = field()
    assignment: bytes = field()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A classic group in one of its generations."""

    protocol_type: str = field()
    generation: Int32 = field()
    protocol: str | None = field()
    leader: str | None = field()
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True)  # ms
    members: list[MemberMetadata] = field()


# KIP-848 groups


class ConsumerGroupMetadataKey(Message, versions="0", flexible="none"):
    """The group that a record is about."""

    group_id: str = field()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group's epoch."""

    epoch: Int32 = field()
    metadata_hash: Int64 = field(tag=0)  # of the topics that the group reads (KIP-1101)


class ConsumerGroupPartitionMetadataKey(Message, versions="0", flexible="none"):
    """The group that a record is about."""

    group_id: str = field()


class PartitionMetadata(Struct):
    """A partition's racks, not used since Kafka 4.0."""

    partition: Int32 = field()
    racks: list[str] = field()


class TopicMetadata(Struct):
    """A topic that the group reads."""

    topic_id: Uuid = field()
    topic_name: str = field()
    num_partitions: Int32 = field()
    partition_metadata: list[PartitionMetadata] = field()


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The topics as the last assignment saw them; since Kafka 4.1 a hash in the group's metadata instead."""

    topics: list[TopicMetadata] = field()


class ConsumerGroupMemberMetadataKey(Message, versions="0", flexible="none"):
    """The group and the member that a record is about."""

    group_id: str = field()
    member_id: str = field()


class ClassicProtocol(Struct):
    """A protocol that the member supports."""

    name: str = field()
    metadata: bytes = field()


class ClassicMemberMetadata(Struct):
    """The fields of JoinGroup of a member that uses the classic protocol."""

    session_timeout_ms: Int32 = field()
    supported_protocols: list[ClassicProtocol] = field()


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The properties that a member sent in its heartbeats."""

    instance_id: str | None = field()
    rack_id: str | None = field()
    client_id: str = field()
    client_host: str = field()
    subscribed_topic_names: list[str] = field()
    subscribed_topic_regex: str | None = field()
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: str | None = field()
    # Null, which is not the default, for members that speak KIP-848. Kafka writes the null, as a tagged field.
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0", flexible="none"):
    """The group that a record is about."""

    group_id: str = field()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignments."""

    assignment_epoch: Int32 = field()
    assignment_timestamp: Int64 = field(tag=0, ignorable=True)  # ms


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0", flexible="none"):
    """The group and the member that a record is about."""

    group_id: str = field()
    member_id: str = field()


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field()
    partitions: list[Int32] = field()


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The partitions that the member is to own."""

    topic_partitions: list[TopicPartition] = field()


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="0", flexible="none"):
    """The group and the member that a record is about."""

    group_id: str = field()
    member_id: str = field()


class TopicPartitions(Struct):
    """Partitions of one topic, each with the epoch in which the member got it."""

    topic_id: Uuid = field()
    partitions: list[Int32] = field()
    assignment_epochs: list[Int32] | None = field(tag=0)  # one per partition; empty: not written by Kafka before 4.3


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The partitions that the member owns, and those that it must revoke first."""

    member_epoch: Int32 = field()
    previous_member_epoch: Int32 = field()
    state: Int8 = field()  # 0: stable, 1: must revoke partitions, 2: waits for other members to do so, 127: unknown
    assigned_partitions: list[TopicPartitions] = field()
    partitions_pending_revocation: list[TopicPartitions] = field()


class ConsumerGroupRegularExpressionKey(Message, versions="0", flexible="none"):
    """A regular expression that members of the group subscribe to."""

    group_id: str = field()
    regular_expression: str = field()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that the regular expression matches."""

    topics: list[str] = field()
    version: Int64 = field()  # of the cluster's metadata
    timestamp: Int64 = field()  # ms


RECORDS: Final[dict[RecordType, tuple[type, type]]] = {
    RecordType.LEGACY_OFFSET_COMMIT: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    RecordType.OFFSET_COMMIT: (OffsetCommitKey, OffsetCommitValue),
    RecordType.GROUP_METADATA: (GroupMetadataKey, GroupMetadataValue),
    RecordType.CONSUMER_GROUP_METADATA: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Key and value of every type of record."""
