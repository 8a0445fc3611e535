"""WriteTxnMarkers (key 27), v0-2: the ends of transactions, from their coordinator to the leaders of partitions.

Behaviour
    The leader appends a marker to each partition, and responds when the markers are as acks=all requires. Markers for
    `__consumer_offsets` go through the group coordinator, because they change offsets: NOT_LEADER_OR_FOLLOWER while it loads
    them. A marker of an older coordinator is TRANSACTION_COORDINATOR_FENCED, one with an older epoch INVALID_PRODUCER_EPOCH. A
    marker that a partition has already is appended again, and changes nothing. `kafka-transactions abort` sends this request
    too, to end a transaction that its coordinator does not know. If a marker names no producer (its id or epoch is -1), all get
    UNKNOWN_SERVER_ERROR, and none is written; Kafka writes those before it.
Versions
    v1 flexible. v2 the transaction version of the marker: one of version 2 needs an epoch that is larger than the one of the open
    transaction (KIP-1228).
Not done
    Nothing.
Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.deferred import Deferred
from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Mapping

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.transaction.markers import Written
    from pybroker.coordinator.transaction.state import Marker
    from pybroker.protocol.messages.write_txn_markers import WritableTxnMarker

Outcomes = list[tuple[int, "Mapping[TopicPartition, ErrorCode]"]]
"""The ids of producers, with the results of a marker."""


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse]:
    """Write all markers."""
    if not request.markers:
        return WriteTxnMarkersResponse(markers=[])
    if any(one.producer_id == NO_PRODUCER_ID or one.producer_epoch == NO_PRODUCER_EPOCH for one in request.markers):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "A marker needs the id and the epoch of a producer.")
    deferred = Deferred(_response)
    written = _collector(len(request.markers), deferred.complete)
    broker.transactions.markers.write_all([(_marker(one), _partitions(one)) for one in request.markers], written)
    return deferred.response()


def _collector(count: int, done: Callable[[Outcomes], None]) -> Written:
    """Return what takes the results of `count` markers; `done` gets all of them, in the order in which they came."""
    outcomes: Outcomes = []

    def written(marker: Marker, results: Mapping[TopicPartition, ErrorCode]) -> None:
        outcomes.append((marker.producer_id, results))
        if len(outcomes) == count:
            done(outcomes)

    return written


def _partitions(one: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in one.topics for number in topic.partition_indexes]


def _marker(one: WritableTxnMarker) -> Marker:
    from pybroker.coordinator.transaction.state import Marker  # noqa: PLC0415  loaded with the coordinator

    return Marker(
        ProducerId(one.producer_id),
        ProducerEpoch(one.producer_epoch),
        one.transaction_result,
        CoordinatorEpoch(one.coordinator_epoch),
        one.transaction_version,
    )


def _response(outcomes: Outcomes) -> WriteTxnMarkersResponse:
    """Return the response, which has each producer once, with each of its partitions once: the last marker counts."""
    producers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    for producer_id, results in outcomes:
        topics = producers.setdefault(producer_id, {})
        for (name, number), code in results.items():
            topics.setdefault(name, {})[number] = WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=list(partitions.values()))
                    for name, partitions in topics.items()
                ],
            )
            for producer_id, topics in producers.items()
        ]
    )
