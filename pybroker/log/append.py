"""Appends to a log: checks the records, assigns offsets, rolls if needed, checks the producers, writes, and notes the
batch. `LogEnd.append_as_leader` comes first, and itself appends a batch of the usual form.

Cost: 16 us for a 16 kB batch of a producer that compresses nothing, on the loop; the system's write takes 6 us of
them.

A batch that a producer repeats gets the result of its first append. An append that fails before the write changes
no record: a new segment may have begun, and the leader epochs may begin at an offset that the next batch will have.

Source: UnifiedLog.append; KIP-98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.append_rules import sound_batches
from pybroker.log.indexes.transaction_index import AbortedTransaction
from pybroker.log.producers.producer_entry import ProducerBatch
from pybroker.log.results import AppendOrigin, LogAppendInfo
from pybroker.log.roll import roll
from pybroker.model import NO_COORDINATOR_EPOCH, LeaderEpoch, Offset
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchView
from pybroker.records.control import ControlType, transaction_marker
from pybroker.records.validate import Checked, validate_and_assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.log.log_state import LogState
    from pybroker.log.producers.producer_entry import BatchMetadata
    from pybroker.log.producers.producer_state import CompletedTransaction
    from pybroker.log.segments.segment import LogSegment
    from pybroker.records.rules import ValidationRules
    from pybroker.records.work import Work

_NOT_PLAIN: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_CLIENT: Final = AppendOrigin.CLIENT
_REPLICATION: Final = AppendOrigin.REPLICATION


def append_unusual(  # noqa: PLR0917  (a call by position is a third of a call by name)
    log: LogState,
    records: memoryview | Checked,
    rules: ValidationRules,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    origin: AppendOrigin,
    request_version: int | None,
    work: Work | None,
) -> LogAppendInfo:
    """Check records of any form, assign their offsets and write them; this is `Log.append_unusual`."""
    first_offset = log.log_end_offset
    if isinstance(records, Checked):
        validated = records.assigned(first_offset, now_ms=now_ms, leader_epoch=leader_epoch)
    else:
        validated = validate_and_assign(
            records,
            first_offset=first_offset,
            now_ms=now_ms,
            leader_epoch=leader_epoch,
            rules=rules,
            from_client=origin is _CLIENT,
            produce_version=request_version,
            work=work,
        )
    info = _append(log, validated.data, validated.batches, now_ms, origin)
    if info.is_duplicate:
        return info
    return info._replace(
        log_append_time=validated.log_append_time,
        records_converted=validated.records_converted,
        conversion_ns=validated.conversion_ns,
    )


def append_accepted(log: LogState, data: memoryview, now_ms: int, origin: AppendOrigin) -> LogAppendInfo:
    """Append a batch that has its final offsets, with all rules for producers; this is `Log.append_accepted`."""
    return _append(log, data, [BatchView(data)], now_ms, origin)


def write_batches(  # noqa: PLR0917  (as above)
    log: LogState,
    data: memoryview,
    places: list[tuple[Offset, int]],
    last_offset: Offset,
    max_timestamp: int,
    offset_of_max_timestamp: Offset,
    now_ms: int,
) -> None:
    """Write batches and note them, in a new segment if they belong into one; this is `Log.write_batches`."""
    segment, size = log.segments.active, len(data)
    if segment.should_roll(log.config, size, max_timestamp, last_offset, now_ms):
        segment = _roll(log, size, places[0][0], now_ms, _CLIENT)
    position = segment.size
    segment.append(data, last_offset, max_timestamp, offset_of_max_timestamp)
    for base_offset, batch_size in places:
        segment.remember(base_offset, position, batch_size)
        position += batch_size


def append_unusual_copies(log: LogState, records: memoryview, now_ms: int) -> LogAppendInfo:
    """Write batches of any form as the leader has them; this is `Log.append_unusual_copies`."""
    batches = sound_batches(records)
    if batches and batches[0].base_offset < log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"replicated records begin at {batches[0].base_offset}, but {log.topic_partition} ends at {log.log_end_offset}",
        )
    data = records[: batches[-1].end if batches else 0]
    if len(data) > log.config.segment_bytes:  # the leader's segments may be larger, because they are older than the setting
        infos = [_append(log, batch.data, [batch], now_ms, _REPLICATION) for batch in batches]
        return infos[-1]._replace(
            first_offset=infos[0].first_offset,
            max_timestamp=max(info.max_timestamp for info in infos),
            record_count=sum(info.record_count for info in infos),
            size=len(data),
        )
    return _append(log, data, batches, now_ms, _REPLICATION)


def _append(log: LogState, data: memoryview, batches: Sequence[BatchView], now_ms: int, origin: AppendOrigin) -> LogAppendInfo:
    """Write `batches`, which are all of `data` and have their final offsets."""
    if not batches:
        return LogAppendInfo(log_start_offset=log.log_start_offset)
    first_offset, last_offset, max_timestamp, offset_of_max_timestamp, record_count = _totals(batches)
    producers, continued = log.producers, None
    producer_batches: list[ProducerBatch] = []
    has_producer = False
    try:
        for batch in batches:
            if batch.partition_leader_epoch != log.epochs.latest_epoch:
                log.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                has_producer = True
        segment, size = log.segments.active, len(data)
        if segment.should_roll(log.config, size, max_timestamp, last_offset, now_ms):
            segment = _roll(log, size, first_offset, now_ms, origin)
        if has_producer:
            one = batches[0]
            if len(batches) == 1 and not one.attributes & _NOT_PLAIN:
                continued = producers.find_continued(one.producer_id, one.producer_epoch, one.base_sequence)
            if continued is None:
                producer_batches = [found for batch in batches if (found := producer_batch(batch)) is not None]
                duplicate = _check_producers(log, producer_batches, origin)
                if duplicate is not None:
                    return _duplicate_info(log, duplicate, record_count)
        if any(batch.marker is not None for batch in producer_batches):
            segment.transaction_index.load()  # nothing that may fail comes after the write
        position = segment.size
        segment.append(data, last_offset, max_timestamp, offset_of_max_timestamp)
        log.log_end_offset = producers.map_end_offset = last_offset + 1
        for batch in batches:
            segment.remember(batch.base_offset, position, batch.batch_length)
            position += batch.batch_length
        if continued is not None:
            producers.add(continued, one.base_sequence, last_offset, one.last_offset_delta, max_timestamp)
        elif producer_batches:
            _note_producers(log, segment, producer_batches)
        log.unflushed_messages += last_offset + 1 - first_offset
        if log.unflushed_messages >= log.config.flush_messages:
            log.settle(first_offset)
    except OSError as error:
        raise log.log_directory.fail(error) from error
    return LogAppendInfo(
        first_offset=first_offset,
        last_offset=last_offset,
        max_timestamp=max_timestamp,
        log_start_offset=log.log_start_offset,
        record_count=record_count,
        size=len(data),
    )


def _totals(batches: Sequence[BatchView]) -> tuple[Offset, Offset, int, Offset, int]:
    """Return first and last offset, largest timestamp and the last offset of the batch that has it, and the number of
    records.
    """
    first = batches[0]
    first_offset, max_timestamp, record_count = first.base_offset, first.max_timestamp, first.record_count
    last_offset = offset_of_max_timestamp = first_offset + first.last_offset_delta
    if len(batches) > 1:
        for batch in batches[1:]:
            last_offset = batch.last_offset
            record_count += batch.record_count
            if batch.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max_timestamp = batch.max_timestamp, last_offset
    return first_offset, last_offset, max_timestamp, offset_of_max_timestamp, record_count


def _roll(log: LogState, size: int, first_offset: Offset, now_ms: int, origin: AppendOrigin) -> LogSegment:
    """Return a new segment for records that do not fit the active one. Raises RECORD_LIST_TOO_LARGE if they fit no segment, and
    do not come from the leader, which has them.
    """
    config = log.config
    if size > config.segment_bytes and origin is not _REPLICATION:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size} bytes for {log.topic_partition} are more than a segment of {config.segment_bytes}",
        )
    return roll(log, now_ms, first_offset)


def _check_producers(log: LogState, batches: Sequence[ProducerBatch], origin: AppendOrigin) -> BatchMetadata | None:
    """Return the first append of a batch that a client repeats; None for a new batch in order. Raises KafkaError for the
    rest.
    """
    from_client = origin in {AppendOrigin.CLIENT, AppendOrigin.CHECKED}
    if from_client:
        for batch in batches:
            duplicate = log.producers.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
    if origin is not _REPLICATION:
        log.producers.check(batches, from_client=from_client)
    return None


def _note_producers(log: LogState, segment: LogSegment, batches: Sequence[ProducerBatch]) -> None:
    for batch in batches:
        completed = log.producers.update(batch)
        if completed is not None:
            complete_transaction(log, segment, completed)


def _duplicate_info(log: LogState, original: BatchMetadata, record_count: int) -> LogAppendInfo:
    return LogAppendInfo(
        first_offset=original.first_offset,
        last_offset=original.last_offset,
        max_timestamp=original.timestamp,
        log_append_time=original.timestamp,
        log_start_offset=log.log_start_offset,
        record_count=record_count,
        is_duplicate=True,
    )


def producer_batch(batch: BatchView) -> ProducerBatch | None:
    """Return the fields that the producers' rules use; None for a marker that compaction has emptied.

    A marker must have its record in the buffer; of other batches only the header is used.
    """
    marker, coordinator_epoch, timestamp = None, NO_COORDINATOR_EPOCH, batch.max_timestamp
    if batch.is_control:
        for record in batch.records():
            control_type, coordinator_epoch = transaction_marker(record)
            marker, timestamp = int(control_type), record.timestamp
        if marker is None:
            return None
    return ProducerBatch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.base_offset,
        batch.base_offset + batch.last_offset_delta,
        timestamp,
        batch.is_transactional,
        marker,
        coordinator_epoch,
    )


def complete_transaction(log: LogState, segment: LogSegment, completed: CompletedTransaction) -> None:
    """Note an ended transaction, in the segment's index if it was aborted."""
    if completed.is_aborted:
        last_stable_offset = log.producers.last_stable_offset_after(completed)
        segment.transaction_index.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
        )
    log.producers.complete(completed)


assert int(ControlType.ABORT) == 0, "producer_state.ABORT_MARKER"
