"""What must hold for records before they enter a log.

Source: UnifiedLog.analyzeAndValidateRecords, LogValidator of Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.log.results import AppendOrigin
from pybroker.records.batch import MAGIC, NO_TIMESTAMP, BatchView, TimestampType, batches, set_max_timestamp, set_offset_and_epoch
from pybroker.records.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig


@dataclass(slots=True, kw_only=True)
class ValidatedRecords:
    """Whole magic 2 batches with their final offsets, ready to be written; `batches` view `data`.

    Attributes:
        offset_of_max_timestamp: last offset of the batch that has the largest timestamp.
        log_append_time: ms; -1 when the producer's timestamps stay.
    """

    data: memoryview | bytearray | bytes
    batches: list[BatchView]
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    record_count: int
    log_append_time: int


def validate_as_leader(
    records: memoryview,
    *,
    config: TopicConfig,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    request_version: int | None,
) -> ValidatedRecords:
    """Check what a producer sent and give it offsets from `next_offset` on. See `Log.append_as_leader` for what is raised."""
    found = list(batches(records))
    log_append_time = now_ms if config.message_timestamp_type == "LogAppendTime" else -1
    offset = next_offset
    for batch in found:
        if origin is AppendOrigin.CLIENT and batch.base_offset != 0:
            raise InvalidRecordError(f"a batch from a producer begins at offset {batch.base_offset} instead of 0")
        if batch.batch_length > config.max_message_bytes:
            raise RecordTooLargeError(f"a batch of {batch.batch_length} bytes, {config.max_message_bytes} are allowed")
        batch.ensure_valid()
        set_offset_and_epoch(batch.buffer, base_offset=offset, leader_epoch=leader_epoch, position=batch.position)
        if log_append_time >= 0:
            set_max_timestamp(batch.data, TimestampType.LOG_APPEND_TIME, now_ms)
        offset += batch.last_offset_delta + 1
    return _summary(records, list(batches(records)), log_append_time)


def validate_as_follower(records: memoryview) -> ValidatedRecords:
    """Check what the leader sent. A partial batch at the end is left out."""
    found: list[BatchView] = []
    size, last_offset = 0, -1
    for batch in batches(records):
        batch.ensure_valid()
        if batch.magic != MAGIC or batch.last_offset <= last_offset:
            raise CorruptRecordError(f"replicated offsets do not grow: {batch.last_offset} after {last_offset}")
        found.append(batch)
        size, last_offset = batch.end, batch.last_offset
    return _summary(records[:size], found, -1)


def _summary(data: memoryview, found: list[BatchView], log_append_time: int) -> ValidatedRecords:
    max_timestamp, offset_of_max_timestamp, record_count = NO_TIMESTAMP, -1, 0
    for batch in found:
        record_count += batch.record_count
        if batch.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
    return ValidatedRecords(
        data=data,
        batches=found,
        first_offset=found[0].base_offset if found else -1,
        last_offset=found[-1].last_offset if found else -1,
        max_timestamp=max_timestamp,
        offset_of_max_timestamp=offset_of_max_timestamp,
        record_count=record_count,
        log_append_time=log_append_time,
    )
