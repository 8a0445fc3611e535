"""The forms in which the API shows what is in a broker. Names and units are those of `pybroker.testing`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybroker.model import TopicId, topic_id_text

if TYPE_CHECKING:
    from pybroker.admin.calls import Json
    from pybroker.admin.groups import Group, Transaction
    from pybroker.admin.topics import Topic
    from pybroker.faults.trail import SeenRequest


def of_topic(topic: Topic) -> Json:
    """Return a topic with its partitions."""
    return {
        "name": topic.name,
        "topic_id": topic_id_text(TopicId(topic.topic_id)),
        "is_internal": topic.is_internal,
        "record_count": topic.record_count,
        "partitions": [
            {
                "index": one.index,
                "start": one.start,
                "end": one.end,
                "stable": one.stable,
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
        "lag": group.lag,
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


def of_request(request: SeenRequest) -> Json:
    """Return a request of a client."""
    return {**request._asdict(), "partitions": _partitions(sorted(request.partitions))}


def _partitions(partitions: Iterable[tuple[str, int]]) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
