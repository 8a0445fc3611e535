"""Makes topics, removes them, and looks into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.admin.steps import Ask, Patience, check
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from pybroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from pybroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps
    from pybroker.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

Setting = str | int | float | bool

EARLIEST: Final = -2
LATEST: Final = -1
COMMITTED: Final = 1
CONTROLLER: Final = -1
"""The node that changes the cluster."""
RETRY_S: Final = 0.01
BROKER: Final = 4
RESOURCES: Final = (BROKER, 16, 32)
"""The types of the resources that have settings of their own beside topics: brokers, client metrics, groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of a topic.

    Attributes:
        start: the first offset that the log still has.
        end: the offset behind the last record that consumers can read, the high watermark.
        stable: the offset below which no transaction is open.
        leader: the node id of the leader; -1 if there is none.
    """

    index: int
    start: int
    end: int
    stable: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic with its partitions in their order. `is_internal`: it is one of the broker's own."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def record_count(self) -> int:
        """The number of offsets that consumers can read, which are those of records, of markers, and of compacted records."""
        return sum(partition.end - partition.start for partition in self.partitions)


def text_of(value: Setting) -> str:
    """Return the value of a setting as a text, in Kafka's form."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def create_topic(
    name: str, partitions: int, *, replication_factor: int = -1, settings: Mapping[str, Setting] | None = None
) -> Steps[None]:
    """Create a topic, and wait until its leaders serve. Raises KafkaError, as TOPIC_ALREADY_EXISTS."""
    configs = [CreatableTopicConfig(name=key, value=text_of(value)) for key, value in (settings or {}).items()]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=configs
    )
    response = yield Ask(CreateTopicsRequest(topics=[topic]), 5, CONTROLLER)
    (result,) = response.topics
    check(result.error_code, result.error_message)
    yield from leaders_of(name)


def delete_topics(names: Iterable[str]) -> Steps[None]:
    """Delete topics. Raises KafkaError, as UNKNOWN_TOPIC_OR_PARTITION."""
    topics = [DeleteTopicState(name=name) for name in names]
    if topics:
        response = yield Ask(DeleteTopicsRequest(topics=topics, timeout_ms=30_000), 6, CONTROLLER)
        for result in response.responses:
            check(result.error_code, result.error_message)


def reset() -> Steps[None]:
    """Delete all topics, those of groups and transactions included, and all dynamic settings."""
    found = yield from cluster(None)
    yield from delete_topics(topic.name or "" for topic in found.topics)
    listed = yield Ask(ListConfigResourcesRequest(resource_types=list(RESOURCES)), 1, CONTROLLER)
    names = {(one.resource_type, one.resource_name) for one in listed.config_resources}
    names |= {(BROKER, "")}
    resources = [AlterConfigsResource(resource_type=kind, resource_name=name, configs=[]) for kind, name in sorted(names)]
    by_node: dict[int, list[AlterConfigsResource]] = {}
    for one in resources:  # each broker changes its own settings
        is_own = one.resource_type == BROKER and one.resource_name
        by_node.setdefault(int(one.resource_name) if is_own else CONTROLLER, []).append(one)
    for node, some in by_node.items():
        response = yield Ask(AlterConfigsRequest(resources=some, validate_only=False), 2, node)
        for result in response.responses:
            check(result.error_code, result.error_message)


def topics(names: Iterable[str] | None = None) -> Steps[dict[str, Topic]]:
    """Return topics by their names, all if `names` is None; those that are not there are left out."""
    found = yield from cluster(names)
    found.topics = [topic for topic in found.topics if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    ends = yield from offsets_of(found.topics, LATEST)
    starts = yield from offsets_of(found.topics, EARLIEST)
    stable = yield from offsets_of(found.topics, LATEST, isolation=COMMITTED)
    result = {}
    for topic in sorted(found.topics, key=lambda one: one.name or ""):
        name = topic.name or ""
        partitions = tuple(
            Partition(
                index=one.partition_index,
                start=starts.get((name, one.partition_index), 0),
                end=ends.get((name, one.partition_index), 0),
                stable=stable.get((name, one.partition_index), 0),
                leader=one.leader_id,
                replicas=tuple(one.replica_nodes),
                isr=tuple(one.isr_nodes),
            )
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        )
        result[name] = Topic(name=name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions)
    return result


def cluster(names: Iterable[str] | None, *, may_create: bool = False) -> Steps[MetadataResponse]:
    """Return what a broker knows of topics, of all if `names` is None."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    response: MetadataResponse = yield Ask(MetadataRequest(topics=topics, allow_auto_topic_creation=may_create), 10)
    return response


def leaders_of(name: str, *, may_create: bool = False) -> Steps[MetadataResponseTopic]:
    """Return a topic whose partitions all have leaders that serve them. Raises KafkaError, as UNKNOWN_TOPIC_OR_PARTITION."""
    patience = Patience()
    while True:
        found = yield from cluster([name], may_create=may_create)
        (topic,) = found.topics
        if patience.allows(topic.error_code) or any(patience.allows(one.error_code) for one in topic.partitions):
            yield RETRY_S
            continue
        ends = yield from offsets_of([topic], LATEST)
        if len(ends) == len(topic.partitions):
            return topic
        check(0 if patience.left_s else 5)
        yield RETRY_S


def offsets_of(
    topics: Iterable[MetadataResponseTopic], timestamp: int, *, isolation: int = 0
) -> Steps[dict[tuple[str, int], int]]:
    """Return the offset at a timestamp, or at LATEST or EARLIEST, of each partition whose leader serves it."""
    wanted: dict[int, list[ListOffsetsTopic]] = {}
    for topic in topics:
        by_leader: dict[int, list[ListOffsetsPartition]] = {}
        for one in topic.partitions:
            if one.leader_id >= 0:
                asked = ListOffsetsPartition(partition_index=one.partition_index, timestamp=timestamp)
                by_leader.setdefault(one.leader_id, []).append(asked)
        for leader, partitions in by_leader.items():
            wanted.setdefault(leader, []).append(ListOffsetsTopic(name=topic.name or "", partitions=partitions))
    found: dict[tuple[str, int], int] = {}
    for leader, asked_topics in wanted.items():
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=asked_topics)
        response = yield Ask(request, 6, leader)
        for listed in response.topics:
            found |= {(listed.name, one.partition_index): one.offset for one in listed.partitions if not one.error_code}
    return found
