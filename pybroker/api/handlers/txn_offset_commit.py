"""TxnOffsetCommit (key 28), v0-6: a group's offsets, which count when their transaction is committed.

Behaviour
    The offsets are pending until the marker of the transaction comes to the group's partition of `__consumer_offsets`. This
    partition must belong to the transaction, as those of a Produce must (`api/transactional_append.py`). Then the group checks
    member and generation, if the request has them. Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; an unknown topic
    id is UNKNOWN_TOPIC_ID. The text beside an offset may have `offset.metadata.max.bytes` characters.
Versions
    v0-v1 COORDINATOR_NOT_AVAILABLE in place of COORDINATOR_LOAD_IN_PROGRESS, with which such clients end. v2 leader epoch.
    v3 flexible, member and generation (KIP-447). v4 TRANSACTION_ABORTABLE, before INVALID_TXN_STATE. v5 adds the partition to the
    transaction (KIP-890). v6 topic ids.
Not done
    Nothing.
Source: KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinatorService.commitTransactionalOffsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.transactional_append import verify_offsets
from pybroker.model import NO_PRODUCER_ID, GenerationId, GroupId, MemberId, ProducerEpoch, ProducerId, TopicId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.offsets import Committer, NewOffset, Refused
    from pybroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

_LOADING_VERSION: Final = 2
_TOPIC_ID_VERSION: Final = 6
_NONE: Final = ErrorCode.NONE


class _NewOffset:
    """An offset of the request as `coordinator.offsets` wants it; it counts from now on."""

    __slots__ = ("commit_timestamp", "committed_leader_epoch", "committed_metadata", "committed_offset", "partition_index")

    def __init__(self, one: TxnOffsetCommitRequestPartition) -> None:
        self.partition_index = one.partition_index
        self.committed_offset = one.committed_offset
        self.committed_leader_epoch = one.committed_leader_epoch
        self.committed_metadata = one.committed_metadata
        self.commit_timestamp = -1


def handle(
    broker: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Deferred[Refused | ErrorCode, TxnOffsetCommitResponse]:
    """Commit the offsets that can be committed."""
    version = context.api_version
    new, layout = _layout(broker, request, topic_ids=version >= _TOPIC_ID_VERSION)

    def respond(outcome: Refused | ErrorCode) -> TxnOffsetCommitResponse:
        if outcome is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_VERSION:
            outcome = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _response(request, layout, outcome)

    if not new:
        return respond(_NONE)
    if not request.group_id:
        return respond(ErrorCode.INVALID_GROUP_ID)
    if request.producer_id == NO_PRODUCER_ID:
        return respond(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    deferred = Deferred(respond)
    committer = _committer(request)

    def verified(code: ErrorCode, guard: Callable[[], ErrorCode]) -> None:
        if code:
            deferred.complete(code)
        else:
            broker.groups.commit_in_transaction(committer, new, guard, deferred.complete)

    assert committer.producer is not None
    topic_partition = broker.groups.topic_partition(committer.group_id)
    verify_offsets(broker, version, request.transactional_id, committer.producer, topic_partition, verified)
    return deferred.later()


def _layout(
    broker: Services, request: TxnOffsetCommitRequest, *, topic_ids: bool
) -> tuple[list[tuple[str, Sequence[NewOffset]]], list[tuple[ErrorCode, int]]]:
    """Return the offsets by topic that can be committed, and the code of each topic's partitions from a number of them on."""
    image = broker.controller.image
    new: list[tuple[str, Sequence[NewOffset]]] = []
    layout: list[tuple[ErrorCode, int]] = []
    for topic in request.topics:
        known = image.topics_by_id.get(TopicId(topic.topic_id)) if topic_ids else image.topics.get(topic.name)
        if known is None:
            layout.append((ErrorCode.UNKNOWN_TOPIC_ID if topic_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0))
            continue
        count = len(known.partitions)
        layout.append((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, count))
        partitions = [_NewOffset(one) for one in topic.partitions if 0 <= one.partition_index < count]
        if partitions:
            new.append((known.name, partitions))
    return new, layout


def _response(
    request: TxnOffsetCommitRequest, layout: list[tuple[ErrorCode, int]], outcome: Refused | ErrorCode
) -> TxnOffsetCommitResponse:
    place = -1  # among the partitions that were committed
    topics = []
    for topic, (unknown, count) in zip(request.topics, layout, strict=True):
        partitions = []
        for one in topic.partitions:
            code = unknown
            if 0 <= one.partition_index < count:
                place += 1
                code = outcome if isinstance(outcome, ErrorCode) else outcome.get(place, _NONE)
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


def _committer(request: TxnOffsetCommitRequest) -> Committer:
    from pybroker.coordinator.offsets import Committer  # noqa: PLC0415  loaded with the coordinator
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415

    return Committer(
        GroupId(request.group_id),
        GenerationId(request.generation_id_or_member_epoch),
        MemberId(request.member_id),
        request.group_instance_id,
        producer=Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
    )
