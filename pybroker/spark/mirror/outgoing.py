"""Makes batches of the source's log ready for the target's: unchanged if possible, otherwise rebuilt, otherwise left out.

An unchanged batch keeps its records, which are never decompressed. Only its header is overwritten: base offset 0, no leader
epoch, the mirror's own producer id, epoch and sequence, no transaction, and the checksum of the result. The old checksum is
checked first.

| in the source                                                     | in the target                                        |
|-------------------------------------------------------------------|------------------------------------------------------|
| a batch, in any codec, of a plain or idempotent producer          | unchanged                                            |
| a batch of a committed transaction                                | unchanged, without the transactional bit             |
| a batch that compaction has seen and left whole                   | unchanged, without the delete horizon                |
| a batch from which compaction removed records, or that begins     | rebuilt in its codec, because a broker requires      |
| before the first offset to copy                                   | offsets without gaps from producers                  |
| a batch with log append time                                      | rebuilt in its codec: each record has the time that  |
|                                                                   | readers of the source saw, as its create time        |
| messages of magic 0 and 1                                         | rebuilt in their codec as batches of magic 2         |
| a batch that compaction emptied, control batches                  | left out                                             |
| batches of aborted transactions                                   | left out                                             |

A rebuilt batch that is too large for the target is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from crc32c import crc32c

from pybroker.model import FIRST_OFFSET, NO_LEADER_EPOCH, Offset, ProducerEpoch, ProducerId
from pybroker.records import legacy
from pybroker.records.aborted import AbortedTransactions
from pybroker.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    BatchView,
    Record,
    entry_size,
    increment_sequence,
)
from pybroker.records.build import build_batch
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pybroker.records.compression import CompressionType
    from pybroker.spark.wire.client import Fetched

_CRC_SIZE: Final = 4
_TOGETHER_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of the batches in the target."""

    producer_id: ProducerId
    epoch: ProducerEpoch


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A batch ready to be sent.

    Attributes:
        offset: its offset in the target; its sequence is the same number, modulo 2**31.
        runs: the first source and target offset of each stretch in which the offsets of both sides grow by one.
    """

    data: memoryview
    offset: Offset
    count: int
    runs: Sequence[tuple[Offset, Offset]]
    is_verbatim: bool


@final
@dataclass(slots=True)
class Counts:
    """The numbers of batches by what became of them, and of their records."""

    verbatim: int = 0
    rebuilt: int = 0
    control: int = 0
    aborted: int = 0
    records: int = 0
    size: int = 0
    """Bytes of the batches to send."""

    def add(self, other: Counts) -> None:
        """Add the numbers of `other` to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@final
@dataclass(slots=True)
class Planner:
    """A planner of the batches of a partition. `source` is the next source offset, `target` its offset in the target."""

    producer: Producer
    source: Offset
    target: Offset
    size_max: int
    """The maximum size of a batch in the target."""
    counts: Counts = field(default_factory=Counts)

    def plan(self, fetched: Fetched) -> Iterator[Outgoing]:
        """Yield the batches to send, in order, overwriting the buffer of `fetched`. Raises PipelineError for damaged batches."""
        try:
            yield from self._entries(fetched.data, AbortedTransactions(fetched.aborted))
        except CorruptRecordError as error:
            raise PipelineError(f"the source is damaged at offset {self.source}: {error.message}") from error

    def _entries(self, data: memoryview, aborted: AbortedTransactions) -> Iterator[Outgoing]:
        position, plain_from = 0, 0  # messages without a codec go together
        while (size := entry_size(data, position)) is not None:
            is_batch = data[position + MAGIC_AT] == MAGIC
            is_plain = not is_batch and not legacy.MessageView(data, position).compression
            if not is_plain or position - plain_from > _TOGETHER_BYTES:
                yield from self._messages(data[plain_from:position])
                plain_from = position
            if not is_plain:
                if is_batch:
                    yield from self._batch(BatchView(data, position), aborted)
                else:
                    yield from self._messages(data[position : position + size])
                plain_from = position + size
            position += size
        yield from self._messages(data[plain_from:position])

    def _batch(self, batch: BatchView, aborted: AbortedTransactions) -> Iterator[Outgoing]:
        if batch.next_offset <= self.source:
            return
        batch.ensure_valid()
        if aborted.has(batch):
            self.counts.aborted += 1
        elif batch.is_control:
            self.counts.control += 1
        elif batch.record_count and self._can_stay(batch):
            yield self._as_it_is(batch)
        elif batch.record_count:
            yield from self._rebuilt(batch.records(), batch.compression)
        self.source = batch.next_offset

    def _can_stay(self, batch: BatchView) -> bool:
        if batch.attributes & LOG_APPEND_TIME_BIT or batch.base_offset < self.source:
            return False
        return batch.last_offset_delta == batch.record_count - 1

    def _as_it_is(self, batch: BatchView) -> Outgoing:
        if batch.batch_length > self.size_max:
            raise self._too_large(batch.base_offset, size=batch.batch_length)
        data = batch.data
        HEADER.pack_into(
            data,
            0,
            0,
            batch.batch_length - LOG_OVERHEAD,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            batch.attributes & ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT),
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            self.producer.producer_id,
            self.producer.epoch,
            increment_sequence(0, self.target),
            batch.record_count,
        )
        data[CRC_AT : CRC_AT + _CRC_SIZE] = crc32c(data[ATTRIBUTES_AT:]).to_bytes(_CRC_SIZE)
        self.counts.verbatim += 1
        return self._sent(data, batch.record_count, [(batch.base_offset, self.target)], is_verbatim=True)

    def _messages(self, messages: memoryview) -> Iterator[Outgoing]:
        """Rebuild messages of magic 0 and 1: any number of messages without a codec, or a single wrapper."""
        if messages:
            records = list(legacy.records(messages))
            yield from self._rebuilt(records, legacy.MessageView(messages).compression)
            self.source = max(self.source, Offset(records[-1].offset + 1))

    def _rebuilt(self, records: Iterable[Record], codec: CompressionType) -> Iterator[Outgoing]:
        wanted = [record for record in records if record.offset >= self.source]
        if wanted:
            yield from self._built(wanted, codec)

    def _built(self, records: list[Record], codec: CompressionType) -> Iterator[Outgoing]:
        data = build_batch(
            [record._replace(offset=FIRST_OFFSET + number) for number, record in enumerate(records)],
            compression=codec,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=increment_sequence(0, self.target),
        )
        if len(data) > self.size_max and len(records) > 1:
            half = len(records) // 2
            yield from self._built(records[:half], codec)
            yield from self._built(records[half:], codec)
            return
        if len(data) > self.size_max:
            raise self._too_large(records[0].offset, size=len(data))
        runs, shift = [], None
        for number, record in enumerate(records):
            if record.offset - number != shift:
                shift = record.offset - number
                runs.append((record.offset, Offset(self.target + number)))
        self.counts.rebuilt += 1
        yield self._sent(memoryview(data), len(records), runs, is_verbatim=False)

    def _too_large(self, offset: Offset, *, size: int) -> PipelineError:
        return PipelineError(
            f"the batch at source offset {offset} has {size} bytes, "
            f"but the target accepts {self.size_max}: raise its max.message.bytes"
        )

    def _sent(self, data: memoryview, count: int, runs: Sequence[tuple[Offset, Offset]], *, is_verbatim: bool) -> Outgoing:
        out = Outgoing(data, self.target, count, runs, is_verbatim)
        self.target = Offset(self.target + count)
        self.counts.records += count
        self.counts.size += len(data)
        return out
