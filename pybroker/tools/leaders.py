"""Asks the leaders of partitions for offsets, and asks again while leaders change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pybroker.client.errors import ClientError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from pybroker.tools.admin import Admin

BACKOFF_S: Final = 0.1
NO_LEADER: Final = -1
NOT_YET: Final = {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE}


def list_offsets(
    admin: Admin, partitions: Mapping[str, Sequence[int]], timestamp: int, *, version: int, wait_s: float
) -> list[tuple[str, Any]]:
    """Return for each partition, by topic, its name and what its leader has of a time.

    A partition without a leader after `wait_s` has LEADER_NOT_AVAILABLE. Raises ClientError if no broker can be reached.
    """
    end, found, left = time.monotonic() + wait_s, list[tuple[str, Any]](), partitions
    while True:
        late: dict[str, list[int]] = {}
        for name, one in _of_leaders(admin, left, timestamp=timestamp, version=version):
            if one.error_code in NOT_YET and time.monotonic() < end:
                late.setdefault(name, []).append(one.partition_index)
            else:
                found.append((name, one))
        if not late:
            return found
        time.sleep(BACKOFF_S)
        admin.forget_brokers()
        left = late


def _of_leaders(
    admin: Admin, partitions: Mapping[str, Sequence[int]], *, timestamp: int, version: int
) -> Iterable[tuple[str, Any]]:
    for leader, led in _by_leader(admin, partitions).items():
        topics = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in indexes]
            )
            for name, indexes in led.items()
        ]
        try:
            if leader == NO_LEADER:
                raise ClientError("there is no leader")
            response = admin.ask(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics), version, broker_id=leader)
        except ClientError:
            if admin.is_one_broker:
                raise
            for name, indexes in led.items():
                for index in indexes:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
                    yield name, ListOffsetsPartitionResponse(partition_index=index, error_code=code)
        else:
            yield from ((topic.name, one) for topic in response.topics for one in topic.partitions)


def _by_leader(admin: Admin, partitions: Mapping[str, Sequence[int]]) -> Mapping[int, Mapping[str, Sequence[int]]]:
    """Return the partitions by the broker that leads them."""
    if not partitions:
        return {}
    if admin.is_one_broker:
        return {next(iter(admin.brokers)): partitions}
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in partitions], allow_auto_topic_creation=False)
    leaders = {
        (topic.name, one.partition_index): one.leader_id for topic in admin.ask(request, 9).topics for one in topic.partitions
    }
    found: dict[int, dict[str, list[int]]] = {}
    for name, indexes in partitions.items():
        for index in indexes:
            found.setdefault(leaders.get((name, index), NO_LEADER), {}).setdefault(name, []).append(index)
    return found
