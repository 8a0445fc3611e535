"""Takes partitions that were removed out of the transactions that have them, some transactions of one shard in a turn.

A new partition of the same name is another one: it must not get the marker. Until the last transaction has forgotten them, the
partitions are in `shard.gone`: no marker goes to them, and a client that adds one of them gets CONCURRENT_TRANSACTIONS and tries
again. A record that cannot be written is tried again, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.runtime.result import CoordinatorResult, TimerChange
from pybroker.coordinator.transaction.ending import RETRY_MS, write
from pybroker.sharing.turns.jobs import job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.model import TopicPartition
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.sharing.work import Pausing

STEP_COST: Final = 2_000
WRITE_COST: Final = 20
"""The cost of writing a transaction, as a multiple of the cost of looking at it."""
PARTITIONS_OF_COST: Final = 10
"""The number of partitions of a transaction that cost as much to look at, and to copy, as a transaction."""


def missing(shard: TransactionShard, exists: Callable[[TopicPartition], bool]) -> Pausing[None]:
    """Find the partitions of a loaded shard that do not exist any more, for `START`."""
    for one in shard.transactions.values():
        for topic_partition in one.partitions:
            if not exists(topic_partition):
                shard.gone.add(topic_partition)
            yield
        yield


def begin(shard: TransactionShard, _now_ms: int, gone: Mapping[str, int]) -> CoordinatorResult:
    """Note topics that were deleted, by their numbers of partitions, and begin to take them out of open and ending transactions
    in a later turn, because all shards do it.
    """
    shard.gone.add_topics(gone)
    shard.forgetting = iter(())  # a walk that has begun ends, and all is done from the start
    return CoordinatorResult(timers=[START])


def _forget(shard: TransactionShard, now_ms: int) -> CoordinatorResult:
    shard.forgetting = iter(tuple(shard.transactions))
    return _forget_some(shard, now_ms, shard.forgetting)


START: Final = TimerChange("forget", 1, _forget)


@job("removed partitions of transactions")
def _forget_some(shard: TransactionShard, _now_ms: int, rest: Iterator[str]) -> CoordinatorResult:
    result = CoordinatorResult(is_atomic=False)
    cost, is_over = 0, True
    for transactional_id in rest:
        cost += 1
        one = shard.transactions.get(transactional_id)
        if one is not None and one.partitions:
            cost += len(one.partitions) // PARTITIONS_OF_COST
            left = shard.gone.left_of(one.partitions)
            if len(left) < len(one.partitions):
                result.records.append(write(shard, transactional_id, one._replace(partitions=left)))
                cost += WRITE_COST
        if cost >= STEP_COST:
            is_over = False
            break
    result.on_durable = partial(_on_written, shard, rest, is_over)
    return result


def _on_written(shard: TransactionShard, rest: Iterator[str], is_over: bool, code: ErrorCode, _now_ms: int) -> CoordinatorResult:
    if shard.forgetting is not rest:
        return CoordinatorResult()  # another partition was removed since, and all is done from the start
    if code:
        return CoordinatorResult(timers=[START._replace(delay_ms=RETRY_MS)])
    if is_over:
        shard.gone.clear()
        return CoordinatorResult()
    return CoordinatorResult(timers=[TimerChange("forget", 1, partial(_forget_some, rest=rest))])
