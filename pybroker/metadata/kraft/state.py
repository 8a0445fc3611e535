"""The state that the records of `__cluster_metadata` amount to: the topics, their partitions, and the settings of all resources.

Records between a begin and an end count only together. Those whose end is missing do not count: the controller had not finished
them.

Source: TopicsDelta, ConfigurationsDelta, PartitionRegistration.merge, MetadataBatchLoader of Kafka.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybroker.metadata.kraft.reading import DamagedMetadataError
from pybroker.model import NO_PRODUCER_ID, LeaderEpoch, ProducerId, TopicId
from pybroker.protocol.messages.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecordType,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.metadata.kraft.frames import MetadataRecord

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

_NOT_CARRIED: Final = {
    MetadataRecordType.DELEGATION_TOKEN: "delegation tokens",
    MetadataRecordType.USER_SCRAM_CREDENTIAL: "SCRAM credentials",
    MetadataRecordType.CLIENT_QUOTA: "client quotas",
    MetadataRecordType.ACCESS_CONTROL_ENTRY: "access control entries",
}
_LEADER_UNCHANGED: Final = -2


@dataclass(slots=True, kw_only=True)
class KraftPartition:
    """A partition and the brokers that hold it. `directories` are the ids of their log directories, in the same order."""

    replicas: tuple[int, ...]
    leader_epoch: LeaderEpoch
    directories: tuple[bytes, ...] = ()


@dataclass(slots=True, kw_only=True)
class KraftTopic:
    """A topic. `partitions` are by number."""

    name: str
    topic_id: TopicId
    partitions: dict[int, KraftPartition] = field(default_factory=dict)


@dataclass(slots=True)
class KraftState:
    """The cluster after all records. `configs` are by the type and the name of their resource."""

    topics: dict[TopicId, KraftTopic] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: ProducerId = NO_PRODUCER_ID
    not_carried: Counter[str] = field(default_factory=Counter)
    """How many records were made of each kind that this broker does not have."""

    def topic_named(self, name: str) -> KraftTopic | None:
        """Return the topic of that name."""
        return next((topic for topic in self.topics.values() if topic.name == name), None)


def state_of(records: Iterable[MetadataRecord]) -> KraftState:
    """Return the state after `records`. Raises DamagedMetadataError if a record refers to something that is not there."""
    state = KraftState()
    open_records: list[MetadataRecord] | None = None
    for record in records:
        if record.record_type == MetadataRecordType.BEGIN_TRANSACTION:
            open_records = []
        elif record.record_type == MetadataRecordType.ABORT_TRANSACTION:
            open_records = None
        elif record.record_type == MetadataRecordType.END_TRANSACTION:
            for one in open_records or ():
                _apply(state, one)
            open_records = None
        elif open_records is not None:
            open_records.append(record)
        else:
            _apply(state, record)
    return state


def _apply(state: KraftState, record: MetadataRecord) -> None:
    message: Any = record.message
    if isinstance(message, TopicRecord):
        state.topics[TopicId(message.topic_id)] = KraftTopic(name=message.name, topic_id=TopicId(message.topic_id))
    elif isinstance(message, RemoveTopicRecord):
        topic = _topic(state, message.topic_id)
        del state.topics[topic.topic_id]
        state.configs.pop((TOPIC_RESOURCE, topic.name), None)
    elif isinstance(message, PartitionRecord):
        _topic(state, message.topic_id).partitions[message.partition_id] = KraftPartition(
            replicas=tuple(message.replicas),
            leader_epoch=LeaderEpoch(message.leader_epoch),
            directories=tuple(message.directories),
        )
    elif isinstance(message, PartitionChangeRecord):
        _change_partition(_topic(state, message.topic_id), message)
    elif isinstance(message, ConfigRecord):
        values = state.configs.setdefault((message.resource_type, message.resource_name), {})
        if message.value is None:
            values.pop(message.name, None)
        else:
            values[message.name] = message.value
    elif isinstance(message, FeatureLevelRecord):
        state.features[message.name] = message.feature_level
    elif isinstance(message, ProducerIdsRecord):
        state.next_producer_id = ProducerId(message.next_producer_id)
    elif record.record_type in _NOT_CARRIED:
        state.not_carried[_NOT_CARRIED[MetadataRecordType(record.record_type)]] += 1


def _topic(state: KraftState, topic_id: bytes) -> KraftTopic:
    topic = state.topics.get(TopicId(topic_id))
    if topic is None:
        raise DamagedMetadataError("Kafka's metadata names a topic id that no topic has")
    return topic


def _change_partition(topic: KraftTopic, change: PartitionChangeRecord) -> None:
    partition = topic.partitions.get(change.partition_id)
    if partition is None:
        raise DamagedMetadataError(f"Kafka's metadata changes {topic.name}-{change.partition_id}, which does not exist")
    if change.replicas is not None:
        partition.replicas = tuple(change.replicas)
    if change.directories is not None:
        partition.directories = tuple(change.directories)
    if change.leader != _LEADER_UNCHANGED:
        partition.leader_epoch = LeaderEpoch(partition.leader_epoch + 1)
