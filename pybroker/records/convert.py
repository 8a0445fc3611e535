"""Converts between magic 2, the format on disk, and magic 0 and 1, the formats of old clients.

Up, when an old producer appends: messages without a codec become one batch, a wrapper becomes one batch with the same
codec. A message of magic 0 has no timestamp, so its record has -1.

Down, when an old consumer fetches:

- A batch without a codec becomes one message for each of its records. Records before the first requested offset are
  left out, because to such a client every message is a batch of its own (some versions of librdkafka rely on that).
- A batch with a codec becomes one wrapper message in that codec with all its records, the earlier records too.
- Control batches are left out, and record headers are dropped. zstd has no id in these formats:
  UNSUPPORTED_COMPRESSION_TYPE.
- Batches and messages that already have the wanted magic, or an older one, pass unchanged.

Source: `RecordsUtil.downConvert`, `MemoryRecordsBuilder`, `LogValidator.convertAndAssignOffsetsNonCompressed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from pybroker.model import Offset
from pybroker.records import conversions, legacy
from pybroker.records.batch import (
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    BatchView,
    TimestampType,
    entry_size,
)
from pybroker.records.build import build_message, build_message_set
from pybroker.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    CompressionType,
    bounded_pieces,
    compress,
    compressed_pieces,
)
from pybroker.records.copies import joined
from pybroker.records.down_pieces import DownPieces
from pybroker.records.errors import InvalidRecordError, UnsupportedCompressionError
from pybroker.records.windows import WINDOW_BYTES, taken

_EVERY_OFFSET: Final = Offset(-(1 << 63))


class ConvertedEntry(NamedTuple):
    """One batch or message converted down; `data` is empty if nothing of it is left."""

    data: bytes | memoryview
    record_count: int


class Converted(NamedTuple):
    """Batches converted down, and the number of records that were rewritten (0 for those that pass unchanged)."""

    data: bytes
    record_count: int


class Lifted(NamedTuple):
    """Messages of magic 0 or 1 as the records of one magic 2 batch: `section` is uncompressed, offset deltas are 0, 1,
    2...

    `max_timestamp`, `min_timestamp` and `keyless_count` are those that `kernels.scan_records` returns.
    """

    section: bytes
    compression: CompressionType
    timestamp_type: TimestampType
    record_count: int
    base_timestamp: int
    max_timestamp: int
    min_timestamp: int
    keyless_count: int


def down_convert_entry(
    buffer: memoryview,
    position: int,
    size: int,
    *,
    to_magic: int,
    first_offset: Offset,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
    step: Callable[[], None] | None = None,
) -> ConvertedEntry:
    """Convert the batch (or older message) of `size` bytes at `position`. The result may borrow from `buffer`.

    `step` is called between the pieces of a compressed batch, and may raise to end the conversion.

    Raises:
        UnsupportedCompressionError: the batch is in zstd.
        CorruptRecordError: a wrong checksum, damaged compressed data or invalid records.
    """
    magic = buffer[position + MAGIC_AT]
    if magic <= to_magic:
        return ConvertedEntry(buffer[position : position + size], 0)
    if magic < MAGIC:
        return _down_convert_message(buffer[position : position + size], first_offset)
    batch = BatchView(buffer, position)
    codec = convertible_codec(batch)
    if codec is None:
        return ConvertedEntry(b"", 0)
    if codec:
        return _wrapped(batch, codec, to_magic=to_magic, first_offset=first_offset, bytes_max=bytes_max, step=step)
    messages, count, _, _ = _converted(batch, batch.payload, to_magic, first_offset, is_relative=False)
    return ConvertedEntry(messages, count)


def _wrapped(
    batch: BatchView,
    codec: CompressionType,
    *,
    to_magic: int,
    first_offset: Offset,
    bytes_max: int,
    step: Callable[[], None] | None,
) -> ConvertedEntry:
    """Convert a compressed batch: at once if it is small inside, else piece by piece."""
    inflating = partial(bounded_pieces, codec, batch.payload, bytes_max=bytes_max, step=step)
    pieces = inflating()
    begun, is_whole = taken(pieces, WINDOW_BYTES)
    if is_whole:
        messages, count, last_offset, max_timestamp = _converted(
            batch, joined(begun), to_magic, _EVERY_OFFSET, is_relative=bool(to_magic)
        )
        value: bytes | memoryview = compress(codec, messages, magic=to_magic)
    else:
        converting = DownPieces(batch, to_magic, chain(begun, pieces), inflating)
        del begun
        value = joined(list(compressed_pieces(codec, converting.messages(), magic=to_magic)))
        count, last_offset, max_timestamp = converting.record_count, converting.last_offset, converting.max_timestamp
    if not count or last_offset < first_offset:  # compaction has removed all records of the batch from there on
        return ConvertedEntry(b"", 0)
    attributes = codec | (LOG_APPEND_TIME_BIT if to_magic and batch.timestamp_type else 0)
    message = build_message(
        Offset(last_offset), timestamp=max_timestamp, key=None, value=value, magic=to_magic, attributes=attributes
    )
    return ConvertedEntry(message, count)


def _converted(
    batch: BatchView, section: bytes | memoryview, to_magic: int, first_offset: Offset, *, is_relative: bool
) -> tuple[bytes, int, int, int]:
    return conversions.down_convert_records(
        section,
        batch.record_count,
        batch.base_offset,
        batch.base_timestamp,
        bool(batch.timestamp_type),
        batch.max_timestamp,
        to_magic,
        first_offset,
        is_relative,
    )


def convertible_codec(batch: BatchView) -> CompressionType | None:
    """Return the codec of a batch that can be converted down; None for a control batch, which has nothing for old
    clients.

    Raises UnsupportedCompressionError for zstd, and CorruptRecordError if the checksum is wrong: disks do err, and
    the new checksums would hide the damage.
    """
    if batch.is_control:
        return None
    codec = batch.compression
    if codec is CompressionType.ZSTD:
        raise UnsupportedCompressionError("batches in zstd cannot be converted to an older format")
    batch.ensure_valid()
    return codec


def down_convert(
    buffer: bytes | bytearray | memoryview, *, to_magic: int, first_offset: Offset, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Converted:
    """Convert all whole batches of `buffer` at once. Raises as `down_convert_entry`."""
    view = memoryview(buffer)
    position = count = 0
    parts: list[bytes | memoryview] = []
    while (size := entry_size(view, position)) is not None:
        entry = down_convert_entry(view, position, size, to_magic=to_magic, first_offset=first_offset, bytes_max=bytes_max)
        parts.append(entry.data)
        count += entry.record_count
        position += size
    return Converted(b"".join(parts), count)


def _down_convert_message(message: memoryview, first_offset: Offset) -> ConvertedEntry:
    codec = legacy.MessageView(message).compression
    records = [record for record in legacy.records(message) if codec or record.offset >= first_offset]
    if records and records[-1].offset < first_offset:
        records = []
    return ConvertedEntry(build_message_set(records, magic=0, compression=codec) if records else b"", len(records))


def lift(buffer: bytes | bytearray | memoryview, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Lifted]:
    """Yield the message set as record sections: one for each wrapper, one for each run of like messages without a codec.

    Raises:
        CorruptRecordError: a wrong checksum, damaged compressed data.
        InvalidRecordError: invalid messages, a wrapper inside a wrapper, or a wrapper of another magic than its
        inside.
    """
    run: list[legacy.MessageView] = []
    for message in legacy.messages(buffer):
        if run and (message.compression or not _is_alike(run[0], message)):
            yield _lift_run(run)
            run = []
        if message.compression:
            yield _lift_wrapper(message, bytes_max)
        else:
            run.append(message)
    if run:
        yield _lift_run(run)


def _is_alike(first: legacy.MessageView, other: legacy.MessageView) -> bool:
    """Return whether both can be in one batch: a batch has one timestamp type, and one time of append."""
    if first.magic != other.magic or first.timestamp_type != other.timestamp_type:
        return False
    return not first.timestamp_type or first.timestamp == other.timestamp


def _lift_run(run: list[legacy.MessageView]) -> Lifted:
    first = run[0]
    messages = first.buffer[first.position : run[-1].position + run[-1].size]
    section, *rest, _ = conversions.up_convert_messages(messages, first.magic, False, 0)
    return Lifted(section, CompressionType.NONE, first.timestamp_type, *rest)


def _lift_wrapper(wrapper: legacy.MessageView, bytes_max: int) -> Lifted:
    wrapper.ensure_valid()
    return lift_inner(wrapper, wrapper.inner_messages(bytes_max=bytes_max))


def lift_inner(wrapper: legacy.MessageView, messages: bytes | memoryview) -> Lifted:
    """Return the uncompressed messages of a wrapper as a record section. Raises InvalidRecordError as `lift`."""
    section, count, *rest, _ = conversions.up_convert_messages(
        messages, wrapper.magic, bool(wrapper.timestamp_type), wrapper.timestamp
    )
    if not count:
        raise InvalidRecordError("a compressed message holds no messages")
    return Lifted(section, wrapper.compression, wrapper.timestamp_type, count, *rest)
