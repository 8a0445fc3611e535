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

import asyncio
from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.slices import LARGE_PARTITIONS, Pauses, complete
from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pybroker.slicing import run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.transaction.markers import Marker, Written
    from pybroker.protocol.messages.write_txn_markers import WritableTxnMarker

_STEP_PARTITIONS: Final = 500

Outcomes = list[tuple[int, "Mapping[TopicPartition, ErrorCode]"]]
"""The ids of producers, with the results of a marker."""


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse | Future[WriteTxnMarkersResponse] | Coroutine[None, None, WriteTxnMarkersResponse]:
    """Write all markers."""
    if not request.markers:
        return WriteTxnMarkersResponse(markers=[])
    if _is_large(request):
        return _in_steps(broker, request)
    _check(request.markers)
    deferred: Deferred[Outcomes, WriteTxnMarkersResponse] = Deferred(lambda outcomes: run_through(_response(outcomes)))
    written = _collector(len(request.markers), deferred.complete)
    for one in request.markers:
        broker.transactions.markers.write_all(_marker(one), run_through(_partitions(one)), written)
    return deferred.response()


async def _in_steps(broker: Services, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Write all markers, and give the loop back in between."""
    for start in range(0, len(request.markers), _STEP_PARTITIONS):
        _check(request.markers[start : start + _STEP_PARTITIONS])
    outcomes: Future[Outcomes] = asyncio.get_running_loop().create_future()
    written = _collector(len(request.markers), outcomes.set_result)
    pauses = Pauses()
    for one in request.markers:
        broker.transactions.markers.write_all(_marker(one), await complete(_partitions(one)), written)
        await pauses.between()
    return await complete(_response(await outcomes))


def _is_large(request: WriteTxnMarkersRequest) -> bool:
    count = 0
    for one in request.markers:
        count += 1 + len(one.topics)
        for topic in one.topics:
            count += len(topic.partition_indexes)
            if count > LARGE_PARTITIONS:
                return True
    return count > LARGE_PARTITIONS


def _check(markers: list[WritableTxnMarker]) -> None:
    if any(one.producer_id == NO_PRODUCER_ID or one.producer_epoch == NO_PRODUCER_EPOCH for one in markers):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "A marker needs the id and the epoch of a producer.")


def _collector(count: int, done: Callable[[Outcomes], None]) -> Written:
    """Return what takes the results of `count` markers; `done` gets all of them, in the order in which they came."""
    outcomes: Outcomes = []

    def written(marker: Marker, results: Mapping[TopicPartition, ErrorCode]) -> None:
        outcomes.append((marker.producer_id, results))
        if len(outcomes) == count:
            done(outcomes)

    return written


def _partitions(one: WritableTxnMarker) -> Generator[None, None, list[TopicPartition]]:
    partitions: list[TopicPartition] = []
    for topic in one.topics:
        for start in range(0, len(topic.partition_indexes), _STEP_PARTITIONS):
            some = topic.partition_indexes[start : start + _STEP_PARTITIONS]
            partitions += [TopicPartition(topic.name, number) for number in some]
            yield
    return partitions


def _marker(one: WritableTxnMarker) -> Marker:
    from pybroker.coordinator.transaction.markers import Marker  # noqa: PLC0415  loaded with the coordinator

    return Marker(
        ProducerId(one.producer_id),
        ProducerEpoch(one.producer_epoch),
        one.transaction_result,
        CoordinatorEpoch(one.coordinator_epoch),
        one.transaction_version,
    )


def _response(outcomes: Outcomes) -> Generator[None, None, WriteTxnMarkersResponse]:
    """Return the response, which has each producer once, with each of its partitions once: the last marker counts."""
    producers: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    done = 0
    for producer_id, results in outcomes:
        topics = producers.setdefault(producer_id, {})
        for (name, number), code in results.items():
            topics.setdefault(name, {})[number] = WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
            done += 1
            if not done % _STEP_PARTITIONS:
                yield
    response = WriteTxnMarkersResponse(markers=[])
    for producer_id, topics in producers.items():
        result = WritableTxnMarkerResult(producer_id=producer_id, topics=[])
        for name, partitions in topics.items():
            result.topics.append(WritableTxnMarkerTopicResult(name=name, partitions=list(partitions.values())))
            yield
        response.markers.append(result)
        yield
    return response
