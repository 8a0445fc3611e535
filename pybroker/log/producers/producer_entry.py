"""One producer as a partition knows it: its last five batches and its open transaction.

Source: org.apache.kafka.storage.internals.log.{ProducerStateEntry, BatchMetadata}; KIP-98.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pybroker.model import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    CoordinatorEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)
from pybroker.records.batch import NO_SEQUENCE, decrement_sequence, increment_sequence

BATCHES_RETAINED: Final = 5


class BatchMetadata(NamedTuple):
    """One batch in the cache."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record."""
        return decrement_sequence(self.last_sequence, by=self.offset_delta)

    @property
    def first_offset(self) -> Offset:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerBatch(NamedTuple):
    """The fields of a batch that the rules use; a control batch has its marker in `marker` and `coordinator_epoch`."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    base_offset: Offset
    last_offset: Offset
    max_timestamp: int
    is_transactional: bool
    marker: int | None = None  # ABORT_MARKER, or 1 where it commits
    coordinator_epoch: CoordinatorEpoch = NO_COORDINATOR_EPOCH

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record."""
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)


class ProducerEntry(NamedTuple):
    """One producer. `transaction_first_offset` is -1 while it has no open transaction.

    A batch makes a new entry, so that a copy of the partition's dict stays what it is while a thread writes it.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    coordinator_epoch: CoordinatorEpoch = NO_COORDINATOR_EPOCH
    last_timestamp: int = -1
    transaction_first_offset: Offset = NO_OFFSET
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The last sequence of the last batch; NO_SEQUENCE if none is cached."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, batch: ProducerBatch) -> BatchMetadata | None:
        """Return the cached batch with the same epoch and sequences."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for cached in self.batches:
            if cached.last_sequence == last and cached.first_sequence == first:
                return cached
        return None

    def add(self, base_sequence: int, last_offset: Offset, offset_delta: int, timestamp: int) -> ProducerEntry:
        """Return the producer after its next data batch, which continues the last one in the same epoch and outside of a
        transaction.
        """
        producer_id, producer_epoch, coordinator_epoch, _, transaction_first_offset, batches = self
        last_sequence = increment_sequence(base_sequence, offset_delta)
        batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
        batches = (*(batches if len(batches) < BATCHES_RETAINED else batches[1:]), batch)
        last_timestamp = timestamp
        return ProducerEntry(producer_id, producer_epoch, coordinator_epoch, last_timestamp, transaction_first_offset, batches)

    def after(self, batch: ProducerBatch) -> ProducerEntry:
        """Return the producer after any batch. A new epoch forgets the batches of the old one."""
        batches = self.batches if batch.producer_epoch == self.producer_epoch else ()
        if batch.marker is not None:
            return ProducerEntry(
                self.producer_id, batch.producer_epoch, batch.coordinator_epoch, batch.max_timestamp, NO_OFFSET, batches
            )
        delta = batch.last_offset - batch.base_offset
        cached = BatchMetadata(batch.last_sequence, batch.last_offset, delta, batch.max_timestamp)
        first_offset = self.transaction_first_offset
        if batch.is_transactional and first_offset < 0:
            first_offset = batch.base_offset
        batches = (*batches[-(BATCHES_RETAINED - 1) :], cached)
        return ProducerEntry(
            self.producer_id, batch.producer_epoch, self.coordinator_epoch, batch.max_timestamp, first_offset, batches
        )
