"""How large partitions are on the disks of their leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.admin.steps import Ask, check
from pybroker.admin.topics import cluster
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

if TYPE_CHECKING:
    from pybroker.admin.steps import Steps


def sizes(wanted: str | None = None) -> Steps[dict[tuple[str, int], int] | None]:
    """Return the bytes of each partition that has a leader, by topic and partition, or only those of the topic `wanted`.

    Returns None for a user that may not know.
    """
    found = yield from cluster(None if wanted is None else [wanted])
    leaders = {(topic.name, one.partition_index): one.leader_id for topic in found.topics for one in topic.partitions}
    asked = None
    if wanted is not None:
        asked = [DescribableLogDirTopic(topic=wanted, partitions=[index for _, index in leaders])]
    result: dict[tuple[str, int], int] = {}
    for node in sorted({leader for leader in leaders.values() if leader >= 0}):
        response = yield Ask(DescribeLogDirsRequest(topics=asked), 4, node)
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return None
        check(response.error_code)
        for directory in response.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key and leaders.get((topic.name, one.partition_index)) == node:
                        result[topic.name, one.partition_index] = one.partition_size
    return result
