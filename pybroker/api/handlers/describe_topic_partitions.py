"""DescribeTopicPartitions (key 75), v0: topics with their partitions, page by page.

Behaviour
    Topics come in the order of their names, from the cursor on, until the page has as many partitions as the smaller of the
    request's limit and max.request.partition.size.limit. `next_cursor` is where the next page begins; null: there is none. A
    topic that does not exist has an error in the response, and takes no room of the page. Topics are never created. A cursor at a
    topic that the request does not list, or at a negative partition, is INVALID_REQUEST for every topic.
Versions
    Only one.
Not done
    Authorization: everything is allowed, which the operations show. There is no last known leader beside the ISR, because the ISR
    keeps its last member.
Source: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.getTopicMetadataForDescribeTopicResponse; KIP-966.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.nodes import TOPIC_OPERATIONS, offline_replicas, reach
from pybroker.metadata.image import NO_LEADER
from pybroker.metadata.names import invalid_name_reason, is_internal
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import PartitionImage
    from pybroker.model import BrokerId


def handle(broker: Services, context: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Respond with one page from the image of the cluster."""
    image, cursor = broker.controller.image, request.cursor
    listed = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (listed and cursor.topic_name not in listed)):
        return DescribeTopicPartitionsResponse(topics=[_topic(name, ErrorCode.INVALID_REQUEST) for name in sorted(listed)])
    first_name, first_partition = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    reachable = reach(broker, context).ids
    room = max(1, min(broker.config.max_request_partition_size_limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    for name in sorted(name for name in listed or image.topics if name >= first_name):
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            if listed:  # without a list the cursor's topic may have been deleted between two pages
                invalid = invalid_name_reason(name) is not None
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                response.topics.append(_topic(name, code))
            continue
        start = first_partition if name == first_name else 0
        end = min(len(topic.partitions), start + room)
        described = _topic(name, ErrorCode.NONE)
        described.topic_id = topic.topic_id
        described.partitions = [_partition(index, topic.partitions[index], reachable) for index in range(start, end)]
        response.topics.append(described)
        room -= len(described.partitions)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _topic(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, is_internal=is_internal(name), topic_authorized_operations=TOPIC_OPERATIONS
    )


def _partition(index: int, partition: PartitionImage, reachable: frozenset[BrokerId]) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=index,
        leader_id=partition.leader if partition.leader in reachable else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=[],
        offline_replicas=offline_replicas(partition, reachable),
    )
