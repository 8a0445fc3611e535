"""Works on transactional ids without a client: it continues where the loaded log ends, and removes old ids.

The removal goes over the ids some at a time and lets others in between, because a shard may have a hundred thousand of them.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.runtime.result import CoordinatorResult, TimerChange
from pybroker.coordinator.transaction import forgetting
from pybroker.coordinator.transaction.ending import ABORT_DUE, after_prepared, timeout_timer
from pybroker.coordinator.transaction.records import tombstone
from pybroker.coordinator.transaction.state import PREPARED, State
from pybroker.sharing.turns.jobs import job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.coordinator.transaction.state import Transaction
    from pybroker.model import CoordinatorEpoch
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

IDS_MAX: Final = 1_000
"""The number of ids that a clean-up looks at in one turn."""
LOOK_MS: Final = 10_000
"""How often transactions that were open at the start are compared with the wall clock, which may have been wrong then."""
EXPIRED_MAX: Final = 100
"""The number of ids that are removed in one turn."""
SHARES: Final = 1_000
"""The shards begin to remove old ids this share of the interval apart, so that they do not all do it at once."""


def first_operation(
    shard: TransactionShard, now_ms: int, *, partition: int, epoch: CoordinatorEpoch
) -> Pausing[CoordinatorResult]:
    """Continue where the loaded log ends: send markers, watch open transactions, forget removed partitions, remove old ids."""
    shard.partition, shard.coordinator_epoch = partition, epoch
    result = CoordinatorResult()
    prepared: list[str] = []
    found_open: list[tuple[str, int]] = []
    for transactional_id, one in shard.transactions.items():
        if one.state is State.ONGOING:
            left_ms = one.start_ms + one.timeout_ms - now_ms  # more than the timeout: the clock was set back since the begin
            result.timers.append(timeout_timer(transactional_id, max(1, min(left_ms, one.timeout_ms))))
            found_open.append((transactional_id, one.start_ms))
        elif one.state in PREPARED:
            prepared.append(transactional_id)
        yield
    if prepared:
        result.response = True  # so that what follows waits until the records are durable
        result.on_durable = after_prepared(shard, prepared)
    result.timers += _look_later(found_open)
    if shard.gone:
        result.timers.append(forgetting.START)
    interval_ms = shard.settings.clean_up_interval_ms
    result.timers.append(TimerChange("clean up", interval_ms + partition * interval_ms // SHARES, clean_up, is_look=True))
    return result


def _look_later(found_open: list[tuple[str, int]]) -> list[TimerChange]:
    return [TimerChange("look", LOOK_MS, partial(_look, found_open=found_open))] if found_open else []


def _look(shard: TransactionShard, now_ms: int, found_open: list[tuple[str, int]]) -> Pausing[CoordinatorResult]:
    """Abort those that are due by the present wall clock, and look again later at those that are still open.

    Only the wall clock knows how long a transaction was open before the start. If the clock was behind then, the timer of the
    transaction runs for too long.
    """
    still_open: list[tuple[str, int]] = []
    for transactional_id, start_ms in found_open:
        one = shard.open_since(transactional_id, start_ms)
        if one is not None and start_ms + one.timeout_ms <= now_ms:
            shard.due[transactional_id] = start_ms
        elif one is not None:
            still_open.append((transactional_id, start_ms))
        yield
    result = CoordinatorResult(timers=_look_later(still_open))
    if shard.due:
        result.timers.append(ABORT_DUE)
    return result


@job("removal of old transactional ids")
def clean_up(shard: TransactionShard, now_ms: int, rest: Iterator[str] | None = None) -> CoordinatorResult:
    """Remove transactional ids that no producer has used for `transactional.id.expiration.ms`; `rest` are those to look at."""
    rest = iter(tuple(shard.transactions)) if rest is None else rest
    newest_ms = now_ms - shard.settings.id_expiration_ms
    result = CoordinatorResult(is_atomic=False)
    pause_ms, next_step = shard.settings.clean_up_interval_ms, clean_up
    for count, transactional_id in enumerate(rest, 1):
        one = shard.transactions.get(transactional_id)
        if one is not None and _is_old(one, newest_ms):
            result.records.append(tombstone(transactional_id))
            logger.info(
                "Transactional id %s is removed: no producer has used it for %d ms",
                transactional_id,
                now_ms - one.update_ms,
            )
        if count == IDS_MAX or len(result.records) == EXPIRED_MAX:
            pause_ms, next_step = 1, partial(clean_up, rest=rest)
            break
    result.timers.append(TimerChange("clean up", pause_ms, next_step, is_look=next_step is clean_up))
    return result


def _is_old(one: Transaction, newest_ms: int) -> bool:
    return one.update_ms <= newest_ms and one.state is not State.ONGOING and one.state not in PREPARED
