"""Batches of transactions: whether their partitions belong to the producer's transaction. Those in a Produce request, and the one
that a TxnOffsetCommit makes, whose partition is one of `__consumer_offsets`.

The coordinator, which may be on another broker, is asked once per transaction and partition: not if the log already has an open
transaction of this producer and epoch. Before Produce v12 a partition must have been added by AddPartitionsToTxn, so that no late
batch opens a transaction that never ends (KIP-890, first part). From v12 on, and with TxnOffsetCommit v5, the request itself adds
the partition.

If the coordinator responds later, because its record has to become durable, the request is parked. Right before each append the
log is asked once more whether a marker has come since (KIP-890's verification guard).

What a producer gets for an error of the coordinator. TxnOffsetCommit has the first two rows, the second one before v4.

    PRODUCER_FENCED                                   INVALID_PRODUCER_EPOCH, with which it may abort
    TRANSACTION_ABORTABLE                             INVALID_TXN_STATE before v11, which does not know the code
    CONCURRENT_TRANSACTIONS                           NOT_ENOUGH_REPLICAS before v12, so that it tries again
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,    NOT_ENOUGH_REPLICAS
    COORDINATOR_NOT_AVAILABLE

Source: ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager, VerificationGuard; KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.log.producers.producer_entry import ProducerEntry
from pybroker.model import NO_PRODUCER_ID, LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import batches
from pybroker.records.errors import CorruptRecordError
from pybroker.replication.produce_data import PartitionProduceResult

if TYPE_CHECKING:
    import asyncio

    from pybroker.api.context import Services
    from pybroker.api.produce.layout import ProduceLayout
    from pybroker.records.batch import BatchView
    from pybroker.replication.partition import Partition

_ADDS_PARTITIONS_VERSION: Final = 12
_ABORTABLE_VERSION: Final = 11
_ADDS_OFFSETS_VERSION: Final = 5
_ABORTABLE_OFFSETS_VERSION: Final = 4
_RETRIED: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)

_OPEN: Final = ProducerEntry(NO_PRODUCER_ID)
"""Stands for a producer with an open transaction: no log has this object."""

Guard = Callable[[TopicPartition], ErrorCode]
"""The last look right before each append. A marker may be written between the verification and the append, while a record of the
coordinator becomes durable or a thread checks a long batch.
"""
Outcome = Mapping[TopicPartition, ErrorCode] | ErrorCode


class _Inquiry:
    """The question to the coordinator, and what becomes of its response.

    Attributes:
        unverified: the partitions that it is asked about.
    """

    __slots__ = ("_broker", "_guard", "_laid_out", "_producer", "_version", "unverified")

    def __init__(  # noqa: PLR0917  (each is of another kind)
        self,
        broker: Services,
        version: int,
        laid_out: ProduceLayout,
        producer: tuple[ProducerId, ProducerEpoch],
        unverified: list[TopicPartition],
        guard: Guard,
    ) -> None:
        self._broker = broker
        self._version = version
        self._laid_out = laid_out
        self._producer = producer
        self._guard = guard
        self.unverified = unverified

    @property
    def adds(self) -> bool:
        """Whether the request adds the partitions to its transaction."""
        return self._version >= _ADDS_PARTITIONS_VERSION

    def ask(self, transactional_id: str, done: Callable[[Outcome], None]) -> None:
        """Ask the coordinator."""
        from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

        self._broker.transactions.ask(transactional_id, Producer(*self._producer), self.unverified, done, adds=self.adds)

    def judge(self, outcome: Outcome) -> Guard:
        """Refuse the partitions for which the coordinator had an error; return the guard of the others."""
        entries, refused = self._laid_out.entries, self._laid_out.refused
        for topic_partition in self.unverified:
            code = outcome if isinstance(outcome, ErrorCode) else outcome[topic_partition]
            if code:
                code = _for_producer(code, self._version)
                refused[topic_partition] = PartitionProduceResult(code, error_message=_message(code))
                del entries[topic_partition]
        return self._guard


def verify(
    broker: Services, version: int, transactional_id: str, laid_out: ProduceLayout
) -> Guard | asyncio.Future[Guard] | None:
    """Leave in `laid_out` the entries that may be appended, at once or later, and refuse the others. Return the guard of what is
    left, or None if nothing is.

    The guard needs the layout until all is appended.
    """
    inquiry = _inquiry(broker, version, laid_out)
    if not isinstance(inquiry, _Inquiry):
        return inquiry
    deferred: Deferred[Outcome, Guard] = Deferred(inquiry.judge)
    inquiry.ask(transactional_id, deferred.complete)
    return deferred.response()


def _inquiry(broker: Services, version: int, laid_out: ProduceLayout) -> _Inquiry | Guard | None:
    """Return what the coordinator must be asked; if nothing, the guard, or None if nothing may be appended."""
    transactional = laid_out.transactional
    producers: set[tuple[ProducerId, ProducerEpoch]] = set()
    sequences: dict[TopicPartition, int] = {}
    for topic_partition, records in transactional.items():
        batch = _first_batch(records)
        if batch is not None:
            producers.add((batch.producer_id, batch.producer_epoch))
            if batch.base_sequence:
                sequences[topic_partition] = batch.base_sequence
    if len(producers) != 1:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if producers else ErrorCode.CORRUPT_MESSAGE
        laid_out.refuse_entries(PartitionProduceResult(code))
        return None
    (producer,) = producers
    adds = version >= _ADDS_PARTITIONS_VERSION
    unverified, guard = _guarded(broker, producer, transactional)
    if adds:
        guard = _from_the_first_on(broker, producer[0], sequences, guard)
    if not unverified or not (adds or broker.config.transaction_partition_verification_enable):
        return guard
    return _Inquiry(broker, version, laid_out, producer, unverified, guard)


def verify_offsets(  # noqa: PLR0917  positions as in `verify`
    broker: Services,
    version: int,
    transactional_id: str,
    producer: tuple[ProducerId, ProducerEpoch],
    topic_partition: TopicPartition,
    done: Callable[[ErrorCode, Callable[[], ErrorCode]], None],
) -> None:
    """Look whether a group's partition of `__consumer_offsets` belongs to the producer's transaction; `version` is that of a
    TxnOffsetCommit. `done` gets the code, and the last look right before the append.
    """
    adds = version >= _ADDS_OFFSETS_VERSION
    unverified, guard = _guarded(broker, producer, (topic_partition,))

    def last_look() -> ErrorCode:
        code = guard(topic_partition)
        return ErrorCode.NOT_COORDINATOR if code is ErrorCode.NOT_LEADER_OR_FOLLOWER else code

    if not unverified or not (adds or broker.config.transaction_partition_verification_enable):
        done(ErrorCode.NONE, last_look)
        return

    def verified(outcome: Outcome) -> None:
        code = outcome if isinstance(outcome, ErrorCode) else outcome[topic_partition]
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_OFFSETS_VERSION:
            code = ErrorCode.INVALID_TXN_STATE
        done(code, last_look)

    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    broker.transactions.ask(transactional_id, Producer(*producer), unverified, verified, adds=adds)


def _first_batch(records: memoryview) -> BatchView | None:
    """Return the batch that `records` begin with; None if it is damaged, or not all there. If there are more, the log refuses all
    of them.
    """
    try:
        return next(batches(records), None)
    except CorruptRecordError:
        return None


def _guarded(
    broker: Services, producer: tuple[ProducerId, ProducerEpoch], transactional: Collection[TopicPartition]
) -> tuple[list[TopicPartition], Guard]:
    """Return the partitions where the producer has no open transaction, and the guard of all partitions."""
    unverified: list[TopicPartition] = []
    known: dict[TopicPartition, ProducerEntry | None] = {}  # of the producer, by the logs
    found: dict[TopicPartition, tuple[Partition, LeaderEpoch]] = {}
    for topic_partition in transactional:
        partition = broker.replica_manager.partition(topic_partition)
        if not isinstance(partition, ErrorCode) and partition.is_leader:  # otherwise the guard or the append has the error
            found[topic_partition] = partition, partition.leader_epoch
            producers = partition.log.producers
            if producers.has_open_transaction(*producer):
                known[topic_partition] = _OPEN
            else:
                unverified.append(topic_partition)
                known[topic_partition] = producers.producers.get(producer[0])

    def guard(topic_partition: TopicPartition) -> ErrorCode:
        """Return INVALID_TXN_STATE if the transaction may have ended here since, or what else keeps the batch out."""
        partition = broker.replica_manager.partition(topic_partition)
        if topic_partition not in transactional or isinstance(partition, ErrorCode):
            return ErrorCode.NONE
        # a new topic, maybe of the same name, which the transaction does not have; or a broker that leads no more, and may have
        # dropped what it knew of the producer
        if (partition, partition.leader_epoch) != found.get(topic_partition) or not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        producers = partition.log.producers
        is_as_before = producers.producers.get(producer[0]) is known[topic_partition]
        return ErrorCode.NONE if is_as_before or producers.has_open_transaction(*producer) else ErrorCode.INVALID_TXN_STATE

    return unverified, guard


def _from_the_first_on(broker: Services, producer_id: ProducerId, sequences: Mapping[TopicPartition, int], guard: Guard) -> Guard:
    """Return a guard that also refuses a producer's first batch if its sequence is not 0: the batches before it were refused, and
    the client sends them again. An epoch of transaction version 2 begins with each transaction, so its sequences begin at 0.

    `sequences` has those of the batches that are not 0.
    """

    def with_sequence(topic_partition: TopicPartition) -> ErrorCode:
        code = guard(topic_partition)
        if topic_partition in sequences and code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            partition = broker.replica_manager.partition(topic_partition)
            if not isinstance(partition, ErrorCode) and producer_id not in partition.log.producers.producers:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return code

    return with_sequence


def _for_producer(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if code in _RETRIED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_PARTITIONS_VERSION):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code


def _message(code: ErrorCode) -> str | None:
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        return "Unable to verify the partition has been added to the transaction."
    return "Partition was not added to the transaction" if code is ErrorCode.INVALID_TXN_STATE else None
