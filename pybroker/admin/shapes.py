"""The forms in which the API shows what is in a broker. Names and units are those of `pybroker.testing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pybroker.admin.texts import of_bytes
from pybroker.model import TopicId, topic_id_text

if TYPE_CHECKING:
    from pybroker.admin.calls import Json
    from pybroker.admin.groups import Group, Transaction
    from pybroker.admin.topics import Topic
    from pybroker.admin.window import Seen
    from pybroker.faults.trail import SeenRequest
    from pybroker.records.batch import BatchView


def of_topic(topic: Topic, sizes: Mapping[tuple[str, int], int] | None) -> Json:
    """Return a topic with its partitions. Without `sizes`, these are null."""
    return {
        "name": topic.name,
        "topic_id": topic_id_text(TopicId(topic.topic_id)),
        "is_internal": topic.is_internal,
        "record_count": topic.record_count,
        "size_bytes": None if sizes is None else sum(sizes.get((topic.name, one.index), 0) for one in topic.partitions),
        "partitions": [
            {
                "index": one.index,
                "start": one.start,
                "end": one.end,
                "stable": one.stable,
                "size_bytes": None if sizes is None else sizes.get((topic.name, one.index), 0),
                "leader": one.leader,
                "replicas": one.replicas,
                "isr": one.isr,
            }
            for one in topic.partitions
        ],
    }


def of_group(group: Group) -> Json:
    """Return a group with its members and offsets."""
    return {
        "group_id": group.group_id,
        "kind": group.kind,
        "state": group.state,
        "lag": _lag(group),
        "members": [
            {
                "member_id": one.member_id,
                "instance_id": one.instance_id,
                "client_id": one.client_id,
                "host": one.host,
                "assigned": _partitions(one.assigned),
            }
            for one in group.members
        ],
        "offsets": [
            {
                "topic": topic,
                "partition": partition,
                "offset": one.offset,
                "end": one.end,
                "lag": one.lag,
                "metadata": one.metadata,
            }
            for (topic, partition), one in group.offsets.items()
        ],
    }


def of_group_in_short(group: Group) -> Json:
    """Return a group without its members and offsets: their number, and the lag for each topic."""
    lags: dict[str, int] = {}
    for (topic, _), one in group.offsets.items():
        lags[topic] = lags.get(topic, 0) + one.lag
    return {
        "group_id": group.group_id,
        "kind": group.kind,
        "state": group.state,
        "lag": _lag(group),
        "member_count": len(group.members),
        "topics": [{"topic": topic, "lag": lag} for topic, lag in lags.items()],
    }


def _lag(group: Group) -> int | None:
    return group.lag if group.offsets else None


def of_transaction(transaction: Transaction) -> Json:
    """Return a transactional id with what is known of its last transaction."""
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "is_open": transaction.is_open,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "timeout_ms": transaction.timeout_ms,
        "partitions": _partitions(transaction.partitions),
    }


def of_seen(seen: Seen, bytes_max: int) -> Json:
    """Return a record; of its key, value and headers no more than `bytes_max` bytes each."""
    record = seen.record
    return {
        "partition": seen.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": of_bytes(record.key, bytes_max),
        "value": of_bytes(record.value, bytes_max),
        "headers": [{"name": name, "value": of_bytes(value, bytes_max)} for name, value in record.headers],
        "size_bytes": len(record.key or b"") + len(record.value or b""),
    }


def of_batch(batch: BatchView) -> Json:
    """Return the header of a batch."""
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "size_bytes": batch.batch_length,
        "magic": batch.magic,
        "codec": batch.compression.name.lower(),
        "timestamp_type": batch.timestamp_type.name,
        "max_timestamp_ms": batch.max_timestamp,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "crc": batch.crc,
        "is_valid": batch.is_valid,
    }


def of_request(request: SeenRequest) -> Json:
    """Return a request of a client."""
    return {**request._asdict(), "partitions": _partitions(sorted(request.partitions))}


def _partitions(partitions: Iterable[tuple[str, int]]) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
