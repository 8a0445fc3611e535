"""One producer as a partition knows it: its last five batches and its open transaction.

Source: org.apache.kafka.storage.internals.log.{ProducerStateEntry, BatchMetadata}; KIP-98.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from pybroker.model import (
    NO_COORDINATOR_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    CoordinatorEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    new_tuple,
)

BATCHES_RETAINED: Final = 5
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


def increment_sequence(sequence: int, by: int) -> int:
    """Return the sequence `by` records later; sequences wrap from 2^31 - 1 to 0."""
    return (sequence + by) & SEQUENCE_MAX


def decrement_sequence(sequence: int, *, by: int) -> int:
    """Return the sequence `by` records earlier."""
    return (sequence - by) & SEQUENCE_MAX


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


class ProducerEntry:
    """One producer. `transaction_first_offset` is -1 while it has no open transaction."""

    __slots__ = ("batches", "coordinator_epoch", "last_timestamp", "producer_epoch", "producer_id", "transaction_first_offset")

    def __init__(self, producer_id: ProducerId) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_RETAINED)

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

    def add(self, base_sequence: int, last_offset: Offset, offset_delta: int, timestamp: int) -> None:
        """Add the next data batch, which continues the last one in the same epoch and outside of a transaction."""
        self.last_timestamp = timestamp
        last_sequence = (base_sequence + offset_delta) & SEQUENCE_MAX
        self.batches.append(new_tuple(BatchMetadata, (last_sequence, last_offset, offset_delta, timestamp)))

    def set_epoch(self, producer_epoch: ProducerEpoch) -> None:
        """Begin a new epoch, which forgets the batches of the old one."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def copy(self) -> ProducerEntry:
        """Return an independent copy, to check several batches of one request against."""
        twin = ProducerEntry(self.producer_id)
        twin.producer_epoch, twin.coordinator_epoch = self.producer_epoch, self.coordinator_epoch
        twin.last_timestamp, twin.transaction_first_offset = self.last_timestamp, self.transaction_first_offset
        twin.batches.extend(self.batches)
        return twin
