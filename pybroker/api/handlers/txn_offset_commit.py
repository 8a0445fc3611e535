"""TxnOffsetCommit (key 28), v0-6: a group's offsets, which count when their transaction is committed.

Behaviour
    The offsets are pending until the marker of the transaction comes to the group's partition of `__consumer_offsets`. This
    partition must belong to the transaction, as those of a Produce must (`api/produce/transactional_append.py`). Then the
    group checks member and generation, if the request has them. Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION;
    an unknown topic id is UNKNOWN_TOPIC_ID. The text beside an offset may have `offset.metadata.max.bytes` characters.
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

from pybroker.api.committed_offsets import CommitLayout, responses
from pybroker.api.deferred import Deferred
from pybroker.api.produce.transactional_append import verify_offsets
from pybroker.model import NO_PRODUCER_ID, GenerationId, GroupId, MemberId, ProducerEpoch, ProducerId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.offsets import Refused
    from pybroker.coordinator.state.group import Committer

_LOADING_VERSION: Final = 2
_TOPIC_ID_VERSION: Final = 6

_topic = maker(TxnOffsetCommitResponseTopic, "name", "topic_id", "partitions")
_partition = maker(TxnOffsetCommitResponsePartition, "partition_index", "error_code")


def handle(
    broker: Services, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Deferred[Refused | ErrorCode, TxnOffsetCommitResponse]:
    """Commit the offsets that can be committed."""
    version = context.api_version
    layout = CommitLayout(broker.controller.image, request.topics, has_topic_ids=version >= _TOPIC_ID_VERSION)

    def respond(outcome: Refused | ErrorCode) -> TxnOffsetCommitResponse:
        outcome = _of_version(outcome, version)
        return TxnOffsetCommitResponse(topics=responses(layout, request.topics, outcome, _topic, _partition))

    refusal = _refusal(request)
    if not layout.new or refusal:
        return respond(refusal if layout.new else ErrorCode.NONE)
    deferred = Deferred(respond)
    _commit(broker, version, request.transactional_id, _committer(request), layout, deferred.complete)
    return deferred.later()


def _refusal(request: TxnOffsetCommitRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if request.producer_id == NO_PRODUCER_ID else ErrorCode.NONE


def _of_version(outcome: Refused | ErrorCode, version: int) -> Refused | ErrorCode:
    if outcome is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_VERSION:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return outcome


def _commit(  # noqa: PLR0917  (each is of another kind)
    broker: Services,
    version: int,
    transactional_id: str,
    committer: Committer,
    layout: CommitLayout,
    done: Callable[[Refused | ErrorCode], None],
) -> None:
    """Commit the offsets of `layout`, if the group's partition belongs to the transaction."""

    def verified(code: ErrorCode, guard: Callable[[], ErrorCode]) -> None:
        if code:
            done(code)
        elif layout.is_outdated(broker.controller.image):
            done(ErrorCode.NOT_COORDINATOR)
        else:
            broker.groups.commit_in_transaction(committer, layout.new, guard, done)

    assert committer.producer is not None
    topic_partition = broker.groups.topic_partition(committer.group_id)
    verify_offsets(broker, version, transactional_id, committer.producer, topic_partition, verified)


def _committer(request: TxnOffsetCommitRequest) -> Committer:
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator
    from pybroker.coordinator.state.group import Committer  # noqa: PLC0415

    return Committer(
        GroupId(request.group_id),
        GenerationId(request.generation_id_or_member_epoch),
        MemberId(request.member_id),
        request.group_instance_id,
        producer=Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
    )
