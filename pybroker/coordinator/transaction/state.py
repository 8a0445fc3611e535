"""A transactional id: its producer, and its transaction.

States, and what leads from one to the next

    state           id  when                                            leads to
    Empty            0  InitProducerId                                  Ongoing, PrepareAbort (version 2), removed (expired)
    Ongoing          1  a partition was added                           PrepareCommit, PrepareAbort (EndTxn, timeout, fencing)
    PrepareCommit    2  the end is decided; markers are being written   CompleteCommit
    PrepareAbort     3  the end is decided; markers are being written   CompleteAbort
    CompleteCommit   4  all markers are written                         Empty, Ongoing, PrepareAbort (version 2), removed
    CompleteAbort    5  all markers are written                         Empty, Ongoing, PrepareAbort (version 2), removed

A client of transaction version 2 (KIP-890) gets a new epoch with each end: from Prepare on the epoch is one larger, and the
markers carry the larger one. When the epochs are used up, the next producer id is decided with the end too, and takes effect when
the transaction is complete. To fence a producer, by InitProducerId or because its time is up, the coordinator aborts with the
next epoch in every version.

Source: TransactionMetadata, TransactionState; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from pybroker.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

NO_TIME: Final = -1
LAST_EPOCH: Final = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a client gets. The one above it is for fencing that client."""

EPOCH_BUMP_VERSION: Final = 2
"""The transaction version from which each end gives a new epoch."""


class State(IntEnum):
    """The state of a transactional id, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


PREPARED: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
COMPLETE: Final = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})


class Transaction(NamedTuple):
    """The state of one transactional id. Times in ms, -1 for none.

    `last_epoch` is the epoch before the present one while its owner may repeat the request that gave it the present one; the log
    does not hold it. `client_version` is the transaction version of the client that ended the last transaction.
    """

    producer_id: ProducerId
    epoch: ProducerEpoch
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    update_ms: int = NO_TIME
    last_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left that a client could get."""
        return self.epoch >= LAST_EPOCH

    def initialized(
        self, producer_id: ProducerId, epoch: ProducerEpoch, *, last_epoch: ProducerEpoch, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Return the state after an InitProducerId, which ends nothing."""
        return self._replace(
            producer_id=producer_id,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def with_partitions(self, partitions: frozenset[TopicPartition], now_ms: int) -> Transaction:
        """Return the state in which the transaction is open and has these partitions, among them those that it has now."""
        return self._replace(
            state=State.ONGOING,
            partitions=partitions,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            update_ms=now_ms,
        )

    def prepared(
        self, state: State, now_ms: int, *, client_version: int, next_producer_id: ProducerId = NO_PRODUCER_ID
    ) -> Transaction:
        """Return the state in which a client has decided the end, of an open transaction or of none."""
        gets_epoch = client_version >= EPOCH_BUMP_VERSION
        return self._replace(
            state=state,
            epoch=ProducerEpoch(self.epoch + 1) if gets_epoch else self.epoch,
            last_epoch=self.epoch if gets_epoch else self.last_epoch,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )

    def fenced(self, now_ms: int) -> Transaction:
        """Return the state in which the open transaction is aborted, and its producer's epoch is not valid any more."""
        return self._replace(
            state=State.PREPARE_ABORT,
            epoch=ProducerEpoch(self.epoch + 1),
            last_epoch=NO_PRODUCER_EPOCH,
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            client_version=0,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the state after the last marker."""
        has_next = self.next_producer_id != NO_PRODUCER_ID
        return self._replace(
            state=State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            producer_id=self.next_producer_id if has_next else self.producer_id,
            epoch=ProducerEpoch(0) if has_next else self.epoch,
            partitions=frozenset(),
            update_ms=now_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


class Ending(NamedTuple):
    """A transaction whose end is durable, and the partitions that have no marker of it yet."""

    transactional_id: str
    shard_partition: int
    producer_id: ProducerId
    epoch: ProducerEpoch
    is_commit: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: CoordinatorEpoch
    client_version: int


class Marker(NamedTuple):
    """The end of one producer's transaction, the same for all partitions."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    version: int = 0
    """The transaction version of the client that has ended the transaction; 0 where the coordinator has ended it."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions by topic, both in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        found[topic].append(number)
    return {topic: sorted(found[topic]) for topic in sorted(found)}
