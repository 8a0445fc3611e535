"""OffsetForLeaderEpoch (key 23), v0-4: where a leader epoch ended, for consumers and followers that check for a truncation.

Behaviour
    Returns the largest epoch that is not above the requested one, and the offset after its last record; both -1 if there is none.
    The newest epoch ends at the log's end. The leader's epoch begins where its log ended when it became the leader, so it is
    known before it has a record: an empty log has ends too, for this epoch and for those of deleted records. FENCED_LEADER_EPOCH
    and UNKNOWN_LEADER_EPOCH when the client knows an older or newer epoch.
Versions
    v0 the offset only. v1 the epoch found. v2 the epoch that the client knows (KIP-320), throttle time. v3 the client's replica
    id. v4 flexible.
Not done
    Nothing.
Source: ReplicaManager.lastOffsetForLeaderEpoch, Partition.lastOffsetForLeaderEpoch; KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.pieces import Pieces
from pybroker.model import LeaderEpoch, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services

PIECES: Final = Pieces(("topics.partitions", "topics.partitions"))


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse:
    """Respond from the logs' epochs."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end_offset(broker, topic.topic, partition) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    found = broker.replica_manager.partition(TopicPartition(topic, asked.partition))
    if isinstance(found, ErrorCode):
        return EpochEndOffset(partition=asked.partition, error_code=found)
    refusal = found.refusal(LeaderEpoch(asked.current_leader_epoch), require_leader=True)
    if refusal is not None:
        return EpochEndOffset(partition=asked.partition, error_code=refusal)
    epoch, end_offset = found.log.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
    return EpochEndOffset(partition=asked.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset)
