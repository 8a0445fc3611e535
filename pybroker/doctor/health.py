"""Looks at the partitions of a cluster: which lack a leader or replicas, and which brokers are missing.

A partition is under min.insync.replicas as Kafka counts it: by the smaller of that number and the number of its replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.client.errors import ClientError
from pybroker.doctor.findings import Partitions
from pybroker.model import BrokerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pybroker.client.connection import Connection

_TOPIC_RESOURCE: Final = 2
_MIN_ISR: Final = "min.insync.replicas"


def partitions_of(metadata: Any, connection: Connection) -> Partitions:
    """Return what the partitions of a response to Metadata lack. The broker also describes the topics that lack replicas."""
    live = {one.node_id for one in metadata.brokers}
    found = sorted(
        (TopicPartition(topic.name, one.partition_index), one) for topic in metadata.topics for one in topic.partitions
    )
    short = [(tp, one) for tp, one in found if len(one.isr_nodes) < len(one.replica_nodes)]
    min_isr = _min_isr_of(connection, dict.fromkeys(tp.topic for tp, _ in short))
    return Partitions(
        count=len(found),
        without_leader=_names((tp, one.leader_id not in live) for tp, one in found),
        under_replicated=tuple(tp for tp, _ in short),
        under_min_isr=_names(
            (tp, one.leader_id in live and len(one.isr_nodes) < min(min_isr.get(tp.topic, 1), len(one.replica_nodes)))
            for tp, one in short
        ),
        missing=tuple(sorted({BrokerId(replica) for _, one in found for replica in one.replica_nodes} - live)),
    )


def _names(found: Iterable[tuple[TopicPartition, bool]]) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp, lacks in found if lacks)


def _min_isr_of(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """Return min.insync.replicas by topic, without the topics whose settings the broker does not report."""
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_MIN_ISR])
        for topic in topics
    ]
    if not resources:
        return {}
    try:
        response = connection.call(DescribeConfigsRequest(resources=resources))
    except ClientError:  # some brokers may forbid it; everything else is known
        return {}
    return {
        result.resource_name: int(config.value)
        for result in response.results
        if result.error_code == ErrorCode.NONE
        for config in result.configs
        if config.value is not None
    }
