"""Many transactions that time out together, and one over many partitions: how long the turns of the loop are while they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.transaction import ending
from pybroker.coordinator.transaction.shard import TransactionShard
from pybroker.coordinator.transaction.state import State, Transaction
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import Whole
from testing.turns import LIMIT_MS, Turns, run_watched
from testing.waiting import turned_until
from tests.api.transactions import Producer, broker

SLICES_MIN = 3  # of 5 ms; the markers of 600 partitions take 30 ms and more
PARTITION = TopicPartition("t", 0)


def open_transactions(numbers: range, now_ms: int) -> Callable[[TransactionShard, int], CoordinatorResult]:
    """Return the operation that writes open transactions, which have one second left."""

    def operation(shard: TransactionShard, _now_ms: int) -> CoordinatorResult:
        states = [
            (
                f"t-{one}",
                Transaction(ProducerId(one), ProducerEpoch(0), 1_000, State.ONGOING, frozenset({PARTITION}), now_ms),
            )
            for one in numbers
        ]
        return CoordinatorResult(
            records=[ending.write(shard, tid, one) for tid, one in states],
            is_atomic=False,
            timers=[ending.timeout_timer(tid, 1_000) for tid, _ in states],
        )

    return operation


def use_loop(whole: Whole) -> list[None]:
    """Let the timer and the markers of the broker use the turns of the running loop.

    Returns a list that grows with each turn for which the markers ask.
    """
    loop = asyncio.get_running_loop()
    slices: list[None] = []

    def call_soon(work: Callable[[], None]) -> None:
        slices.append(None)
        loop.call_soon(work)

    whole.timer.slice_s = 0.005
    whole.timer._call_at = lambda _at_ms, work: loop.call_soon(work)
    whole.transactions.markers._mailbox._call_soon = call_soon
    return slices


def timed_out(folder: Path, count: int, *, limit_ms: float = LIMIT_MS) -> Turns:
    """Let transactions time out together. Raises AssertionError unless each is aborted and has its marker."""

    async def begin() -> Whole:
        whole = await broker(folder, transaction_state_log_num_partitions=1)
        operation = open_transactions(range(count), whole.clock.time_ms())
        whole.transactions.runtime.write(0, operation, lambda _: None)
        return whole

    whole = asyncio.run(begin())

    async def end() -> None:
        use_loop(whole)
        for _ in range(3):  # the wake-up, and the timers that it sets
            whole.clock.advance(1_000)
            whole.timer._woken()
            await turned_until(lambda: not whole.timer._wheel.is_due(whole.clock.monotonic_ms()), "the timers that are due")
        for _ in range(count // ending.ABORTED_MAX + 1):
            whole.clock.advance(2)
            whole.timer._woken()
            await asyncio.sleep(0)
        await turned_until(lambda: not whole.transactions.markers._mailbox.is_busy, "the markers")

    turns = run_watched(end, limit_ms=limit_ms)
    (shard,) = whole.transactions.runtime.shards
    assert sum(one.state is State.COMPLETE_ABORT for one in shard.transactions.values()) == count
    assert whole.replicas.partition_or_raise(PARTITION).log.log_end_offset == count
    return turns


def over_partitions(folder: Path, count: int, *, limit_ms: float = LIMIT_MS) -> Turns:
    """Commit a transaction over partitions. Raises AssertionError unless it is complete and each partition has its marker."""

    async def begin() -> tuple[Whole, Producer]:
        whole = await broker(folder, transaction_state_log_num_partitions=1)
        await whole.create("many", count)
        producer = Producer(whole, 1)
        await producer.init()
        assert set(await producer.add(*range(count), topic="many")) == {ErrorCode.NONE}
        return whole, producer

    whole, producer = asyncio.run(begin())

    async def end() -> Any:
        slices = use_loop(whole)
        assert await producer.end(commit=True) == ErrorCode.NONE
        await turned_until(lambda: not whole.transactions.markers._mailbox.is_busy, "the markers")
        assert len(slices) >= SLICES_MIN

    turns = run_watched(end, limit_ms=limit_ms)
    (shard,) = whole.transactions.runtime.shards
    assert shard.transactions["t-1"].state is State.COMPLETE_COMMIT
    ends = {whole.replicas.partition_or_raise(TopicPartition("many", one)).log.log_end_offset for one in range(count)}
    assert ends == {1}
    return turns
