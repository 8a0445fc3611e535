"""Down-conversion of a fetched slice of a log while the response is being sent, in bounded memory (KIP-283).

Idea
    A response states its size before its body, but the size after conversion is unknown until the batches are
    converted. So the broker promises a size, Spre, and keeps to it: the size before conversion, or that of the first
    converted batch if that is larger, so that the consumer always gets a whole batch. The batches are converted in
    chunks, each only when the socket can take it.

Cases, where Spost is the size of everything converted
    A  Spost == Spre: nothing special.
    B  Spost > Spre: the whole converted batches that fit are sent, then padding as in C. The consumer fetches the
       rest next.
    C  Spost < Spre: the response ends with the head of a message that does not exist, whose size field is
       Integer.MAX_VALUE, and with zeros. The consumer takes it for a message that was cut at the fetch size, and
       ignores it. If fewer than the 12 bytes of its head are left, the head is cut.
    D  Nothing can be converted, because there are only control batches, or not one whole batch: 12 bytes of padding,
       so that the consumer sees a message that is larger than its fetch. (A first batch that Fetch v0 to v2 cut at
       the partition's limit is not such a case: `cut_conversion` reads it whole.)

Cost
    When it is created, the first batch is converted, and kept until it is sent or `drop_first` is called. A batch without a
    codec that is larger than what may be kept is only measured. While it is sent, memory holds one chunk at a time, which
    belongs to the caller as soon as it is pulled.

A chunk is as many whole batches of the source as fit in the chunk's bytes, at least one. One call of a kernel converts all its
batches of the usual form (`conversions.down_convert_batches`); any other is looked at alone. If a later batch cannot be converted
(it is in zstd, or damaged on disk), the response ends before it as in case C; the next fetch starts there and gets
the error.

`close` may be called while a thread converts: the conversion then ends with `ConversionClosedError` at its next batch or piece.

Source: KIP-283; `LazyDownConversionRecords`, `LazyDownConversionRecordsSend`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol

from pybroker.failures import drop_frames
from pybroker.model import Offset
from pybroker.protocol.parts import SendPart
from pybroker.records import conversions
from pybroker.records._conversions_python import PLAIN_BYTES_MAX
from pybroker.records.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    OFFSET_AND_SIZE,
    BatchView,
    claimed_size,
    entry_size,
)
from pybroker.records.compression import CompressionType
from pybroker.records.convert import ConvertedEntry, convertible_codec, down_convert, down_convert_entry
from pybroker.records.errors import ConversionClosedError, CorruptRecordError, UnsupportedCompressionError

LOOP_BYTES: Final = PLAIN_BYTES_MAX
"""A batch without a codec of up to this size is converted on the loop; a larger one in a thread."""
FIRST_BYTES: Final = 20 << 10
"""To measure the first batch this much is read at once, with which producers' batches are whole by default."""
LOOP_COMPRESSED_BYTES: Final = 2 << 10
"""The loop converts this many bytes of compressed batches in a chunk, which are a few MB at most; more is done in a thread."""

CHUNK_BYTES: Final = 128 << 10
"""The paper's choice: 197 MB/s, compared with 137 for 16 kB and 176 for 1 MB."""

OVERFLOW_MESSAGE_SIZE: Final = 0x7FFF_FFFF
"""The paper's number. The Java consumers 0.9.0 to 0.10.2 add it to a 32-bit position and fail; docs/design/records.md
explains that.
"""
_OVERFLOW_OFFSET: Final = -1
assert OFFSET_AND_SIZE.size == LOG_OVERHEAD
_ZEROS: Final = memoryview(bytes(64 << 10))
_ANY_SIZE: Final = 1 << 40


class RecordsSource(Protocol):
    """A slice of a log. `file_records.FileRecords` is one."""

    size: int

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return at most `length` bytes from `position` of the slice, which do not change while they are read."""

    def slice(self, position: int, size: int) -> RecordsSource:
        """Return a part of the slice."""

    def cold(self) -> Callable[[], None] | None:
        """Return a function that reads the slice's start into memory, or None if the start is there."""

    def close(self) -> None:
        """Release the resources that the slice holds."""


class LazyDownConversion(SendPart):
    """The records of one partition of a response, in magic 0 or 1.

    `size` is Spre. `first_size` is the size of the first batch after conversion; it is 0 in case D, and
    `passed_offset` is then the first offset after the batches that were examined. The object owns `source`: `close`
    closes it. Belongs to the loop, except while what `cold` returned, or `measure`, runs in a thread: then the loop may only call
    `close`.
    """

    makes_bytes: ClassVar[bool] = True

    __slots__ = (
        "_chunk_bytes",
        "_first",
        "_first_count",
        "_first_offset",
        "_first_source_size",
        "_is_closed",
        "_kept_bytes_max",
        "_left",
        "_overflow_message_size",
        "_padded",
        "_position",
        "_prepared",
        "_source",
        "_there",
        "_there_at",
        "_there_bytes",
        "_to_magic",
        "error",
        "first_size",
        "passed_offset",
        "records_converted",
        "size",
    )

    def __init__(
        self,
        source: RecordsSource,
        *,
        to_magic: int,
        first_offset: Offset,
        chunk_bytes: int = CHUNK_BYTES,
        overflow_message_size: int | None = OVERFLOW_MESSAGE_SIZE,
        is_measured: bool = True,
        kept_bytes_max: int = CHUNK_BYTES,
    ) -> None:
        """Take over `source`, and measure it as `measure` does, unless the caller does that before anything else.

        `first_offset` is the requested offset, which may lie inside the first batch. `overflow_message_size` is the
        value of the padding's size field. None stands for the value that Kafka's brokers send: one byte more than the
        padding has, and at least a header. Raises as `measure`.
        """
        self._source = source
        self._to_magic = to_magic
        self._first_offset = first_offset
        self._chunk_bytes = chunk_bytes
        self._kept_bytes_max = kept_bytes_max
        self._position = 0  # where the next batch to convert is in the source
        self._there, self._there_at = memoryview(b""), -1  # what was read there last
        self._there_bytes = FIRST_BYTES  # how much is read at once
        self._first: bytes | memoryview | None = None  # the first batch, converted, and
        self._first_count = self._first_source_size = 0  # its records, and its bytes in the source
        self._padded = self._is_closed = False
        self._overflow_message_size = overflow_message_size
        self.records_converted = 0
        self.error: CorruptRecordError | UnsupportedCompressionError | None = None
        self.passed_offset = first_offset
        self._prepared: Sequence[bytes | memoryview] | None = None
        self.first_size = self.size = self._left = 0
        if is_measured:
            self.measure()

    @property
    def is_long(self) -> bool:
        """Whether to measure, or to make the next chunk, takes too long for the loop."""
        if self._source.size - self._position <= LOOP_COMPRESSED_BYTES:
            return False
        head = self._read_there()
        size = claimed_size(head)
        return size is not None and _is_long(head, 0, size=size, compressed_bytes_max=LOOP_COMPRESSED_BYTES)

    def measure(self) -> None:
        """Measure the first batch of the source that has anything for such a client, in a thread if it is long.

        Raises:
            UnsupportedCompressionError: the batch is in zstd; the partition gets UNSUPPORTED_COMPRESSION_TYPE.
            CorruptRecordError: the batch is damaged; the partition gets CORRUPT_MESSAGE.
            ConversionClosedError: `close` was called meanwhile.
        """
        source = self._source
        self.first_size = self._measure_first() if source.size else 0
        if self.first_size:
            self.size = max(source.size, self.first_size)
        else:
            self.size = LOG_OVERHEAD if source.size else 0
        self._left = self.size
        self._there, self._there_at = memoryview(b""), -1
        self._there_bytes = max(self._chunk_bytes, HEADER_SIZE)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the first batch that are held until it is sent; the caller adds them up over a response."""
        return 0 if self._first is None else len(self._first)

    def drop_first(self) -> None:
        """Hold nothing; the first batch is converted again when it is sent."""
        if self._first is not None:
            self._first = None
            self._position -= self._first_source_size

    def cold(self) -> Callable[[], None] | None:
        """Return what is to be done in a thread before the next chunk: a read, or a long conversion; None if there is nothing."""
        if not self._left or self._position >= self._source.size or self._prepared is not None:
            return None
        cold = self._source.slice(self._position, self._chunk_bytes).cold()
        return cold or (self._prepare if self._first is None and self.is_long else None)

    def _prepare(self) -> None:
        """Make the next chunk. Runs in a thread, during which the loop may only call `close`."""
        self._prepared = self._next_chunk(compressed_bytes_max=None)

    def pull(self, bytes_max: int) -> Sequence[bytes | memoryview]:
        """Return the next chunk, whole, even if `bytes_max` is smaller; then padding, at most about `bytes_max` at once."""
        if not self._left:
            return ()
        prepared, self._prepared = self._prepared, None
        made = self._next_chunk(compressed_bytes_max=LOOP_COMPRESSED_BYTES) if prepared is None else prepared
        parts: Sequence[bytes | memoryview] = made or self._padding(bytes_max)
        self._left -= sum(map(len, parts))
        return parts

    def close(self) -> None:
        """Release the source and the first batch, and end the conversion that a thread has in hand."""
        self._is_closed = True
        self._first = self._prepared = None
        self._left = 0
        self._source.close()

    def _measure_first(self) -> int:
        """Return the converted size of the first batch of which anything is left, which is kept, or else is at `_position`; 0 if
        there is none.
        """
        data: bytes | memoryview
        while (entry := self._read_entry()) is not None:
            self._ensure_open()
            size = len(entry)
            if size > self._kept_bytes_max and (measured := self._measured(entry)):
                return measured
            data, end, count = conversions.down_convert_batches(entry, 0, self._to_magic, self._first_offset, _ANY_SIZE)
            if not end:
                data, count = self._converted(entry, 0, size)
            self._position += size
            if data:
                self._first, self._first_count, self._first_source_size = bytes(data), count, size
                return len(data)
            self.passed_offset = _next_offset(entry)
        return 0

    def _measured(self, entry: memoryview) -> int:
        """Return the size of a batch without a codec after conversion; 0 if the batch has another form."""
        if entry[MAGIC_AT] != MAGIC or convertible_codec(batch := BatchView(entry)) is not CompressionType.NONE:
            return 0
        return conversions.down_converted_size(
            batch.payload, batch.record_count, batch.base_offset, self._to_magic, self._first_offset
        )

    def _read_there(self) -> memoryview:
        """Return the bytes from `_position` on, at least of a header; they are read once."""
        if self._there_at != self._position:
            self._there, self._there_at = memoryview(self._source.read(self._position, self._there_bytes)), self._position
        return self._there

    def _read_entry(self) -> memoryview | None:
        """Return the batch or message at `_position` of the source; None if it is not complete."""
        there = self._read_there()
        size = claimed_size(there)
        if size is None or size > self._source.size - self._position:
            return None
        entry = there[:size] if size <= len(there) else memoryview(self._source.read(self._position, size))
        return entry if len(entry) == size else None

    def _next_chunk(self, *, compressed_bytes_max: int | None) -> list[bytes | memoryview]:
        """Convert batches until there is something to send. Returns an empty list at the end of what can be sent, and
        from then on. With a bound, the chunk ends before a batch that is too long for the loop, unless it is the first.
        """
        parts: list[bytes | memoryview] = []
        while not parts and (self._first is not None or self._position < self._source.size):
            try:
                self._convert_chunk(parts, compressed_bytes_max)
            except (CorruptRecordError, UnsupportedCompressionError) as error:
                self.error = drop_frames(error)
                self._position = self._source.size
        return parts

    def _convert_chunk(self, parts: list[bytes | memoryview], compressed_bytes_max: int | None) -> None:
        if self._first is not None:
            parts.append(self._first)
            self.records_converted += self._first_count
            self._first = None
            if (bytes_left := self._chunk_bytes - len(parts[0])) > 0:
                self._convert_there(parts, memoryview(self._source.read(self._position, bytes_left)), compressed_bytes_max)
            return
        position, chunk = self._position, self._read_there()
        self._there, self._there_at = memoryview(b""), -1
        self._convert_there(parts, chunk, compressed_bytes_max)
        if self._position == position:  # the chunk has no whole batch
            entry = self._read_entry()
            if entry is None:
                self._position = self._source.size
            else:
                self._convert_there(parts, entry, compressed_bytes_max)

    def _convert_there(self, parts: list[bytes | memoryview], chunk: memoryview, compressed_left: int | None) -> None:
        """Convert the whole batches of `chunk`, which is what the source has at `_position`, while there is room for them."""
        position, room = 0, self._left - sum(map(len, parts))
        data: bytes | memoryview
        while True:
            self._ensure_open()
            data, end, count = conversions.down_convert_batches(chunk, position, self._to_magic, self._first_offset, room)
            room -= self._take(parts, data, count=count, size=end - position)
            position = end
            size = entry_size(chunk, position)
            if size is None:
                return
            if compressed_left is not None:
                if parts and _is_long(chunk, position, size=size, compressed_bytes_max=compressed_left):
                    return
                compressed_left -= size if _is_compressed(chunk, position) else 0
            if not self._may_fit(chunk, position=position, size=size, room=room):
                self._position = self._source.size
                return
            data, count = self._converted(chunk, position, size)
            if len(data) > room:
                self._position = self._source.size
                return
            room -= self._take(parts, data, count=count, size=size)
            position += size

    def _take(self, parts: list[bytes | memoryview], data: bytes | memoryview, *, count: int, size: int) -> int:
        """Note that `size` bytes of the source became `data`, with `count` records. Return the bytes of that."""
        self._position += size
        self.records_converted += count
        if data:
            parts.append(data)
        return len(data)

    def _converted(self, buffer: memoryview, position: int, size: int) -> ConvertedEntry:
        return down_convert_entry(
            buffer, position, size, to_magic=self._to_magic, first_offset=self._first_offset, step=self._ensure_open
        )

    def _ensure_open(self) -> None:
        """Raise ConversionClosedError if the object was closed."""
        if self._is_closed:
            raise ConversionClosedError

    def _may_fit(self, chunk: memoryview, *, position: int, size: int, room: int) -> bool:
        """Return False if the batch is known not to fit, so that the last batch of a response is not converted in vain."""
        if size * 2 <= room or chunk[position + MAGIC_AT] != MAGIC:
            return True
        batch = BatchView(chunk, position)
        if batch.is_control or batch.compression:
            return True
        needed = conversions.down_converted_size(
            batch.payload, batch.record_count, batch.base_offset, self._to_magic, self._first_offset
        )
        return needed <= room

    def _padding(self, bytes_max: int) -> list[memoryview]:
        parts: list[memoryview] = []
        left = self._left
        if not self._padded:
            self._padded = True
            claimed = self._overflow_message_size
            if claimed is None:
                claimed = max(left + 1, HEADER_SIZE)
            parts.append(memoryview(OFFSET_AND_SIZE.pack(_OVERFLOW_OFFSET, claimed))[:left])
            left -= len(parts[0])
        budget = min(left, bytes_max)
        while budget > 0:
            parts.append(_ZEROS[:budget])
            budget -= len(parts[-1])
        return parts


def down_convert_eagerly(source: RecordsSource, *, to_magic: int, first_offset: Offset) -> bytes:
    """Convert the whole slice at once, in memory, as brokers did before KIP-283. Used only for comparison in benchmarks."""
    return down_convert(source.read(0, source.size), to_magic=to_magic, first_offset=first_offset).data


def _is_compressed(chunk: memoryview, position: int) -> bool:
    """Return whether a batch, or a message of an older format, has a codec."""
    codec_at = ATTRIBUTES_AT + 1 if chunk[position + MAGIC_AT] == MAGIC else MAGIC_AT + 1
    return bool(chunk[position + codec_at] & COMPRESSION_MASK)


def _is_long(chunk: memoryview, position: int, *, size: int, compressed_bytes_max: int) -> bool:
    """Return whether the conversion of a batch, of which at least the header is there, is too long for the loop."""
    if size <= compressed_bytes_max:
        return False
    return size > LOOP_BYTES or _is_compressed(chunk, position)


def _next_offset(entry: memoryview) -> Offset:
    """Return the first offset after a batch or message."""
    return BatchView(entry).next_offset if entry[MAGIC_AT] == MAGIC else Offset(int.from_bytes(entry[:8], signed=True) + 1)
