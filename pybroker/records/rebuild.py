"""Builds a produced batch again: with other offsets inside, in another codec, or both.

The records come in pieces and leave in pieces, and the build ends as soon as the batch is larger than `max.message.bytes`. So it
holds that much, and one piece, whatever the records inflate to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pybroker.model import FIRST_OFFSET
from pybroker.records import sections
from pybroker.records.batch import COMPRESSION_MASK, HEADER_SIZE, LOG_APPEND_TIME_BIT
from pybroker.records.build import assemble_batch
from pybroker.records.compression import DECOMPRESSED_BYTES_MAX, CompressionType, compress, compressed_pieces, inflated
from pybroker.records.copies import joined
from pybroker.records.errors import RecordTooLargeError
from pybroker.records.work import LOOP_BYTES, compressed_on_loop_max, pieces_of

if TYPE_CHECKING:
    from pybroker.records.batch import BatchView
    from pybroker.records.rules import ValidationRules
    from pybroker.records.work import Work


class Records:
    """The records of one batch as they were sent, to be looked through once and perhaps again. The bytes are borrowed.

    `size` is what they inflate to, once `pieces` has ended.
    """

    __slots__ = ("_data", "_kept", "codec", "rules", "size", "work")

    def __init__(self, codec: CompressionType, data: memoryview, rules: ValidationRules, work: Work) -> None:
        self.codec = codec
        self.rules = rules
        self.work = work
        self.size = 0 if codec else len(data)
        self._data = data
        self._kept: list[bytes | memoryview] | None = [] if codec else [data]

    def pieces(self) -> Iterator[bytes | memoryview]:
        """Yield the uncompressed records, and count them. Raises as `work.pieces_of`."""
        if not self.codec:
            yield self._data
            return
        for piece in pieces_of(self.codec, self._data, self.rules, self.work):
            self.size += len(piece)
            if self.size > DECOMPRESSED_BYTES_MAX and self.rules.is_compacted:
                raise RecordTooLargeError(
                    f"the records inflate to more than {DECOMPRESSED_BYTES_MAX} bytes, too many to compact: "
                    f"compaction has the records of a batch in memory"
                )
            if self._kept is not None:
                self._kept.append(piece)
                if self.size > LOOP_BYTES:
                    self._kept = None
            yield piece

    def pieces_again(self) -> Iterator[bytes | memoryview]:
        """Yield them once more, after `pieces` has ended: from memory if they are few, else inflated again."""
        for piece in inflated(self.codec, self._data) if self._kept is None else self._kept:
            self.work.ensure_wanted()
            yield piece


def rebuilt(batch: BatchView, records: Records, codec: CompressionType, max_timestamp: int, *, is_renumbered: bool) -> memoryview:
    """Return a new batch with the header of `batch`, from offset 0 on, in `codec`. The records were found good.

    `is_renumbered`: the records get the offsets 0, 1, 2... and every record gets its own timestamp.

    Raises RecordTooLargeError; LongWorkError on the loop, if the compression takes too long for it.
    """
    rules = records.rules
    records.work.only_off_loop(records.size, size_max=compressed_on_loop_max(codec, _level(codec, rules)))
    pieces = records.pieces_again()
    base_timestamp = batch.base_timestamp
    renumbering = None
    if is_renumbered:
        log_append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME_BIT else None
        renumbering = sections.Renumbering(batch.record_count, base_timestamp, log_append_time)
        pieces = map(renumbering.feed, pieces)
    payload = compressed(pieces, codec, rules, is_small=records.size <= LOOP_BYTES)
    if renumbering is not None:
        renumbering.finish()
        base_timestamp = renumbering.base_timestamp_made
    return under_header(batch, payload, codec, rules, base_timestamp=base_timestamp, max_timestamp=max_timestamp)


def under_header(
    batch: BatchView,
    payload: bytes | memoryview,
    codec: CompressionType,
    rules: ValidationRules,
    *,
    base_timestamp: int,
    max_timestamp: int,
) -> memoryview:
    """Return the records of `batch`, as they are in `payload`, as a batch from offset 0 on."""
    kept = batch.attributes & ~(COMPRESSION_MASK | LOG_APPEND_TIME_BIT)
    return memoryview(
        assemble_batch(
            payload,
            base_offset=FIRST_OFFSET,
            last_offset_delta=batch.record_count - 1,
            attributes=kept | codec | (LOG_APPEND_TIME_BIT if rules.is_log_append_time else 0),
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=batch.record_count,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
    )


def too_large(size: int, rules: ValidationRules) -> RecordTooLargeError:
    """Return the error for a batch of `size` bytes, or of more."""
    return RecordTooLargeError(f"a batch has {size} bytes, but max.message.bytes is {rules.max_message_bytes}")


def compressed(
    pieces: Iterator[bytes | memoryview], codec: CompressionType, rules: ValidationRules, *, is_small: bool = False
) -> bytes | memoryview:
    """Return all pieces together in `codec`. Raises RecordTooLargeError as soon as a batch of them would be too large."""
    level = _level(codec, rules)
    if codec and is_small:
        parts: Iterator[bytes | memoryview] = iter((compress(codec, b"".join(pieces), level=level),))
    else:
        parts = compressed_pieces(codec, pieces, level=level) if codec else pieces
    found, size = [], HEADER_SIZE
    for part in parts:
        found.append(part)
        size += len(part)
        if size > rules.max_message_bytes:
            raise too_large(size, rules)
    return joined(found)


def _level(codec: CompressionType, rules: ValidationRules) -> int | None:
    return rules.level if codec is rules.compression else None
