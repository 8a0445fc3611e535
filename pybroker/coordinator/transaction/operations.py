"""The operations of clients on transactional ids: functions of a shard and the time, whose results the runtime carries out.

An operation raises KafkaError for what it refuses. When it needs a producer id that was never used, its response is
NEEDS_PRODUCER_ID and nothing was done; the caller gets one and runs the operation again.

What EndTxn gets from a client of transaction version 2, where "again" means that the epoch is that before the last end:

    state             abort, again   abort            commit, again   commit
    Empty             fenced         new epoch        fenced          INVALID_TXN_STATE
    CompleteAbort     as before      new epoch        INVALID_TXN_STATE
    CompleteCommit    INVALID...     new epoch        as before       INVALID_TXN_STATE

Source: TransactionCoordinator, TransactionMetadata; KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.runtime.result import CoordinatorResult, Producer
from pybroker.coordinator.transaction.ending import after_prepared, timeout_timer, write
from pybroker.coordinator.transaction.state import (
    COMPLETE,
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    PREPARED,
    State,
    Transaction,
)
from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.model import TopicPartition

NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
NEEDS_PRODUCER_ID: Final = object()

Verification = Mapping["TopicPartition", ErrorCode] | ErrorCode
"""A code for each partition, or one for all."""


def init_producer_id(
    shard: TransactionShard,
    now_ms: int,
    *,
    transactional_id: str,
    timeout_ms: int,
    expected: Producer | None,
    unused: ProducerId | None,
) -> CoordinatorResult:
    """Give the id to a producer, which fences every other; the response is a Producer.

    `expected` is what a producer has that continues after an error (KIP-360). An open transaction is aborted first, and the
    response is CONCURRENT_TRANSACTIONS until that is done.
    """
    if not 0 < timeout_ms <= shard.settings.max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    now = shard.transactions.get(transactional_id)
    if now is None:
        if unused is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        new = Transaction(unused, ProducerEpoch(0), timeout_ms, update_ms=now_ms, previous_producer_id=unused)
        return _initialized(shard, transactional_id, new)
    if now.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_continue(now, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state is State.ONGOING:
        return _abort_first(shard, transactional_id, now, expected, now_ms)
    if now.is_exhausted:
        if expected is not None and expected.epoch != now.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if unused is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        last_epoch = NO_PRODUCER_EPOCH if expected is None else now.epoch
        new = now.initialized(unused, ProducerEpoch(0), last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
    elif expected is None:
        new = now.initialized(
            now.producer_id, ProducerEpoch(now.epoch + 1), last_epoch=NO_PRODUCER_EPOCH, timeout_ms=timeout_ms, now_ms=now_ms
        )
    elif expected.epoch == now.epoch:
        new = now.initialized(
            now.producer_id, ProducerEpoch(now.epoch + 1), last_epoch=now.epoch, timeout_ms=timeout_ms, now_ms=now_ms
        )
    elif expected.epoch == now.last_epoch:  # the response was lost
        new = now.initialized(now.producer_id, now.epoch, last_epoch=now.last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        new = new._replace(previous_producer_id=now.previous_producer_id)
    else:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return _initialized(shard, transactional_id, new)


def _may_continue(now: Transaction, expected: Producer) -> bool:
    """Return whether the producer has this id, or had it when its epochs were used up."""
    if expected.producer_id == now.producer_id:
        return True
    return expected.producer_id == now.previous_producer_id and expected.epoch >= LAST_EPOCH


def _initialized(shard: TransactionShard, transactional_id: str, new: Transaction) -> CoordinatorResult:
    return CoordinatorResult(response=Producer(new.producer_id, new.epoch), records=[write(shard, transactional_id, new)])


def _abort_first(
    shard: TransactionShard, transactional_id: str, now: Transaction, expected: Producer | None, now_ms: int
) -> CoordinatorResult:
    new = now.fenced(now_ms)
    if expected is not None and expected.epoch == now.epoch:
        new = new._replace(last_epoch=now.epoch)  # the producer itself: it asks again, with this epoch
    return CoordinatorResult(
        response=ErrorCode.CONCURRENT_TRANSACTIONS,
        records=[write(shard, transactional_id, new)],
        on_durable=after_prepared(shard, (transactional_id,)),
    )


def _known(shard: TransactionShard, transactional_id: str, producer_id: ProducerId, epoch: ProducerEpoch) -> Transaction:
    """Return the state, if the producer is the present one and no transaction is ending. Raises KafkaError."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    now = shard.transactions.get(transactional_id)
    if now is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if now.state in PREPARED and now.next_producer_id == producer_id != NO_PRODUCER_ID:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)  # its own id takes effect when the end is complete
    if now.producer_id != producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if now.epoch != epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state in PREPARED:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return now


def add_partitions(
    shard: TransactionShard,
    now_ms: int,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
) -> CoordinatorResult:
    """Add partitions, which opens the transaction if none is open; the response is NONE."""
    now = _known(shard, transactional_id, *producer)
    is_open = now.state is State.ONGOING
    if not shard.gone.isdisjoint(partitions):
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)  # `forgetting` would take out the new partition of that name
    if is_open and now.partitions.issuperset(partitions):
        return CoordinatorResult(response=ErrorCode.NONE)
    joined = now.with_partitions(now.partitions.union(partitions), now_ms)
    result = CoordinatorResult(response=ErrorCode.NONE, records=[write(shard, transactional_id, joined)])
    if not is_open:
        result.timers.append(timeout_timer(transactional_id, now.timeout_ms))
    return result


def verify_partitions(
    shard: TransactionShard, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
) -> Verification:
    """Return for each partition whether it belongs to the open transaction, or the error of all."""
    try:
        now = _known(shard, transactional_id, *producer)
    except KafkaError as error:
        return error.code
    if shard.gone and not shard.gone.isdisjoint(partitions):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return {one: ErrorCode.NONE if one in now.partitions else ErrorCode.TRANSACTION_ABORTABLE for one in partitions}


def end(
    shard: TransactionShard,
    now_ms: int,
    transactional_id: str,
    producer: Producer,
    *,
    version: int,
    unused: ProducerId | None,
    is_commit: bool,
) -> CoordinatorResult:
    """Decide the end of a transaction; the response is the Producer for the next one, NO_PRODUCER before version 2."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    now = shard.transactions.get(transactional_id)
    if now is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version < EPOCH_BUMP_VERSION:
        response = _check_end(now, producer, is_commit=is_commit)
    else:
        response = _check_end_v2(now, producer, is_commit=is_commit)
    if response is not None:
        return CoordinatorResult(response=response)
    next_id = NO_PRODUCER_ID
    if version >= EPOCH_BUMP_VERSION and now.is_exhausted:
        if unused is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        next_id = unused
    new = now.prepared(
        State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT, now_ms, client_version=version, next_producer_id=next_id
    )
    following = NO_PRODUCER
    if version >= EPOCH_BUMP_VERSION:
        following = Producer(new.producer_id, new.epoch) if next_id == NO_PRODUCER_ID else Producer(next_id, ProducerEpoch(0))
    return CoordinatorResult(
        response=following,
        records=[write(shard, transactional_id, new)],
        on_durable=after_prepared(shard, (transactional_id,)),
    )


def _check_end(now: Transaction, producer: Producer, *, is_commit: bool) -> Producer | None:
    """Return None if the transaction is to be ended, NO_PRODUCER if it has ended like this. Raises KafkaError."""
    if now.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if now.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state is State.ONGOING:
        return None
    if now.state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT):
        return NO_PRODUCER
    raise KafkaError(_refusal(now, is_commit=is_commit))


def _check_end_v2(now: Transaction, producer: Producer, *, is_commit: bool) -> Producer | None:
    """Return None if the transaction is to be ended, the present producer if it has ended like this. Raises KafkaError."""
    is_again = now.epoch == producer.epoch + 1
    if now.previous_producer_id == producer.producer_id and producer.epoch == LAST_EPOCH and now.epoch == 0:
        is_again = True  # and the next end has another producer id
    elif now.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    may_be_again = now.state in PREPARED or now.state in COMPLETE
    may_be_new = now.state not in PREPARED
    if not (is_again and may_be_again) and not (now.epoch == producer.epoch and may_be_new):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state is State.ONGOING or (not is_again and not is_commit):
        return None
    if is_again and now.state is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT):
        return Producer(now.producer_id, now.epoch)
    raise KafkaError(_refusal(now, is_commit=is_commit))


def _refusal(now: Transaction, *, is_commit: bool) -> ErrorCode:
    is_same = now.state is (State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT)
    return ErrorCode.CONCURRENT_TRANSACTIONS if is_same else ErrorCode.INVALID_TXN_STATE
