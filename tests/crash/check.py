"""The check that a restarted broker keeps the promises of its earlier life.

It raises BrokenPromiseError with the promise that is broken. The checks change the broker: producers continue, and records are
appended. The next step must begin from another copy of the disk.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pybroker.model import LeaderEpoch, Offset, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.replication.produce_data import PartitionProduceResult
from testing.scenes.logs import read_batches
from testing.scenes.replication.appended import append_records
from tests.crash.model import Batch, LostRange, Promise, Promises, TopicState

if TYPE_CHECKING:
    from pybroker.log.log import Log
    from pybroker.metadata.image import TopicImage
    from pybroker.replication.partition import Partition
    from testing.simulation.broker import SimulatedBroker

TIMEOUT_MS = 30_000
TIMESTAMP = 1_700_000_000_000


class BrokenPromiseError(AssertionError):
    """A start found something else than was promised."""


def require(is_kept: bool, what: str) -> None:
    if not is_kept:
        raise BrokenPromiseError(what)


def send(broker: SimulatedBroker, tp: TopicPartition, data: bytes) -> asyncio.Future[PartitionProduceResult]:
    """Append with acks=all, as a client does, and return the future response."""
    response: asyncio.Future[PartitionProduceResult] = asyncio.get_running_loop().create_future()
    append_records(
        broker.replica_manager,
        timeout_ms=TIMEOUT_MS,
        acks=-1,
        entries={tp: memoryview(bytearray(data))},
        on_complete=lambda results: response.set_result(results[tp]),
    )
    return response


async def produce(broker: SimulatedBroker, tp: TopicPartition, data: bytes) -> PartitionProduceResult:
    """Append, and wait for the response."""
    return await send(broker, tp, data)


def make_batch(records: Iterable[tuple[bytes, bytes | None]], producer: tuple[int, int, int] | None, **options: object) -> bytes:
    """Build a batch as a producer sends it; `producer` is id, epoch and base sequence."""
    if producer is not None:
        options |= {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": producer[2]}
    made = [Record(Offset(number), TIMESTAMP, key, value) for number, (key, value) in enumerate(records)]
    return bytes(build_batch(made, **options))  # type: ignore[arg-type]  # the builder's own options, by name


async def check(broker: SimulatedBroker, promises: Promises, *, has_lost_power: bool) -> None:
    """Check that the broker keeps the promises. Raises BrokenPromiseError."""
    for directory in broker.log_manager.directories:
        is_away = directory.path in promises.away
        require(is_away or directory.failure is None, f"{directory.path} is offline: {directory.failure!r}")
    image = broker.controller.image
    for topic in promises.topics:
        found = image.topics_by_id.get(topic.topic_id)
        if topic.state is TopicState.THERE:
            require(found is not None, f"topic {topic.name} is gone")
        elif topic.state is TopicState.GONE:
            require(found is None, f"topic {topic.name} was deleted and is back")
        if found is not None:
            for promise in topic.promises:
                await _check_partition(broker, found, promise, promises, has_lost_power=has_lost_power)
    known = {topic.topic_id for topic in promises.topics}
    for name, found in image.topics.items():
        require(found.topic_id in known or name in promises.unnamed, f"topic {name} was never made")
    require(broker.metrics.unexpected_errors == 0, "the broker ran into a bug of ours; the log says which")


async def _check_partition(
    broker: SimulatedBroker,
    topic: TopicImage,
    promise: Promise,
    promises: Promises,
    *,
    has_lost_power: bool,
) -> None:
    tp = promise.topic_partition
    partition = broker.replica_manager.partition(tp)
    if (topic.topic_id, tp.partition) in promises.offline:
        require(partition is ErrorCode.KAFKA_STORAGE_ERROR, f"{tp} lies in a directory that is away, and there is {partition}")
        return
    if isinstance(partition, ErrorCode):
        # A name that was never durable is missing, as one that lies in the directory that is away is.
        has_nothing = not promise.durable_end if has_lost_power else not promise.end
        if promises.away and has_nothing and partition is ErrorCode.KAFKA_STORAGE_ERROR:
            return
        raise BrokenPromiseError(f"{tp} is {partition.name}")
    require(partition.log.topic_id == topic.topic_id, f"{tp} has the log of another topic")
    kept = check_log(partition.log, promise, has_lost_power=has_lost_power)
    end = partition.log.log_end_offset
    if partition.high_watermark < end:  # what flush.messages asks for is made durable first
        await asyncio.sleep(0.3)  # no pass comes round so soon after a start
    require(partition.high_watermark == end, f"{tp}: high watermark {partition.high_watermark}, the log ends at {end}")
    _check_epochs(partition, promise, has_hole=_has_hole(kept, end))
    await _check_producers(broker, partition, promise, kept)
    await _check_append(broker, partition)


def check_log(log: Log, promise: Promise, *, has_lost_power: bool) -> list[Batch]:
    """Check that the log is a prefix of what was sent, and return the batches that it has."""
    tp, sent = promise.topic_partition, promise.sent
    start, end, start_min, start_max = log.log_start_offset, log.log_end_offset, promise.start_min, promise.start_max
    # Records that were never durable may be lost from the front: the name of an earlier segment is lost, that of a later one not.
    is_start_kept = start <= start_max or (has_lost_power and promise.durable_end <= start_max)
    require(start_min <= start and is_start_kept, f"{tp} begins at {start}, promised was {start_min} to {start_max}")
    floor, why = (promise.durable_end, "durable") if has_lost_power else (promise.acked_end, "acknowledged")
    require(end >= floor, f"{tp} ends at {end}, and what is before {floor} was {why}")
    kept = [batch for batch in sent if batch.end_offset <= end]
    kept_end = kept[-1].end_offset if kept else 0
    # Where all records were deleted, or the last segments have only their names left, the log ends behind what is there.
    ends = {kept_end, start, promise.end, *(batch.first_offset for batch in sent)}
    require(end in ends, f"{tp} ends at {end}, which is the end of no batch; before it is {kept_end}")
    expected = {batch.first_offset + number: record for batch in kept for number, record in enumerate(batch.records)}
    read = [record for batch in read_batches(log) for record in batch.records()]
    found: dict[int, tuple[bytes | None, bytes | None]] = {
        one.offset: (one.key, one.value) for one in read if one.offset >= start
    }
    for offset, record in found.items():
        require(offset in expected, f"{tp} has {record} at offset {offset}, which no append was given")
        require(record == expected[offset], f"{tp} has {record} at offset {offset}, sent was {expected.get(offset)}")
    first = max(start, start_max)
    if promise.is_compacted:
        have, want = _values(found, first), _values(expected, first)
        require(have == want, f"{tp} compacted reads as {have}, written was {want}")
    else:
        missing = [offset for offset in expected if offset >= first and offset not in found]
        require(not missing, f"{tp} [{start}, {end}) lacks the offsets {missing}")
    return kept


def _values(records: Mapping[int, tuple[bytes | None, bytes | None]], start: int) -> dict[bytes | None, bytes]:
    """Return the values that a reader from the start ends with."""
    state = {key: value for offset, (key, value) in sorted(records.items()) if offset >= start}
    return {key: value for key, value in state.items() if value is not None}


def lost_ranges(log: Log, promise: Promise) -> tuple[LostRange, ...]:
    """Return the ranges that consumers could see and that are lost."""
    end = log.log_end_offset
    now = tuple(
        LostRange(max(batch.first_offset, end), min(batch.end_offset, promise.visible_end), batch.leader_epoch)
        for batch in promise.batches[: promise.count]
        if batch.end_offset > end and batch.first_offset < promise.visible_end
    )
    return promise.lost + now


def _has_hole(kept: list[Batch], end: int) -> bool:
    return (bool(kept) and kept[-1].end_offset != end) or any(
        one.end_offset != following.first_offset for one, following in itertools.pairwise(kept)
    )


def _check_epochs(partition: Partition, promise: Promise, *, has_hole: bool) -> None:
    """Check that epochs only grow, and that OffsetForLeaderEpoch (KIP-320) shows a loss to clients that read the lost records."""
    tp, epoch = promise.topic_partition, partition.leader_epoch
    require(epoch >= promise.leader_epoch, f"{tp} has leader epoch {epoch} after {promise.leader_epoch}")
    for lost in lost_ranges(partition.log, promise):
        require(epoch > lost.leader_epoch, f"{tp} lost {lost} and goes on with epoch {epoch}")
        if has_hole or lost.end_offset <= partition.log.log_start_offset:
            continue  # the begin of an epoch may be lost; a client that reads before the start gets that error
        response = partition.log.end_offset_for_epoch(LeaderEpoch(lost.leader_epoch))
        is_reported = response.epoch < lost.leader_epoch or response.end_offset < lost.end_offset
        require(is_reported, f"{tp} lost {lost}, and a consumer that asks gets {response}")


async def _check_producers(broker: SimulatedBroker, partition: Partition, promise: Promise, kept: Iterable[Batch]) -> None:
    """Check that the last batch of each producer, sent again, is written once, and that its next batch follows."""
    tp, log = promise.topic_partition, partition.log
    last = {batch.producer[0]: batch for batch in kept if batch.producer is not None}
    for batch in last.values():
        if batch.first_offset < max(log.log_start_offset, promise.start_max):
            continue  # the producer may be forgotten with its records
        end = log.log_end_offset
        result = await produce(broker, tp, batch.data)
        retried = f"{tp}: {batch.producer} with {len(batch.records)} records at {batch.first_offset}, sent again,"
        require(result.error_code is ErrorCode.NONE, f"{retried} is refused: {result}")
        require(log.log_end_offset == end, f"{retried} is written twice")
        require(result.base_offset == batch.first_offset, f"{retried} gets {result}")
        assert batch.producer is not None
        producer_id, epoch, sequence = batch.producer
        following = make_batch([(b"k", b"next")], (producer_id, epoch, sequence + len(batch.records)))
        result = await produce(broker, tp, following)
        is_next = (result.error_code, result.base_offset) == (ErrorCode.NONE, end)
        require(is_next, f"{retried} and the next one at {end}: {result}")


async def _check_append(broker: SimulatedBroker, partition: Partition) -> None:
    """Check that the partition can be written to, from the end on."""
    tp, end = partition.topic_partition, partition.log.log_end_offset
    result = await produce(broker, tp, make_batch([(b"k", b"v")], None))
    is_next = (result.error_code, result.base_offset) == (ErrorCode.NONE, end)
    require(is_next, f"{tp}: an append at {end} gets {result}")
