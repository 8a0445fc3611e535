"""Validates the records of a produce request and assigns their offsets.

One call takes the records of one partition of a produce request and returns one magic 2 batch, ready to be written.
In the usual case, magic 2 in the codec that the topic wants, the batch is only checked and its header is patched in
place, without copying: base offset and leader epoch, which the checksum does not cover, and, if the producer's max
timestamp is wrong, the max timestamp with a new checksum. Compressed records are uncompressed for the check, and the
result is thrown away. Everything else is rebuilt: old formats, another codec, and offsets inside the batch that do
not count 0, 1, 2... (Kafka mends those too, if there is a codec.)

| what is wrong                                                                         | error code
|
|---------------------------------------------------------------------------------------|------------------------------|
| checksum, size, magic, compressed data                                                | CORRUPT_MESSAGE
|
| invalid records; header's count and range; several batches; base offset not 0;        | INVALID_RECORD
|
| control records or a producer id without sequence from a client; wrappers mixed       |
|
| no key in a compacted topic                                                           | INVALID_RECORD, per record
|
| timestamp too far from now; log append time set by a producer                         | INVALID_TIMESTAMP, per
record|
| zstd before Produce v7                                                                | UNSUPPORTED_COMPRESSION_TYPE
|
| larger than `max.message.bytes`, as sent or as rebuilt                                | MESSAGE_TOO_LARGE
|

Source: `LogValidator`, `UnifiedLog.analyzeAndValidateRecords`, `ProduceRequest.validateRecords`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from pybroker.model import FIRST_OFFSET
from pybroker.records import kernels, legacy, sections
from pybroker.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchView,
    TimestampType,
    entry_size,
    set_max_timestamp,
    set_offset_and_epoch,
)
from pybroker.records.build import assemble_batch
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, CompressionType, compress, decompress
from pybroker.records.convert import Lifted, lift
from pybroker.records.errors import (
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from pybroker.records.refusal import refuse

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig
    from pybroker.model import LeaderEpoch, Offset

_MAGIC_2_SINCE: Final = 3  # the version of Produce since which a partition has exactly one batch, of magic 2
_ZSTD_SINCE: Final = 7


@dataclass(slots=True, frozen=True, kw_only=True)
class ValidationRules:
    """The part of a topic's configuration that the validation needs; made once per configuration. Times are in ms.

    If `compression` is None, the producer's codec is kept; `level` is that codec's, None for its default.
    """

    max_message_bytes: int
    compression: CompressionType | None = None
    level: int | None = None
    is_compacted: bool = False
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = (1 << 63) - 1
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX

    keeps_batches: bool = field(init=False)
    """Whether a good batch that is not compressed is kept as it is."""

    def __post_init__(self) -> None:
        keeps = not self.is_log_append_time and self.compression in {None, CompressionType.NONE}
        object.__setattr__(self, "keeps_batches", keeps)

    @classmethod
    def of(cls, config: TopicConfig) -> ValidationRules:
        """Return the rules of a topic with this configuration."""
        compression = CompressionType.of_config(config.compression_type)
        levels = {
            CompressionType.GZIP: config.compression_gzip_level,
            CompressionType.LZ4: config.compression_lz4_level,
            CompressionType.ZSTD: config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            compression=compression,
            level=None if compression is None else levels.get(compression),
            is_compacted="compact" in config.cleanup_policy,
            is_log_append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        )


class ValidationResult:
    """One batch with its final offsets, ready to be written, or no batch at all.

    Attributes:
        data: the batch: a slice of the buffer that was given (borrowed, patched), or a new buffer.
        batches: the batch's present header, over `data`; empty if there was no batch.
        log_append_time: in ms; -1 if the producer's timestamps are kept.
        is_rebuilt: whether the batch is a new one, whose size may differ.
        records_converted: the number of records that came in magic 0 or 1.
        conversion_ns: the time that their conversion took.
    """

    __slots__ = ("batches", "conversion_ns", "data", "is_rebuilt", "log_append_time", "records_converted")

    def __init__(
        self, batch: BatchView | None, log_append_time: int, *, is_rebuilt: bool = False, records_converted: int = 0
    ) -> None:
        self.data = memoryview(b"") if batch is None else batch.buffer
        self.batches = [] if batch is None else [batch]
        self.log_append_time = log_append_time
        self.is_rebuilt = is_rebuilt
        self.records_converted = records_converted
        self.conversion_ns = 0

    @property
    def first_offset(self) -> int:
        """The offset of the first record; -1 without a batch."""
        return self.batches[0].base_offset if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 without a batch."""
        return self.batches[0].last_offset if self.batches else -1

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp, ms; -1 if there is none."""
        return self.batches[0].max_timestamp if self.batches else NO_TIMESTAMP

    @property
    def offset_of_max_timestamp(self) -> int:
        """The offset for the time index, as in Kafka: the batch's last offset; -1 if there is no timestamp."""
        return -1 if self.max_timestamp == NO_TIMESTAMP else self.last_offset

    @property
    def record_count(self) -> int:
        """The number of records."""
        return self.batches[0].record_count if self.batches else 0


def validate_and_assign(
    records: memoryview,
    *,
    first_offset: Offset,
    now_ms: int,
    leader_epoch: LeaderEpoch,
    rules: ValidationRules,
    from_client: bool = True,
    produce_version: int | None = None,
) -> ValidationResult:
    """Check `records` and assign them the offsets from `first_offset` on.

    Args:
        records: the records of one partition of a produce request, of any magic; a partial batch at its end is
        ignored. The buffer is borrowed until return, but `ValidationResult.data` may be a slice of it. A writable
        buffer is patched in place; a read-only one is copied.
        first_offset: the log's end offset.
        now_ms: the time of the append.
        leader_epoch: the partition's leader epoch.
        rules: the topic's rules.
        from_client: False for a coordinator's records, which may be control records.
        produce_version: the version of the request, because old versions may not send everything; None outside of
        requests.

    Raises:
        CorruptRecordError, InvalidRecordError, RecordValidationError (with `record_errors`), RecordTooLargeError,
        UnsupportedCompressionError: all are KafkaError, with the codes of the table above. `records` may have been
        patched by then, which does no harm because the request has failed.
    """
    batch = _only_batch(records, produce_version)
    if batch is None:
        return _lifted(records, first_offset, now_ms, leader_epoch, rules)
    _check_header(batch, rules, from_client=from_client)
    codec = batch.compression
    section: bytes | memoryview = batch.buffer[HEADER_SIZE:]
    if codec:
        section = decompress(codec, section, bytes_max=rules.decompressed_bytes_max)
    max_timestamp, min_timestamp, keyless, is_sequential = kernels.scan_records(section, batch.record_count, batch.base_timestamp)
    if batch.attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = min_timestamp = batch.max_timestamp
    _check_records(batch, section, rules, now_ms, max_timestamp=max_timestamp, min_timestamp=min_timestamp, keyless=keyless)
    if rules.is_log_append_time:
        max_timestamp = now_ms
    wanted = rules.compression
    if wanted is None or (not codec and batch.is_control):
        wanted = codec
    if wanted is codec and is_sequential:
        batch = _patch(batch, rules, max_timestamp, first_offset, leader_epoch)
        return ValidationResult(batch, max_timestamp if rules.is_log_append_time else -1)
    if not is_sequential or batch.attributes & LOG_APPEND_TIME_BIT:
        batch = _renumbered(batch, section, rules, wanted)
        section = batch.buffer
    data = _in_codec(batch, section, wanted, rules, max_timestamp)
    set_offset_and_epoch(data, base_offset=first_offset, leader_epoch=leader_epoch)
    batch = BatchView(_checked_size(data, rules))
    return ValidationResult(batch, _log_append_time(batch, rules), is_rebuilt=True)


def _lifted(
    records: memoryview, first_offset: Offset, now_ms: int, leader_epoch: LeaderEpoch, rules: ValidationRules
) -> ValidationResult:
    """Return what an old producer sent, as a batch of magic 2."""
    started_ns = perf_counter_ns()
    converted = _converted(records, now_ms, rules)
    if converted is None:
        return ValidationResult(None, -1)
    set_offset_and_epoch(converted.buffer, base_offset=first_offset, leader_epoch=leader_epoch)
    batch = BatchView(converted.buffer)
    result = ValidationResult(batch, _log_append_time(batch, rules), is_rebuilt=True, records_converted=batch.record_count)
    result.conversion_ns = perf_counter_ns() - started_ns
    return result


def _only_batch(records: memoryview, produce_version: int | None) -> BatchView | None:
    """Return the magic 2 batch in `records`; None if they are messages of older magic, or empty."""
    if len(records) >= HEADER_SIZE:
        batch = BatchView(records)
        if batch.batch_length == len(records) and batch.magic == MAGIC:  # nearly always
            _check_version(batch, produce_version)
            return batch
    size = entry_size(records)
    is_current = size is not None and records[MAGIC_AT] == MAGIC
    if not is_current and produce_version is not None and produce_version >= _MAGIC_2_SINCE:
        raise InvalidRecordError(f"a produce request of version {produce_version} has no batch of magic 2")
    if not is_current or size is None:
        return None
    if entry_size(records, size) is not None:
        raise InvalidRecordError("there are several batches of records in one partition")
    batch = BatchView(records[:size])
    _check_version(batch, produce_version)
    return batch


def _check_version(batch: BatchView, produce_version: int | None) -> None:
    if produce_version is not None and produce_version < _ZSTD_SINCE and batch.compression is CompressionType.ZSTD:
        raise UnsupportedCompressionError(f"a produce request of version {produce_version} may not have batches in zstd")


def _check_header(batch: BatchView, rules: ValidationRules, *, from_client: bool) -> None:
    if from_client and batch.base_offset != 0:
        raise InvalidRecordError(f"a batch from a producer begins at offset {batch.base_offset} instead of 0")
    if batch.batch_length > rules.max_message_bytes:
        raise _too_large(batch.batch_length, rules)
    batch.ensure_valid()
    if not from_client:
        return
    count = batch.record_count
    if count <= 0 or batch.last_offset_delta != count - 1:
        raise InvalidRecordError(f"a batch has {count} records for the offsets 0 to {batch.last_offset_delta}")
    if batch.attributes & CONTROL_BIT:
        raise InvalidRecordError("clients are not allowed to write control records")
    if batch.base_sequence < 0 and batch.has_producer_id:
        raise InvalidRecordError(f"the sequence {batch.base_sequence} in a batch of producer {batch.producer_id}")


def _check_records(
    batch: BatchView,
    section: bytes | memoryview,
    rules: ValidationRules,
    now_ms: int,
    *,
    max_timestamp: int,
    min_timestamp: int,
    keyless: int,
) -> None:
    """Refuse the batch if any of its records must be refused; only then are the records checked one by one."""
    if rules.is_compacted and keyless:
        refuse(batch, section, rules, now_ms)
    if rules.is_log_append_time:
        if batch.attributes & LOG_APPEND_TIME_BIT:
            refuse(batch, section, rules, now_ms)
        return
    if max_timestamp != NO_TIMESTAMP and max_timestamp - now_ms > rules.timestamp_after_max_ms:
        refuse(batch, section, rules, now_ms)
    if min_timestamp != NO_TIMESTAMP and now_ms - min_timestamp > rules.timestamp_before_max_ms:
        refuse(batch, section, rules, now_ms)
    if batch.attributes & LOG_APPEND_TIME_BIT and max_timestamp == NO_TIMESTAMP:
        refuse(batch, section, rules, now_ms)


def _patch(
    batch: BatchView, rules: ValidationRules, max_timestamp: int, first_offset: Offset, leader_epoch: LeaderEpoch
) -> BatchView:
    """Write the broker's fields into the batch in place, or into a copy if the buffer is read-only."""
    if batch.buffer.readonly:
        batch = BatchView(memoryview(bytearray(batch.buffer)))
    is_overridden = batch.attributes & LOG_APPEND_TIME_BIT != 0
    if batch.max_timestamp != max_timestamp or is_overridden is not rules.is_log_append_time:
        timestamp_type = TimestampType.LOG_APPEND_TIME if rules.is_log_append_time else TimestampType.CREATE_TIME
        set_max_timestamp(batch.buffer, timestamp_type, max_timestamp)
        batch = BatchView(batch.buffer)
    set_offset_and_epoch(batch.buffer, base_offset=first_offset, leader_epoch=leader_epoch)
    batch.base_offset = first_offset
    batch.partition_leader_epoch = leader_epoch
    return batch


def _renumbered(batch: BatchView, section: bytes | memoryview, rules: ValidationRules, wanted: CompressionType) -> BatchView:
    """Return the batch with offsets 0, 1, 2... and every record's own timestamp; `buffer` has the records, uncompressed.

    Raises RecordTooLargeError before anything is built if the batch stays uncompressed and will be too large.
    """
    log_append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME_BIT else None
    if not wanted:
        size, _ = sections.renumbered_size(section, batch.record_count, batch.base_timestamp, log_append_time)
        if size + HEADER_SIZE > rules.max_message_bytes:
            raise _too_large(size + HEADER_SIZE, rules)
    made, base_timestamp = sections.renumbered(section, batch.record_count, batch.base_timestamp, log_append_time)
    renumbered = BatchView(batch.buffer)
    renumbered.buffer = memoryview(made)
    renumbered.base_timestamp = base_timestamp
    return renumbered


def _in_codec(
    batch: BatchView, section: bytes | memoryview, codec: CompressionType, rules: ValidationRules, max_timestamp: int
) -> bytearray:
    """Build a new batch with the header of `batch` and the records of `section`."""
    kept = batch.attributes & ~(COMPRESSION_MASK | LOG_APPEND_TIME_BIT)
    return assemble_batch(
        compress(codec, section, level=_level(codec, rules)),
        base_offset=FIRST_OFFSET,
        last_offset_delta=batch.record_count - 1,
        attributes=kept | codec | (LOG_APPEND_TIME_BIT if rules.is_log_append_time else 0),
        base_timestamp=batch.base_timestamp,
        max_timestamp=max_timestamp,
        record_count=batch.record_count,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def _log_append_time(batch: BatchView, rules: ValidationRules) -> int:
    return batch.max_timestamp if rules.is_log_append_time else -1


def _converted(records: memoryview, now_ms: int, rules: ValidationRules) -> BatchView | None:
    """Return messages of magic 0 or 1, several without a codec or one wrapper, as a batch; None if there is no message."""
    size = entry_size(records)
    if size is None:
        return None
    first = legacy.MessageView(records)
    if first.compression and entry_size(records, size) is not None:
        raise InvalidRecordError("there are several messages in one partition, and one of them is compressed")
    largest = size if first.compression or len(records) <= rules.max_message_bytes else _largest(records)
    if largest > rules.max_message_bytes:
        raise _too_large(largest, rules)
    if first.compression:
        (lifted,) = lift(records[:size], bytes_max=rules.decompressed_bytes_max)
    else:  # as `lift` does, but in one call: mixed magics and codecs are refused here
        section, *rest = kernels.up_convert_messages(records, first.magic, False, 0)
        lifted = Lifted(section, CompressionType.NONE, first.timestamp_type, *rest)
    if lifted.min_timestamp < 0:
        raise InvalidRecordError(f"a message has the timestamp {lifted.min_timestamp}")
    _check_lifted(lifted, rules, now_ms)
    codec = lifted.compression if rules.compression is None else rules.compression
    data = assemble_batch(
        compress(codec, lifted.section, level=_level(codec, rules)) if codec else lifted.section,
        base_offset=FIRST_OFFSET,
        last_offset_delta=lifted.record_count - 1,
        attributes=codec | (LOG_APPEND_TIME_BIT if rules.is_log_append_time else 0),
        base_timestamp=lifted.base_timestamp,
        max_timestamp=now_ms if rules.is_log_append_time else lifted.max_timestamp,
        record_count=lifted.record_count,
    )
    return BatchView(_checked_size(data, rules))


def _check_lifted(lifted: Lifted, rules: ValidationRules, now_ms: int) -> None:
    as_batch = assemble_batch(
        b"",
        base_offset=FIRST_OFFSET,
        last_offset_delta=lifted.record_count - 1,
        attributes=LOG_APPEND_TIME_BIT if lifted.timestamp_type else 0,
        base_timestamp=lifted.base_timestamp,
        max_timestamp=lifted.max_timestamp,
        record_count=lifted.record_count,
    )
    _check_records(
        BatchView(memoryview(as_batch)),
        memoryview(lifted.section),
        rules,
        now_ms,
        max_timestamp=lifted.max_timestamp,
        min_timestamp=lifted.min_timestamp,
        keyless=lifted.keyless_count,
    )


def _largest(records: memoryview) -> int:
    return max(message.size for message in legacy.messages(records))


def _level(codec: CompressionType, rules: ValidationRules) -> int | None:
    return rules.level if codec is rules.compression else None


def _too_large(size: int, rules: ValidationRules) -> RecordTooLargeError:
    return RecordTooLargeError(f"a batch has {size} bytes, but max.message.bytes is {rules.max_message_bytes}")


def _checked_size(batch: bytearray, rules: ValidationRules) -> memoryview:
    if len(batch) > rules.max_message_bytes:
        raise _too_large(len(batch), rules)
    assert len(batch) > LOG_OVERHEAD
    return memoryview(batch)
