"""Validates the records of a produce request and assigns their offsets.

One call takes the records of one partition of a produce request and returns one magic 2 batch, ready to be written. In the usual
case, magic 2 in the codec that the topic wants, the batch is only checked, and its header is patched in place, without copying.
The patch sets base offset and leader epoch, which the checksum does not cover. If the producer's max timestamp is wrong, it sets
that, too, with a new checksum. Compressed records are uncompressed for the check, and the result is thrown away. Everything else
is rebuilt: old formats, another codec, and offsets inside the batch that do not count 0, 1, 2... (Kafka mends those too, if
there is a codec.)

| what is wrong                                                                   | error code                    |
|---------------------------------------------------------------------------------|-------------------------------|
| checksum, size, magic, compressed data                                          | CORRUPT_MESSAGE               |
| invalid records; header's count and range; several batches; base offset not 0;  | INVALID_RECORD                |
| control records or a producer id without sequence from a client; wrappers mixed |                               |
| no key in a compacted topic                                                     | INVALID_RECORD, per record    |
| timestamp too far from now; log append time set by a producer                   | INVALID_TIMESTAMP, per record |
| zstd before Produce v7                                                          | UNSUPPORTED_COMPRESSION_TYPE  |
| larger than `max.message.bytes`, as sent or as rebuilt; inflates too far        | MESSAGE_TOO_LARGE             |

Source: `LogValidator`, `UnifiedLog.analyzeAndValidateRecords`, `ProduceRequest.validateRecords`.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from pybroker.model import FIRST_OFFSET, NO_OFFSET
from pybroker.records import conversions, legacy, sections
from pybroker.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
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
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, CompressionType, inflated
from pybroker.records.convert import Lifted, lift_inner
from pybroker.records.copies import joined
from pybroker.records.errors import InvalidRecordError, RecordTooLargeError, UnsupportedCompressionError
from pybroker.records.rebuild import Records, compressed, rebuilt, too_large, under_header
from pybroker.records.refusal import LookedThrough, refuse
from pybroker.records.rules import USUAL_BYTES_MAX, ValidationRules
from pybroker.records.up_pieces import UpPieces
from pybroker.records.windows import taken
from pybroker.records.work import LOOP_BYTES, LongWorkError, Work, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.model import LeaderEpoch, Offset

_MAGIC_2_SINCE: Final = 3  # the version of Produce since which a partition has exactly one batch, of magic 2
_ZSTD_SINCE: Final = 7
_LOOKED_AT_BYTES: Final = 1 << 16
"""The old messages that the loop looks at one by one: up to 2,500, at 2 us each."""


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
    def first_offset(self) -> Offset:
        """The offset of the first record; -1 without a batch."""
        return self.batches[0].base_offset if self.batches else NO_OFFSET

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record; -1 without a batch."""
        return self.batches[0].last_offset if self.batches else NO_OFFSET

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


class Checked:
    """The records of one partition, found good: one batch that lacks its place in the log, or none. Made by `check`.

    Attributes:
        batch: over bytes that are borrowed from the records, or new; None if there were no records.
        rules: those by which it was checked.
        is_rebuilt, records_converted, conversion_ns: as in `ValidationResult`.
    """

    __slots__ = ("batch", "conversion_ns", "is_rebuilt", "records_converted", "rules", "size")

    def __init__(
        self, batch: BatchView | None, rules: ValidationRules, size: int, *, is_rebuilt: bool, records_converted: int = 0
    ) -> None:
        self.batch = batch
        self.rules = rules
        self.size = size
        self.is_rebuilt = is_rebuilt
        self.records_converted = records_converted
        self.conversion_ns = 0

    def __len__(self) -> int:
        """Return the number of bytes that the producer sent."""
        return self.size

    def assigned(self, first_offset: Offset, *, now_ms: int, leader_epoch: LeaderEpoch) -> ValidationResult:
        """Write the fields that depend on the place in the log, and on the time of the append."""
        batch, rules = self.batch, self.rules
        if batch is None:
            return ValidationResult(None, -1)
        is_marked = batch.attributes & LOG_APPEND_TIME_BIT != 0
        if rules.is_log_append_time and not (is_marked and batch.max_timestamp == now_ms):
            set_max_timestamp(batch.buffer, TimestampType.LOG_APPEND_TIME, now_ms)
            batch = BatchView(batch.buffer)
        set_offset_and_epoch(batch.buffer, base_offset=first_offset, leader_epoch=leader_epoch)
        batch.base_offset = first_offset
        batch.partition_leader_epoch = leader_epoch
        result = ValidationResult(batch, batch.max_timestamp if rules.is_log_append_time else -1)
        result.is_rebuilt = self.is_rebuilt
        result.records_converted, result.conversion_ns = self.records_converted, self.conversion_ns
        return result


def validate_and_assign(
    records: memoryview,
    *,
    first_offset: Offset,
    now_ms: int,
    leader_epoch: LeaderEpoch,
    rules: ValidationRules,
    from_client: bool = True,
    produce_version: int | None = None,
    work: Work | None = None,
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
        work: the work of the request; without it the records are checked however long it takes.

    Raises:
        CorruptRecordError, InvalidRecordError, RecordValidationError (with `record_errors`), RecordTooLargeError,
        UnsupportedCompressionError: all are KafkaError, with the codes of the table above. `records` may have been
        patched by then, which does no harm because the request has failed.
        LongWorkError: see `records.work`.
    """
    checked = check(records, rules, now_ms=now_ms, from_client=from_client, produce_version=produce_version, work=work)
    return checked.assigned(first_offset, now_ms=now_ms, leader_epoch=leader_epoch)


def check(
    records: memoryview,
    rules: ValidationRules,
    *,
    now_ms: int,
    from_client: bool = True,
    produce_version: int | None = None,
    work: Work | None = None,
) -> Checked:
    """Check `records` as `validate_and_assign` does, up to what depends on their place. Touches nothing but them, so it may run
    in any thread.
    """
    work = work or Work()
    inflated_bytes = work.inflated_bytes
    try:
        batch = _only_batch(records, produce_version)
        if batch is None:
            return _checked_old(records, now_ms, rules, work)
        return _checked_batch(batch, rules, now_ms, work, from_client=from_client)
    except LongWorkError as long:
        work.inflated_bytes = inflated_bytes  # it is counted again in the thread
        long.check = partial(check, rules=rules, now_ms=now_ms, from_client=from_client, produce_version=produce_version)
        raise


def _checked_batch(batch: BatchView, rules: ValidationRules, now_ms: int, work: Work, *, from_client: bool) -> Checked:
    size = batch.batch_length
    work.only_off_loop(min(size, rules.max_message_bytes), size_max=USUAL_BYTES_MAX)
    _check_header(batch, rules, from_client=from_client)
    records = Records(batch.compression, batch.payload, rules, work)
    found = sections.Overview(batch.record_count, batch.base_timestamp)
    for piece in records.pieces():
        found.feed(piece)
    found.finish()
    max_timestamp, min_timestamp = found.max_timestamp, found.min_timestamp
    if batch.attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = min_timestamp = batch.max_timestamp
    _check_records(batch, records, rules, now_ms, max_timestamp=max_timestamp, min_timestamp=min_timestamp, keyless=found.keyless)
    if rules.is_log_append_time:
        max_timestamp = now_ms
    codec = records.codec
    wanted = rules.compression
    if wanted is None or (not codec and batch.is_control):
        wanted = codec
    if wanted is codec and found.is_sequential:
        return Checked(_patched(batch, rules, max_timestamp), rules, size, is_rebuilt=False)
    is_renumbered = not found.is_sequential or batch.attributes & LOG_APPEND_TIME_BIT != 0
    data = rebuilt(batch, records, wanted, max_timestamp, is_renumbered=is_renumbered)
    return Checked(BatchView(data), rules, size, is_rebuilt=True)


def _checked_old(records: memoryview, now_ms: int, rules: ValidationRules, work: Work) -> Checked:
    """Return what an old producer sent, as a batch of magic 2."""
    started_ns = perf_counter_ns()
    work.only_off_loop(len(records), size_max=LOOP_BYTES)
    batch = _converted(records, now_ms, rules, work)
    count = 0 if batch is None else batch.record_count
    checked = Checked(batch, rules, len(records), is_rebuilt=True, records_converted=count)
    checked.conversion_ns = perf_counter_ns() - started_ns
    return checked


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
        raise too_large(batch.batch_length, rules)
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
    records: LookedThrough,
    rules: ValidationRules,
    now_ms: int,
    *,
    max_timestamp: int,
    min_timestamp: int,
    keyless: int,
) -> None:
    """Refuse the batch if any of its records must be refused; only then are the records looked at one by one."""
    is_marked = batch.attributes & LOG_APPEND_TIME_BIT != 0
    is_late = max_timestamp != NO_TIMESTAMP and max_timestamp - now_ms > rules.timestamp_after_max_ms
    is_early = min_timestamp != NO_TIMESTAMP and now_ms - min_timestamp > rules.timestamp_before_max_ms
    is_misdated = is_marked if rules.is_log_append_time else is_late or is_early or (is_marked and max_timestamp == NO_TIMESTAMP)
    if is_misdated or (rules.is_compacted and keyless):
        refuse(batch, records, now_ms)


def _patched(batch: BatchView, rules: ValidationRules, max_timestamp: int) -> BatchView:
    """Write the right max timestamp into the batch in place, or into a copy if the buffer is read-only."""
    if batch.buffer.readonly:
        batch = BatchView(memoryview(bytearray(batch.buffer)))
    if rules.is_log_append_time:  # `assigned` writes it
        return batch
    if batch.max_timestamp != max_timestamp or batch.attributes & LOG_APPEND_TIME_BIT:
        set_max_timestamp(batch.buffer, TimestampType.CREATE_TIME, max_timestamp)
        batch = BatchView(batch.buffer)
    return batch


def _converted(records: memoryview, now_ms: int, rules: ValidationRules, work: Work) -> BatchView | None:
    """Return messages of magic 0 or 1, several without a codec or one wrapper, as a batch; None if there is no message."""
    size = entry_size(records)
    if size is None:
        return None
    first = legacy.MessageView(records)
    if first.compression and entry_size(records, size) is not None:
        raise InvalidRecordError("there are several messages in one partition, and one of them is compressed")
    largest = size if first.compression or len(records) <= rules.max_message_bytes else _largest(records, work)
    if largest > rules.max_message_bytes:
        raise too_large(largest, rules)
    codec = first.compression if rules.compression is None else rules.compression
    lifted = _lifted(legacy.MessageView(records[:size]) if first.compression else first, records, rules, work)
    payload = compressed(lifted.sections(), codec, rules) if isinstance(lifted, UpPieces) else b""
    if not lifted.record_count:
        raise InvalidRecordError("a compressed message holds no messages")
    if lifted.min_timestamp < 0:
        raise InvalidRecordError(f"a message has the timestamp {lifted.min_timestamp}")
    as_batch = BatchView(
        memoryview(
            assemble_batch(
                b"",
                base_offset=FIRST_OFFSET,
                last_offset_delta=lifted.record_count - 1,
                attributes=LOG_APPEND_TIME_BIT if first.timestamp_type else 0,
                base_timestamp=lifted.base_timestamp,
                max_timestamp=lifted.max_timestamp,
                record_count=lifted.record_count,
            )
        )
    )
    found = Records(CompressionType.NONE, memoryview(lifted.section), rules, work) if isinstance(lifted, Lifted) else lifted
    _check_records(
        as_batch,
        found,
        rules,
        now_ms,
        max_timestamp=lifted.max_timestamp,
        min_timestamp=lifted.min_timestamp,
        keyless=lifted.keyless_count,
    )
    max_timestamp = now_ms if rules.is_log_append_time else lifted.max_timestamp
    if isinstance(found, Records):
        return BatchView(rebuilt(as_batch, found, codec, max_timestamp, is_renumbered=False))
    return BatchView(
        under_header(as_batch, payload, codec, rules, base_timestamp=lifted.base_timestamp, max_timestamp=max_timestamp)
    )


def _lifted(first: legacy.MessageView, records: memoryview, rules: ValidationRules, work: Work) -> Lifted | UpPieces:
    """Return the messages, inside `first` if that is a wrapper, as records: at once if they are small, else piece by piece."""
    data, codec = records, first.compression
    if codec:
        first.ensure_valid()
        data = first.wrapped()
    elif len(data) <= LOOP_BYTES:  # as `lift` does, but in one call: mixed magics and codecs are refused here
        section, *rest, _ = conversions.up_convert_messages(data, first.magic, False, 0)
        return Lifted(section, CompressionType.NONE, first.timestamp_type, *rest)
    pieces = pieces_of(codec, data, rules, work, magic=first.magic)
    if codec:
        pieces = _bounded(pieces)
    begun, is_whole = taken(pieces, LOOP_BYTES)
    if is_whole:
        return lift_inner(first, joined(begun))

    def again() -> Iterator[bytes | memoryview]:
        for piece in inflated(codec, data, magic=first.magic):
            work.ensure_wanted()
            yield piece

    return UpPieces(first, chain(begun, pieces), again, rules)


def _bounded(pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    left = DECOMPRESSED_BYTES_MAX
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise RecordTooLargeError(f"the compressed messages expand to more than {DECOMPRESSED_BYTES_MAX} bytes")
        yield piece


def _largest(records: memoryview, work: Work) -> int:
    work.only_off_loop(len(records), size_max=_LOOKED_AT_BYTES)
    return max(message.size for message in legacy.messages(records))
