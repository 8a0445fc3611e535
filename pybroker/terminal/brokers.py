"""The brokers of a cluster: their addresses and directories, and the release of Kafka that they are like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.client.errors import ClientError
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pybroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from pybroker.terminal.session import Cluster, name_of

if TYPE_CHECKING:
    from pybroker.terminal.output import Row

BROKER_RESOURCE: Final = 4
OURS: Final = "pybroker.advertised.by.peer"
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"

SINCE: Final = (
    ("4.3", ApiKey.DESCRIBE_LOG_DIRS, 5),
    ("4.1", ApiKey.PRODUCE, 13),
    ("4.0", ApiKey.PRODUCE, 12),
    ("3.9", ApiKey.FETCH, 17),
    ("3.7", ApiKey.FETCH, 16),
    ("3.5", ApiKey.FETCH, 15),
)
"""Releases, and a request whose highest version came with each."""


def sizes(cluster: Cluster, partitions: Mapping[str, Sequence[int]]) -> dict[tuple[str, int], int]:
    """Return the bytes of each partition on all brokers together; without those of brokers that do not report them."""
    topics = [DescribableLogDirTopic(topic=name, partitions=list(indexes)) for name, indexes in partitions.items()]
    found: dict[tuple[str, int], int] = {}
    for broker_id in tuple(cluster.brokers) if topics else ():
        for directory in _directories(cluster, broker_id, DescribeLogDirsRequest(topics=topics)):
            for topic in directory.topics:
                for one in topic.partitions:
                    key = topic.name, one.partition_index
                    found[key] = found.get(key, 0) + int(one.partition_size)
    return found


def _directories(cluster: Cluster, broker_id: int, request: object) -> list[Any]:
    try:
        return list(cluster.call(request, broker_id=broker_id).results)
    except ClientError:
        return []


def brokers(cluster: Cluster) -> list[Row]:
    """Return a row for each broker that is live."""
    metadata = cluster.metadata()
    leads: dict[int, int] = {}
    follows: dict[int, int] = {}
    for topic in metadata.topics:
        for one in topic.partitions:
            leads[one.leader_id] = leads.get(one.leader_id, 0) + 1
            for node in one.replica_nodes:
                follows[node] = follows.get(node, 0) + 1
    return [
        {
            "broker": one.node_id,
            "address": f"{one.host}:{one.port}",
            "rack": one.rack,
            "is_controller": one.node_id == metadata.controller_id,
            "leads": leads.get(one.node_id, 0),
            "replicas": follows.get(one.node_id, 0),
            **_of_broker(cluster, one.node_id),
        }
        for one in sorted(metadata.brokers, key=lambda one: int(one.node_id))
    ]


def _of_broker(cluster: Cluster, broker_id: int) -> dict[str, Any]:
    """Return what only the broker itself knows; an error is a part of it."""
    settings = _settings(cluster, broker_id)
    directories = _directories(cluster, broker_id, DescribeLogDirsRequest(topics=None))
    failed = [one.log_dir for one in directories if one.error_code]
    used = sum(one.partition_size for place in directories for topic in place.topics for one in topic.partitions)
    free = [one.usable_bytes for one in directories if not one.error_code and one.usable_bytes >= 0]
    return {
        "software": software(cluster, broker_id, settings),
        "listeners": settings.get(LISTENERS),
        "advertised": settings.get(ADVERTISED),
        "bytes": used if directories else None,
        "free_bytes": min(free) if free else None,
        "failed_directories": failed,
    }


def _settings(cluster: Cluster, broker_id: int) -> dict[str, str | None]:
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(broker_id), configuration_keys=[OURS, LISTENERS, ADVERTISED]
    )
    try:
        (found,) = cluster.call(DescribeConfigsRequest(resources=[resource]), broker_id=broker_id).results
    except ClientError as error:
        return {"": str(error)}
    return {one.name: one.value for one in found.configs} if not found.error_code else {"": name_of(found.error_code)}


def software(cluster: Cluster, broker_id: int, settings: Mapping[str, str | None]) -> str:
    """Return what the broker seems to be: pybroker by its settings, and a release of Kafka by the requests that it serves."""
    versions = cluster.versions(broker_id)
    like = next((name for name, key, highest in SINCE if versions.get(key, (0, -1))[1] >= highest), None)
    release = "Kafka before 3.5" if like is None else f"Kafka {like} or later"
    return f"pybroker, like {release}" if OURS in settings else release
