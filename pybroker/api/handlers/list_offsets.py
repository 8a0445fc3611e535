"""ListOffsets (key 2), v0-11: the offset that belongs to a time, or to a place in the log.

Behaviour
    A timestamp of 0 or more asks for the first record at or after it. Negative timestamps name places: -1 the end that the reader
    may see (high watermark, or last stable offset for read_committed), -2 the start, -3 the record with the largest timestamp, -4
    the start of what is on the local disk, -5 the end and -6 the pending start of what a remote tier has: there is none, so -1. A
    record beyond the reader's end is not found: offset and timestamp -1. A search by time may read many headers, and looks into
    batches, so it gives the loop back meanwhile, as between partitions.
Versions
    v0 a list of segment starts by file time, for clients from before the time index. v1 one offset with its timestamp. v2
    isolation level.
    v4 leader epochs. v6 flexible. v7 -3. v8 -4. v9 -5. v10 a timeout, for remote lookups. v11 -6.
Not done
    Nothing.
Source: KafkaApis.handleListOffsetRequest, Partition.fetchOffsetForTimestamp; KIP-79, KIP-98, KIP-320, KIP-734, KIP-405, KIP-1005.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pybroker.log.results import TimestampedOffset
from pybroker.model import NO_LEADER_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pybroker.replication.fetch_data import CONSUMER_REPLICA_ID, FetchIsolation
from pybroker.sharing.loop import in_slices
from pybroker.sharing.work import emptied, portions

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.replication.partition import Partition
    from pybroker.sharing.work import Work

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_FIRST_VERSION: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

_DEBUGGING_REPLICA_ID: Final = BrokerId(-2)
_NOT_AVAILABLE_VERSION: Final = 5
_EPOCH_VERSION: Final = 4
_NOT_FOUND: Final = TimestampedOffset(NO_OFFSET, -1, NO_LEADER_EPOCH)


def handle(
    broker: Services, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Future[ListOffsetsResponse]:
    """Look up the offset of each partition; others get their turn between two, and within one that is searched by time."""
    return in_slices(_look_up_all(broker, context.api_version, request))


def _look_up_all(broker: Services, version: int, request: ListOffsetsRequest) -> Work[ListOffsetsResponse]:
    asked: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for some in portions(topic.partitions):
            asked.update((topic.name, partition.partition_index) for partition in some)
            yield None
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if version and asked[topic.name, partition.partition_index] > 1:
                partitions.append(_error(partition, ErrorCode.INVALID_REQUEST))
                yield None
                continue
            response = yield from _respond(broker, version, request, topic.name, partition)
            partitions.append(response)
            yield None
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        yield None
    yield from emptied(asked)
    return ListOffsetsResponse(topics=topics)


def _respond(
    broker: Services, version: int, request: ListOffsetsRequest, topic: str, asked: ListOffsetsPartition
) -> Work[ListOffsetsPartitionResponse]:
    if asked.timestamp < 0 and version < _FIRST_VERSION.get(asked.timestamp, version + 1):
        return _error(asked, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = broker.replica_manager.partition_or_raise(TopicPartition(topic, asked.partition_index))
        refusal = partition.refusal(
            LeaderEpoch(asked.current_leader_epoch), require_leader=request.replica_id != _DEBUGGING_REPLICA_ID
        )
        if refusal is not None:
            return _error(asked, refusal)
        if version == 0:
            offsets = _legacy_offsets(partition, BrokerId(request.replica_id), asked)
            return ListOffsetsPartitionResponse(partition_index=asked.partition_index, old_style_offsets=[*offsets])
        found = yield from look_up(partition, asked.timestamp, _isolation(request))
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _error(asked, code)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= _EPOCH_VERSION else -1,
    )


def look_up(partition: Partition, timestamp: int, isolation: FetchIsolation) -> Work[TimestampedOffset]:
    """Return the offset for a timestamp in ms or a special one, as far as `isolation` lets see; offset -1 when there is none.

    A search by time yields where others may work; how far the reader sees is decided at its end. Raises OFFSET_NOT_AVAILABLE
    while a new leader's high watermark has not reached its epoch.
    """
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampedOffset(log.log_start_offset, -1, log.epoch_for_offset(log.log_start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOT_FOUND
    found = None
    if timestamp != LATEST:
        found = yield from log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    end_offset = partition.end_offset(isolation)
    if found is not None and found.offset < end_offset:
        return found
    if isolation is not FetchIsolation.LOG_END and partition.leader_epoch_start_offset > partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return TimestampedOffset(end_offset, -1, partition.leader_epoch) if timestamp == LATEST else _NOT_FOUND


def _isolation(request: ListOffsetsRequest) -> FetchIsolation:
    if request.replica_id != CONSUMER_REPLICA_ID:
        return FetchIsolation.LOG_END
    return FetchIsolation.TXN_COMMITTED if request.isolation_level == 1 else FetchIsolation.HIGH_WATERMARK


def _legacy_offsets(partition: Partition, replica_id: BrokerId, asked: ListOffsetsPartition) -> list[Offset]:
    offsets = partition.log.legacy_offsets_before(asked.timestamp, count=asked.max_num_offsets)
    if replica_id != CONSUMER_REPLICA_ID:
        return offsets
    visible = [offset for offset in offsets if offset <= partition.high_watermark]
    return offsets if len(visible) == len(offsets) else [partition.high_watermark, *visible]


def _error(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
