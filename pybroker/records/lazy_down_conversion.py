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
    When it is created, the size of the first batch is measured; without a codec no byte is converted for that. A
    batch with a codec must be converted, and is kept until it is sent or `drop_first` is called. While it is sent,
    memory holds one chunk at a time, which belongs to the caller as soon as it is pulled.

A chunk is as many whole batches of the source as fit in the chunk's bytes, at least one. If a later batch cannot be converted
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
from pybroker.records import kernels
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
from pybroker.records.convert import ConvertedEntry, convertible_codec, down_convert, down_convert_entry
from pybroker.records.errors import ConversionClosedError, CorruptRecordError, UnsupportedCompressionError

LOOP_BYTES: Final = 256 << 10
"""A batch without a codec of up to this size is converted on the loop; a larger one in a thread."""
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
        "_first_offset",
        "_head",
        "_head_at",
        "_is_closed",
        "_left",
        "_overflow_message_size",
        "_padded",
        "_position",
        "_prepared",
        "_source",
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
        self._position = 0  # where the next batch to convert is in the source
        self._head, self._head_at = memoryview(b""), -1
        self._first: bytes | memoryview | None = None
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
        head = self._head_there()
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

    @property
    def kept_bytes(self) -> int:
        """The bytes of the first batch that are held until it is sent; the caller adds them up over a response."""
        return 0 if self._first is None else len(self._first)

    def drop_first(self) -> None:
        """Hold nothing; the first batch is converted again when it is sent."""
        self._first = None

    def cold(self) -> Callable[[], None] | None:
        """Return what is to be done in a thread before the next chunk: a read, or a long conversion; None if there is nothing."""
        if not self._left or self._first is not None or self._position >= self._source.size or self._prepared is not None:
            return None
        return self._source.slice(self._position, self._chunk_bytes).cold() or (self._prepare if self.is_long else None)

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
        """Return the converted size of the first batch of which anything is left, and move `_position` there; 0 if there
        is none.
        """
        while (entry := self._read_entry()) is not None:
            self._ensure_open()
            size = len(entry)
            if entry[MAGIC_AT] == MAGIC and (codec := convertible_codec(batch := BatchView(entry))) is not None and not codec:
                converted = kernels.down_converted_size(
                    batch.payload, batch.record_count, batch.base_offset, self._to_magic, self._first_offset
                )
            else:
                data, _ = self._converted(entry, 0, size)
                converted = len(data)
                self._first = bytes(data) if converted else None
            if converted:
                return converted
            self._position += size
            self.passed_offset = _next_offset(entry)
        return 0

    def _head_there(self) -> memoryview:
        """Return the first bytes of the batch or message at `_position`; they are read once."""
        if self._head_at != self._position:
            self._head, self._head_at = memoryview(self._source.read(self._position, HEADER_SIZE)), self._position
        return self._head

    def _read_entry(self) -> memoryview | None:
        """Return the batch or message at `_position` of the source; None if it is not complete."""
        size = claimed_size(self._head_there())
        if size is None or size > self._source.size - self._position:
            return None
        entry = memoryview(self._source.read(self._position, size))
        return entry if len(entry) == size else None

    def _next_chunk(self, *, compressed_bytes_max: int | None) -> list[bytes | memoryview]:
        """Convert batches until there is something to send. Returns an empty list at the end of what can be sent, and
        from then on. With a bound, the chunk ends before a batch that is too long for the loop, unless it is the first.
        """
        parts: list[bytes | memoryview] = []
        while not parts and self._position < self._source.size:
            try:
                self._convert_chunk(parts, compressed_bytes_max)
            except (CorruptRecordError, UnsupportedCompressionError) as error:
                self.error = drop_frames(error)
                self._position = self._source.size
        return parts

    def _convert_chunk(self, parts: list[bytes | memoryview], compressed_bytes_max: int | None) -> None:
        first, self._first = self._first, None
        chunk = memoryview(self._source.read(self._position, self._chunk_bytes))
        if entry_size(chunk) is None:
            entry = self._read_entry()
            if entry is None:
                self._position = self._source.size
                return
            chunk = entry
        position, room = 0, self._left
        compressed_left = compressed_bytes_max
        while (size := entry_size(chunk, position)) is not None:
            self._ensure_open()
            if compressed_left is not None and first is None:
                if parts and _is_long(chunk, position, size=size, compressed_bytes_max=compressed_left):
                    return
                compressed_left -= size if _is_compressed(chunk, position) else 0
            if first is not None:
                data, count = first, BatchView(chunk, position).record_count
                first = None
            elif not self._may_fit(chunk, position=position, size=size, room=room):
                self._position = self._source.size
                return
            else:
                data, count = self._converted(chunk, position, size)
            if len(data) > room:
                self._position = self._source.size
                return
            position += size
            self._position += size
            self.records_converted += count
            if data:
                room -= len(data)
                parts.append(data)

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
        needed = kernels.down_converted_size(
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
