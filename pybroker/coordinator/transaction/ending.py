"""The end of a transaction, in two phases: the decision is a durable record, then every partition gets a marker, then another
record shows that all is done.

    prepared -> markers to all partitions -> completed

A broker that is killed in between finds the first record when it loads the partition, and sends the markers (again). A marker
that a partition gets twice changes nothing there. A partition that does not exist any more needs none.

A step that fails is tried again after 100 ms, and after twice as long each time, up to 3.2 s.

Source: TransactionCoordinator.endTransaction, TransactionMarkerChannelManager.
"""

from __future__ import annotations

import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.runtime.result import CoordinatorResult, ParkedResponse, TimerChange
from pybroker.coordinator.transaction.records import FLEXIBLE_VERSION, record_of
from pybroker.coordinator.transaction.state import PREPARED, Ending, State, Transaction
from pybroker.sharing.turns.jobs import job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pybroker.coordinator.runtime.result import CoordinatorRecord
    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

RETRY_MS: Final = 100
RETRY_DOUBLINGS: Final = 5
ABORTED_MAX: Final = 100
"""The number of transactions that are aborted in one turn because their time is up."""


def write(shard: TransactionShard, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
    """Return the record of a new state, in the form of the level of transaction.version in force."""
    return record_of(transactional_id, transaction, FLEXIBLE_VERSION if shard.settings.transaction_version() else 0)


def after_prepared(
    shard: TransactionShard, transactional_ids: Iterable[str]
) -> Callable[[ErrorCode, int], Pausing[CoordinatorResult]]:
    """Return what follows when the records of prepared transactions are durable: their markers."""
    return partial(_on_prepared, shard, tuple(transactional_ids))


def resume(shard: TransactionShard, transactional_ids: Iterable[str]) -> CoordinatorResult:
    """Send the markers of transactions whose end was decided, as soon as the decision is durable."""
    return CoordinatorResult(response=True, on_durable=after_prepared(shard, transactional_ids))


def _on_prepared(
    shard: TransactionShard, transactional_ids: tuple[str, ...], code: ErrorCode, _now_ms: int
) -> Pausing[CoordinatorResult]:
    result = CoordinatorResult()
    for number, transactional_id in enumerate(transactional_ids):
        if number:
            yield
        transaction = shard.transactions.get(transactional_id)
        if transaction is None or transaction.state not in PREPARED or transactional_id in shard.ending:
            continue  # among others because the record was refused: the transaction remains open, and its time runs on
        result.timers.append(timeout_timer(transactional_id, None))
        if code:  # it is in the log, and may be durable later
            again = partial(_resume_one, transactional_id=transactional_id)
            result.timers.append(TimerChange(("end", transactional_id), pause_ms(shard, transactional_id), again))
            continue
        shard.ending.add(transactional_id)
        result.parked_responses.append(ParkedResponse(shard.settings.send, _ending(shard, transactional_id, transaction)))
    return result


def _resume_one(shard: TransactionShard, _now_ms: int, transactional_id: str) -> CoordinatorResult:
    return resume(shard, (transactional_id,))


def _ending(shard: TransactionShard, transactional_id: str, transaction: Transaction) -> Ending:
    return Ending(
        transactional_id,
        shard.partition,
        transaction.producer_id,
        transaction.epoch,
        transaction.state is State.PREPARE_COMMIT,
        shard.gone.left_of(transaction.partitions) if shard.gone else transaction.partitions,
        shard.coordinator_epoch,
        transaction.client_version,
    )


def pause_ms(shard: TransactionShard, transactional_id: str) -> int:
    """Return how long to wait until a step of an end is tried again; longer each time."""
    doublings = min(shard.attempts[transactional_id], RETRY_DOUBLINGS)
    shard.attempts[transactional_id] += 1
    return RETRY_MS << doublings


def _prepared_of(ending: Ending, shard: TransactionShard) -> Transaction | None:
    """Return the transaction, None if it is over, or if the shard that sent the markers was unloaded since."""
    one = shard.transactions.get(ending.transactional_id)
    if one is None or one.state not in PREPARED or ending.transactional_id not in shard.ending:
        return None
    is_same = (one.producer_id, one.epoch, shard.coordinator_epoch) == (
        ending.producer_id,
        ending.epoch,
        ending.coordinator_epoch,
    )
    return one if is_same else None


def send_again(shard: TransactionShard, _now_ms: int, ending: Ending) -> CoordinatorResult:
    """Send later what some partitions could not take now."""
    if _prepared_of(ending, shard) is None:
        return CoordinatorResult()
    again = partial(_send, ending=ending)
    return CoordinatorResult(
        timers=[TimerChange(("end", ending.transactional_id), pause_ms(shard, ending.transactional_id), again)]
    )


def _send(shard: TransactionShard, _now_ms: int, ending: Ending) -> CoordinatorResult:
    transaction = _prepared_of(ending, shard)
    if transaction is None:
        return CoordinatorResult()
    # A partition that was removed meanwhile may be there again, as another one.
    ending = ending._replace(partitions=shard.gone.left_of(ending.partitions & transaction.partitions))
    return CoordinatorResult(parked_responses=[ParkedResponse(shard.settings.send, ending)])


def cancel(shard: TransactionShard, _now_ms: int, ending: Ending) -> CoordinatorResult:
    """Leave a transaction as it is, because a partition knows a later producer or coordinator: the next coordinator ends it."""
    if _prepared_of(ending, shard) is not None:
        shard.ending.discard(ending.transactional_id)
        del shard.attempts[ending.transactional_id]
    return CoordinatorResult()


def complete(shard: TransactionShard, now_ms: int, ending: Ending) -> CoordinatorResult:
    """Write that every partition has its marker."""
    transactional_id = ending.transactional_id
    transaction = _prepared_of(ending, shard)
    if transaction is None:
        return CoordinatorResult()
    shard.ending.discard(transactional_id)
    return CoordinatorResult(
        records=[write(shard, transactional_id, transaction.completed(now_ms))],
        on_durable=partial(_on_completed, shard, transactional_id),
    )


def _on_completed(
    shard: TransactionShard, transactional_id: str, code: ErrorCode, now_ms: int
) -> CoordinatorResult | Pausing[CoordinatorResult]:
    """Begin again with the markers if the record could not be written."""
    if code:
        return _on_prepared(shard, (transactional_id,), code, now_ms)
    del shard.attempts[transactional_id]
    return CoordinatorResult()


def time_up(shard: TransactionShard, _now_ms: int, transactional_id: str) -> CoordinatorResult:
    """Note a transaction that has been open too long; those that are due together are aborted in turns.

    The timer has measured that. The wall clock may have been set since the transaction began, so it is not asked again.
    """
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.state is not State.ONGOING:
        return CoordinatorResult()
    shard.due[transactional_id] = transaction.start_ms
    return CoordinatorResult(timers=[ABORT_DUE])


def timeout_timer(transactional_id: str, delay_ms: int | None) -> TimerChange:
    """Return the order to watch an open transaction, or to stop it when `delay_ms` is None."""
    operation = None if delay_ms is None else partial(time_up, transactional_id=transactional_id)
    return TimerChange(("timeout", transactional_id), delay_ms, operation)


@job("transactions that time out")
def abort_due(shard: TransactionShard, now_ms: int) -> CoordinatorResult:
    """Abort transactions whose time is up, and fence their producers."""
    result = CoordinatorResult(is_atomic=False)
    aborted = []
    for transactional_id, start_ms in tuple(islice(shard.due.items(), ABORTED_MAX)):
        del shard.due[transactional_id]
        transaction = shard.open_since(transactional_id, start_ms)
        if transaction is not None:
            aborted.append(transactional_id)
            logger.info(
                "Transaction of %s (producer %d, epoch %d) is aborted: it was open for more than its timeout of %d ms",
                transactional_id,
                transaction.producer_id,
                transaction.epoch,
                transaction.timeout_ms,
            )
            result.records.append(write(shard, transactional_id, transaction.fenced(now_ms)))
            # In case that the record cannot be written.
            result.timers.append(timeout_timer(transactional_id, pause_ms(shard, transactional_id)))
    if aborted:
        result.on_durable = after_prepared(shard, aborted)
    if shard.due:
        result.timers.append(ABORT_DUE)
    return result


ABORT_DUE: Final = TimerChange("abort", 1, abort_due, is_kept=True)
"""The order to abort what is due in the next turn."""
