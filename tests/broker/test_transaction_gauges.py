"""The metrics of transactions: those that are open, that end, the oldest, and partitions with one that no coordinator ends."""

from __future__ import annotations

from pathlib import Path

from pybroker.broker.gauges import LATE_MS, register_transactions
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.protocol.error_codes import ErrorCode
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer, broker
from tests.coordinator.transaction.test_refused_records import refusing

MAX_MS = 900_000


def numbers(metrics: BrokerMetrics) -> list[float]:
    return [one.read()[()] for one in metrics.readings]


def registered(whole: Whole, *, has_coordinator: bool = True) -> BrokerMetrics:
    metrics = BrokerMetrics()
    coordinator = whole.transactions if has_coordinator else None
    register_transactions(metrics, lambda: coordinator, whole.logs, whole.clock, timeout_ms_max=MAX_MS)
    return metrics


async def test_transactions_are_counted_by_what_they_do(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    metrics = registered(whole)
    assert numbers(metrics) == [0, 0, 0, 0]
    first, second = Producer(whole, 1, "first"), Producer(whole, 1, "second")
    await first.init()
    assert await first.add(0) == [ErrorCode.NONE]
    whole.clock.advance(2_000)
    await second.init()
    assert await second.add(1) == [ErrorCode.NONE]
    whole.clock.advance(1_000)
    assert numbers(metrics) == [2, 0, 3, 0]
    with refusing(whole, "t"):
        assert await first.end(commit=True) == ErrorCode.NONE
        assert numbers(metrics) == [1, 1, 3, 0]
    whole.pass_time(10_000)
    assert numbers(metrics)[:2] == [1, 0]


async def test_a_partition_whose_transaction_should_have_ended_is_late(tmp_path: Path) -> None:
    whole = await broker(tmp_path)
    producer = Producer(whole, 2)
    await producer.init()
    assert await producer.send(0, b"a") == ErrorCode.NONE
    metrics = registered(whole, has_coordinator=False)
    whole.clock.advance(MAX_MS + LATE_MS)
    assert numbers(metrics) == [0, 0, 0, 0]
    whole.clock.advance(1)
    assert numbers(metrics) == [0, 0, 0, 1]
