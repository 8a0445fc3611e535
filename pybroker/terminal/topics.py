"""Topics: rows about them and their partitions, and their changes."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.listed import did_you_mean
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pybroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pybroker.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from pybroker.protocol.messages.delete_topics import DeleteTopicsRequest
from pybroker.terminal import configs
from pybroker.terminal.brokers import sizes
from pybroker.terminal.session import TIMEOUT_MS, Cluster, FailedError, check
from pybroker.tools.admin import shown_id
from pybroker.tools.groups_admin import EARLIEST, LATEST

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

TOPIC_ALREADY_EXISTS: Final = 36
DELETE_TOPICS_VERSION: Final = 5
"""The last version with topics by name alone."""


def found(cluster: Cluster, names: Sequence[str] = (), *, has_internal: bool = True) -> list[Any]:
    """Return topics by name: those of these names or patterns (`*`, `?`), or all. Raises FailedError for a name that is none."""
    topics = [one for one in cluster.metadata().topics if one.name is not None]
    if not names:
        topics = [one for one in topics if has_internal or not one.is_internal]
    else:
        known = {one.name for one in topics}
        for name in names:
            if not any(fnmatch.fnmatchcase(one, name) for one in known):
                raise unknown_topic(name, known)
        topics = [one for one in topics if any(fnmatch.fnmatchcase(one.name, name) for name in names)]
    return sorted(topics, key=lambda one: str(one.name))


def unknown_topic(name: str, known: Iterable[str]) -> FailedError:
    """Return the error for a topic that is not among the known ones."""
    return FailedError(f"topic {name}: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic{did_you_mean(name, known)}")


def indexes(topics: Iterable[Any]) -> dict[str, list[int]]:
    """Return the partitions of topics by name."""
    return {topic.name: sorted(one.partition_index for one in topic.partitions) for topic in topics}


def listing(cluster: Cluster, names: Sequence[str] = (), *, has_internal: bool = True) -> list[Row]:
    """Return a row for each topic. Offsets that a compaction or a transaction took count as records, too."""
    topics = found(cluster, names, has_internal=has_internal)
    partitions = indexes(topics)
    starts, ends = cluster.ends(partitions, EARLIEST), cluster.ends(partitions, LATEST)
    by_topic: dict[str, int] = {}
    for (name, _), count in sizes(cluster, partitions).items():
        by_topic[name] = by_topic.get(name, 0) + count
    return [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(one.replica_nodes) for one in topic.partitions), default=0),
            "records": _records(topic, starts, ends),
            "bytes": by_topic.get(topic.name),
            "under_replicated": sum(is_under_replicated(one) for one in topic.partitions),
            "offline": sum(one.leader_id < 0 for one in topic.partitions),
            "internal": bool(topic.is_internal),
        }
        for topic in topics
    ]


def is_under_replicated(partition: Any) -> bool:
    """Return whether a replica is not in sync."""
    return len(partition.isr_nodes) < len(partition.replica_nodes)


def _records(topic: Any, starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> int | None:
    """Return how many offsets a topic has; None when a partition has no leader."""
    keys = [(topic.name, one.partition_index) for one in topic.partitions]
    return sum(ends[key] - starts[key] for key in keys) if all(key in starts and key in ends for key in keys) else None


def description(topic: Any) -> Row:
    """Return a topic by itself."""
    return {
        "topic": topic.name,
        "id": shown_id(topic.topic_id),
        "partitions": len(topic.partitions),
        "replicas": max((len(one.replica_nodes) for one in topic.partitions), default=0),
        "internal": bool(topic.is_internal),
    }


def partitions_of(cluster: Cluster, topics: Sequence[Any]) -> list[Row]:
    """Return a row for each partition of topics."""
    partitions = indexes(topics)
    starts, ends, held = cluster.ends(partitions, EARLIEST), cluster.ends(partitions, LATEST), sizes(cluster, partitions)
    rows: list[Row] = []
    for topic in topics:
        for one in sorted(topic.partitions, key=lambda one: int(one.partition_index)):
            key = topic.name, one.partition_index
            first, end = starts.get(key), ends.get(key)
            rows.append(
                {
                    "topic": topic.name,
                    "partition": one.partition_index,
                    "leader": None if one.leader_id < 0 else one.leader_id,
                    "replicas": list(one.replica_nodes),
                    "in_sync": list(one.isr_nodes),
                    "first": first,
                    "end": end,
                    "records": None if first is None or end is None else end - first,
                    "bytes": held.get(key),
                }
            )
    return rows


# --- changes ---


def create(
    cluster: Cluster, names: Sequence[str], *, partitions: int, replicas: int, settings: Mapping[str, str], may_exist: bool
) -> list[Row]:
    """Create topics; -1 partitions or replicas leaves the number to the broker. Raises FailedError."""
    given = [CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=given)
        for name in names
    ]
    rows: list[Row] = []
    for made in cluster.call(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)).topics:
        exists = made.error_code == TOPIC_ALREADY_EXISTS
        if not (exists and may_exist):
            check(f"topic {made.name}", made.error_code, made.error_message, functools.partial(_meant, cluster, made, settings))
        rows.append({"topic": made.name, "created": not exists, "partitions": None if exists else made.num_partitions})
    return rows


def _meant(cluster: Cluster, made: Any, settings: Mapping[str, str]) -> str:
    """Return what may have been meant by a setting of a topic that was not made. The broker knows the settings of a topic that
    could be made without any."""
    if made.error_code not in configs.MISTAKES:
        return ""
    topic = CreatableTopic(name=made.name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[])
    (checked,) = cluster.call(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=True)).topics
    return configs.suggestion(settings, [one.name for one in checked.configs or ()])


def delete(cluster: Cluster, names: Sequence[str], *, may_be_missing: bool) -> list[str]:
    """Delete topics, and return their names. Raises FailedError."""
    request = DeleteTopicsRequest(topics=[], topic_names=list(names), timeout_ms=TIMEOUT_MS)
    deleted = []
    for one in cluster.ask(request, DELETE_TOPICS_VERSION).responses:
        if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            if may_be_missing:
                continue
            found(cluster, [one.name])  # reports that there is none, and what may have been meant
        check(f"topic {one.name}", one.error_code, one.error_message)
        deleted.append(str(one.name))
    return deleted


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Give a topic more partitions, until it has `count`. Raises FailedError."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    for one in cluster.call(CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)).results:
        check(f"topic {name}", one.error_code, one.error_message)


def delete_records(cluster: Cluster, topic: str, before: Mapping[int, int]) -> list[Row]:
    """Delete the records of partitions before these offsets, -1 being all. Raises FailedError."""
    leaders = {one.partition_index: one.leader_id for one in found(cluster, [topic])[0].partitions}
    rows: list[Row] = []
    for index, offset in sorted(before.items()):
        if index not in leaders:
            raise FailedError(f"{topic}-{index}: UNKNOWN_TOPIC_OR_PARTITION: the topic has no such partition")
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS)
        (result,) = cluster.call(request, broker_id=leaders[index]).topics[0].partitions
        check(f"{topic}-{index}", result.error_code)
        rows.append({"topic": topic, "partition": index, "first": result.low_watermark})
    return rows
