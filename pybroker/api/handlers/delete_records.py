"""DeleteRecords (key 21), v0-2: let partitions begin later.

Behaviour
    When the response is sent, records below the offset are gone for every reader; -1 is the high watermark, so everything that
    can be read. The next retention pass removes whole segments below the offset. An offset before the beginning changes nothing.
    The response has the offset at which the partition begins. OFFSET_OUT_OF_RANGE above the high watermark and below -1,
    POLICY_VIOLATION for a topic whose cleanup.policy is compact alone, INVALID_TOPIC_EXCEPTION for the coordinators' topics.
Versions
    v1 throttle time. v2 flexible.
Not done
    Waiting for followers: there are none.
Source: ReplicaManager.deleteRecords, Partition.deleteRecordsOnLeader; KIP-107.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.metadata.names import is_internal
from pybroker.model import NO_OFFSET, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

logger = logging.getLogger(__name__)

HIGH_WATERMARK: Final = Offset(-1)

PIECES: Final = Pieces(("topics.partitions", "topics.partitions"), elements=20)


def handle(broker: Services, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:  # noqa: ARG001
    """Delete the records that can be deleted, then respond."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _result(broker, TopicPartition(topic.name, partition.partition_index), Offset(partition.offset))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _result(broker: Services, topic_partition: TopicPartition, offset: Offset) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = _delete(broker, topic_partition, offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=topic_partition.partition, low_watermark=NO_OFFSET, error_code=error.code
        )
    return DeleteRecordsPartitionResult(
        partition_index=topic_partition.partition, low_watermark=low_watermark, error_code=ErrorCode.NONE
    )


def _delete(broker: Services, topic_partition: TopicPartition, offset: Offset) -> Offset:
    """Delete and return the offset at which the partition begins now. Raises KafkaError."""
    partition = broker.replica_manager.partition_or_raise(topic_partition)
    if is_internal(topic_partition.topic):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not partition.is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log = partition.log
    if "delete" not in log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    if offset < HIGH_WATERMARK:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    high_watermark = partition.high_watermark
    if log.increment_log_start_offset(high_watermark if offset == HIGH_WATERMARK else offset, high_watermark=high_watermark):
        logger.info("%s begins at offset %d now: a client deleted the records before it", topic_partition, log.log_start_offset)
    return log.log_start_offset
