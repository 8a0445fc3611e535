"""Many transactions that end together, and one over many partitions, give the loop back while they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pybroker.coordinator.runtime.appender import BATCH_BYTES
from pybroker.coordinator.runtime.result import CoordinatorResult
from pybroker.coordinator.transaction import ending, markers
from pybroker.coordinator.transaction.shard import TransactionShard
from pybroker.coordinator.transaction.state import State, Transaction
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import Whole
from testing.turns import run_watched
from tests.api.transactions import Producer, broker

TRANSACTIONS = 2_000
PARTITIONS = 600
LIMIT_MS = 250  # a disk that others use may hold up a single write
SLICES_MIN = 3  # of 5 ms; all markers together take 30 ms and more
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
    whole.transactions.markers._call_soon = call_soon
    return slices


async def until(is_done: Callable[[], bool]) -> None:
    """Give the loop its turns until something has happened."""
    for _ in range(100_000):
        if is_done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not happen")


@pytest.mark.judges_time
def test_transactions_that_time_out_together_end_in_slices(tmp_path: Path) -> None:
    async def begin() -> Whole:
        whole = await broker(tmp_path, transaction_state_log_num_partitions=1)
        operation = open_transactions(range(TRANSACTIONS), whole.clock.time_ms())
        whole.transactions.runtime.write(0, operation, lambda _: None)
        return whole

    whole = asyncio.run(begin())

    async def end() -> tuple[int, int]:
        use_loop(whole)
        for _ in range(3):  # the wake-up, and the timers that it sets
            whole.clock.advance(1_000)
            whole.timer._woken()
            await until(lambda: not whole.timer._wheel.has_expired)
        for _ in range(TRANSACTIONS // ending.ABORTED_MAX + 1):
            whole.clock.advance(2)
            whole.timer._woken()
            await asyncio.sleep(0)
        await until(lambda: not whole.transactions.markers._queue)
        (shard,) = whole.transactions.runtime.shards
        ended = sum(one.state is State.COMPLETE_ABORT for one in shard.transactions.values())
        return ended, whole.replicas.partition_or_raise(PARTITION).log.log_end_offset

    turns = run_watched(end, limit_ms=LIMIT_MS)
    assert turns.result == (TRANSACTIONS, TRANSACTIONS)
    assert turns.long_texts() == []


@pytest.mark.judges_time
def test_a_transaction_over_many_partitions_ends_in_slices(tmp_path: Path) -> None:
    async def begin() -> tuple[Whole, Producer]:
        whole = await broker(tmp_path, transaction_state_log_num_partitions=1)
        await whole.create("many", PARTITIONS)
        producer = Producer(whole, 1)
        await producer.init()
        assert set(await producer.add(*range(PARTITIONS), topic="many")) == {ErrorCode.NONE}
        return whole, producer

    whole, producer = asyncio.run(begin())

    async def end() -> Any:
        slices = use_loop(whole)
        assert await producer.end(commit=True) == ErrorCode.NONE
        await until(lambda: not whole.transactions.markers._queue)
        assert len(slices) >= SLICES_MIN
        (shard,) = whole.transactions.runtime.shards
        ends = {whole.replicas.partition_or_raise(TopicPartition("many", one)).log.log_end_offset for one in range(PARTITIONS)}
        return shard.transactions["t-1"].state, ends

    turns = run_watched(end, limit_ms=LIMIT_MS)
    assert turns.result == (State.COMPLETE_COMMIT, {1})
    assert turns.long_texts() == []


async def test_a_failure_at_one_transaction_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = await broker(tmp_path)
    first, second = Producer(whole, 2, "first"), Producer(whole, 2, "second")
    for producer in (first, second):
        assert await producer.init() == ErrorCode.NONE
        assert await producer.send(0, b"a") == ErrorCode.NONE
    with mock.patch.object(markers, "build_transaction_marker", side_effect=ZeroDivisionError):
        assert await first.end(commit=True) == ErrorCode.NONE
    assert "Markers cannot be written" in caplog.text
    assert await second.end(commit=True) == ErrorCode.NONE
    assert await second.init() == ErrorCode.NONE
    whole.serve()
    assert await first.init() == ErrorCode.NONE


async def test_an_error_of_the_store_is_the_response_to_the_request_that_needs_an_id(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    with mock.patch.object(type(whole.controller.producer_ids), "next", side_effect=OSError("the store")):
        assert await asyncio.wait_for(Producer(whole).init(), 10) == ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_large_record_has_a_batch_of_its_own(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    shard = next(whole.transactions.runtime.shards)
    many = Transaction(ProducerId(1), ProducerEpoch(0), 1_000, State.ONGOING, frozenset(TopicPartition("t", n) for n in range(5)))
    large = many._replace(partitions=frozenset(TopicPartition(f"{n:0200}", 0) for n in range(3_000)))
    records = [ending.write(shard, "t", one) for one in (*[many] * 3_000, large, many)]
    batches = whole.transactions.runtime._appender.batches(records, is_atomic=False)
    sizes = [sum(map(len, ends)) for _, ends in batches]
    assert [record for some, _ in batches for record in some] == records
    assert [size > BATCH_BYTES for size in sizes] == [False, True, False]


async def test_a_transaction_that_began_after_another_was_due_is_not_aborted(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    shard = next(whole.transactions.runtime.shards)
    now_ms = whole.clock.time_ms()
    shard.transactions["t-1"] = Transaction(ProducerId(1), ProducerEpoch(0), 1_000, State.ONGOING, start_ms=now_ms)
    shard.due = ["t-1"]
    assert not ending.abort_due(shard, now_ms + 999).records
    shard.due = ["t-1"]
    assert len(ending.abort_due(shard, now_ms + 1_000).records) == 1
