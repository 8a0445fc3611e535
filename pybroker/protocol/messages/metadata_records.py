"""The records of `__cluster_metadata`, the log in which a KRaft Kafka keeps topics and settings.

A record's value begins with three unsigned varints that are no part of these messages: the version of the frame (1), the type
of the record (`MetadataRecordType`), and the version of its message. There is no key.

Only the records that this broker reads or writes are declared. The types of the others are named, so that a report can name them.

Source: metadata/src/main/resources/common/metadata/*.json; MetadataRecordSerde, AbstractApiMessageSerde.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from pybroker.protocol.schema import Message, field
from pybroker.protocol.wire import Int8, Int16, Int32, Int64, Uuid


class MetadataRecordType(IntEnum):
    """The type of a metadata record."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


class TopicRecord(Message, versions="0", flexible="0+"):
    """A topic that exists from now on."""

    name: str = field()
    topic_id: Uuid = field()


class PartitionRecord(Message, versions="0-2", flexible="0+"):
    """A partition that exists from now on, with its replicas."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid = field()
    replicas: list[Int32] = field()
    isr: list[Int32] = field()
    removing_replicas: list[Int32] = field()
    adding_replicas: list[Int32] = field()
    leader: Int32 = field(default=-1)
    leader_recovery_state: Int8 = field(tag=0)
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    directories: list[Uuid] = field("1+")
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=2, default=None)


class PartitionChangeRecord(Message, versions="0-2", flexible="0+"):
    """Changes of a partition; None, and -2 for the leader, mean that the field did not change."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid = field()
    isr: list[Int32] | None = field(tag=0, default=None)
    leader: Int32 = field(tag=1, default=-2)
    replicas: list[Int32] | None = field(tag=2, default=None)
    removing_replicas: list[Int32] | None = field(tag=3, default=None)
    adding_replicas: list[Int32] | None = field(tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    directories: list[Uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=6, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=7, default=None)


class RemoveTopicRecord(Message, versions="0", flexible="0+"):
    """A topic that does not exist any more."""

    topic_id: Uuid = field()


class ConfigRecord(Message, versions="0", flexible="0+"):
    """A setting of a resource; a null value returns it to its default."""

    resource_type: Int8 = field()
    resource_name: str = field()
    name: str = field()
    value: str | None = field()


class FeatureLevelRecord(Message, versions="0", flexible="0+"):
    """The level of a feature; 0 removes it."""

    name: str = field()
    feature_level: Int16 = field()


class ProducerIdsRecord(Message, versions="0", flexible="0+"):
    """The first producer id that no broker has been given."""

    broker_id: Int32 = field()
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64 = field()


class BeginTransactionRecord(Message, versions="0", flexible="0+"):
    """The begin of records that count only together."""

    name: str | None = field(tag=0, default=None)


class EndTransactionRecord(Message, versions="0", flexible="0+"):
    """The end of records that count only together: they count now."""


class AbortTransactionRecord(Message, versions="0", flexible="0+"):
    """The end of records that count only together: they do not count."""

    reason: str | None = field(tag=0, default=None)


METADATA_RECORDS: Final[dict[MetadataRecordType, type]] = {
    MetadataRecordType.TOPIC: TopicRecord,
    MetadataRecordType.PARTITION: PartitionRecord,
    MetadataRecordType.CONFIG: ConfigRecord,
    MetadataRecordType.PARTITION_CHANGE: PartitionChangeRecord,
    MetadataRecordType.REMOVE_TOPIC: RemoveTopicRecord,
    MetadataRecordType.FEATURE_LEVEL: FeatureLevelRecord,
    MetadataRecordType.PRODUCER_IDS: ProducerIdsRecord,
    MetadataRecordType.BEGIN_TRANSACTION: BeginTransactionRecord,
    MetadataRecordType.END_TRANSACTION: EndTransactionRecord,
    MetadataRecordType.ABORT_TRANSACTION: AbortTransactionRecord,
}
"""The message of each type of record that is read or written."""
