"""A test moves the time of its broker: each part meets its deadlines in their order, each at its own time."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from pybroker.network.context import ConnectionContext
from pybroker.purgatory.timer import TimerTask
from pybroker.testing import Broker, RealClockError
from pybroker.times.clock import duration_ms
from pybroker.times.held import held
from pybroker.times.lanes import LOGS, LOOKS_MAX, PARTS, Lanes
from pybroker.times.times import GROUPS, REQUESTS, TRANSACTIONS
from pybroker.times.virtual_times import VirtualTimes
from testing.waiting import WAIT_S

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("7d", 7 * DAY_MS), ("90m", 5_400_000), ("1h 30m", 5_400_000), ("30s", 30_000), ("500ms", 500), ("0s", 0)],
)
def test_a_duration_has_units(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize("wrong", ["7", "", "d", "-1d", "7 weeks", "1.5h", timedelta(seconds=-1), -1, 7, None])
def test_a_duration_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"duration|negative"):
        duration_ms(wrong)


def test_a_timedelta_is_a_duration() -> None:
    assert duration_ms(timedelta(days=7, milliseconds=1)) == 7 * DAY_MS + 1


async def test_deadlines_of_all_parts_come_in_their_order_each_at_its_time() -> None:
    lanes, seen = Lanes(), list[tuple[str, int]]()
    began = {part: lanes[part].monotonic_ms() for part in PARTS}

    def note(part: str) -> None:
        seen.append((part, lanes[part].monotonic_ms() - at[part]))

    at = {GROUPS: began[GROUPS] + 45_000, TRANSACTIONS: began[TRANSACTIONS] + 60_000, REQUESTS: began[REQUESTS] + 44_999}
    for part, when_ms in at.items():
        lanes[part].call_at(when_ms, lambda part=part: note(part))  # type: ignore[misc]
    lanes.settle = lambda: asyncio.sleep(0)
    await lanes.advance(DAY_MS, PARTS)
    assert seen == [(REQUESTS, 0), (GROUPS, 0), (TRANSACTIONS, 0)]
    lanes.close()


async def test_a_call_that_fails_costs_no_other_its_time(caplog: pytest.LogCaptureFixture) -> None:
    lanes, seen = Lanes(), []
    for work in (lambda: 1 // 0, lambda: seen.append("second")):
        lanes[LOGS].call_later(1.0, work)
    lanes.settle = lambda: asyncio.sleep(0)
    await lanes.advance(1_000, [LOGS])
    assert seen == ["second"]
    assert "ZeroDivisionError" in caplog.text
    lanes.close()


async def test_a_part_looks_at_most_some_times_in_an_advance_and_at_its_end() -> None:
    lanes, looks = Lanes(), list[int]()
    began_ms, lane = lanes[LOGS].monotonic_ms(), lanes[LOGS]

    def look() -> None:
        looks.append(lane.monotonic_ms() - began_ms)
        lane.call_later(1.0, look)

    look()
    lanes.settle = lambda: asyncio.sleep(0)
    await lanes.advance(7 * DAY_MS, [LOGS])
    assert LOOKS_MAX <= len(looks) <= LOOKS_MAX + 4
    assert looks == sorted(looks)
    assert looks[-1] >= 7 * DAY_MS
    lanes.close()


@pytest.mark.judges_time
async def test_an_advance_costs_what_is_due_and_not_a_look_of_each_partition_in_each_interval() -> None:
    settings = {"offsets.topic.num.partitions": 50, "transaction.state.log.num.partitions": 50}
    async with Broker(settings, virtual_time=True) as broker:
        await broker.groups()  # which makes the topics of the coordinators
        began_s = time.process_time()
        await broker.clock.advance("8d")
        assert time.process_time() - began_s < 1


async def test_looks_at_an_interval_are_fewer_in_a_long_advance_alone_and_come_when_they_always_would() -> None:
    class Look(TimerTask):
        __slots__ = ()
        is_look = True

        def expire(self) -> None:
            times_ms.append(lane.monotonic_ms() - began_ms)
            timer.add(self, 600_000)

    lanes, times_ms = Lanes(), list[int]()
    lane = lanes[GROUPS]
    _, timer = VirtualTimes(lanes).of(GROUPS)
    began_ms, lanes.settle = lane.monotonic_ms(), lambda: asyncio.sleep(0)
    timer.add(Look(), 600_000)
    await lanes.advance(59 * 60_000, [GROUPS])
    assert [one // 60_000 for one in times_ms] == [10, 20, 30, 40, 50]
    times_ms.clear()
    await lanes.advance(DAY_MS, [GROUPS])
    assert LOOKS_MAX <= len(times_ms) <= LOOKS_MAX + 30
    assert {one // 60_000 % 10 for one in times_ms} == {0}
    assert times_ms[-1] // 60_000 == 24 * 60 + 50, "the last one before the end"
    lanes.close()


async def test_a_request_in_an_advance_is_handled_at_its_end() -> None:
    lanes, context = Lanes(), ConnectionContext(connection_id=1)
    lane, handled = lanes[GROUPS], list[tuple[bytes, int]]()

    def handler(_connection: ConnectionContext, frame: memoryview) -> bytes:
        handled.append((bytes(frame), lane.monotonic_ms() - began_ms))
        return b"response"

    handle, waiting = held(handler, lanes), list[Any]()
    began_ms, lanes.settle = lane.monotonic_ms(), lambda: asyncio.sleep(0)
    assert handle(context, memoryview(bytearray(b"before"))) == b"response"
    lane.call_at(began_ms + 30_000, lambda: waiting.append(handle(context, memoryview(bytearray(b"meanwhile")))))
    await lanes.advance(60_000, PARTS)
    assert await waiting[0] == b"response"
    (_, before_ms), (frame, meanwhile_ms) = handled
    assert before_ms < 30_000
    assert (frame, meanwhile_ms >= 60_000) == (b"meanwhile", True)
    lanes.close()


async def test_without_an_advance_the_time_is_that_of_the_machine() -> None:
    lanes, made = Lanes(), asyncio.Event()
    lanes[LOGS].call_later(0.01, made.set)
    lanes[LOGS].call_later(0.01, lambda: pytest.fail("it was cancelled")).cancel()
    async with asyncio.timeout(WAIT_S):
        await made.wait()
    lanes.close()


async def test_a_broker_on_the_real_clock_refuses() -> None:
    broker = Broker()
    with pytest.raises(RealClockError, match="virtual_time=True"):
        await broker.clock.advance("7d")


@pytest.mark.parametrize("only", [["sessions"], [], "logs"])
async def test_a_part_that_is_none_is_refused(only: list[str]) -> None:
    with pytest.raises(ValueError, match="logs, groups, transactions, requests"):
        await Broker(virtual_time=True).clock.advance("7d", only=only)


async def test_retention_deletes_what_is_older() -> None:
    async with Broker(virtual_time=True) as broker:
        await broker.create_topic("orders", settings={"retention.ms": 7 * DAY_MS})
        await broker.produce("orders", b"old")
        await broker.clock.advance("6d")
        assert [record.value for record in await broker.consume("orders")] == [b"old"]
        await broker.produce("orders", b"new", timestamp_ms=broker.clock.time_ms())
        await broker.clock.advance("1d")
        assert [record.value for record in await broker.consume("orders")] == [b"new"]
        await broker.clock.advance(timedelta(days=6))
        assert await broker.consume("orders") == []


async def test_compaction_waits_for_its_lag_and_keeps_tombstones_for_their_time() -> None:
    settings: dict[str, str | int | float | bool] = {
        "cleanup.policy": "compact", "min.compaction.lag.ms": DAY_MS, "delete.retention.ms": DAY_MS,
        "segment.ms": HOUR_MS, "min.cleanable.dirty.ratio": 0.01,
    }  # fmt: skip
    async with Broker(virtual_time=True) as broker:
        await broker.create_topic("orders", settings=settings)
        for value in (b"1", b"2", None):
            await broker.produce("orders", value, key="a")
        await broker.clock.advance("2h")
        await broker.produce("orders", b"3", key="b", timestamp_ms=broker.clock.time_ms())  # in the next segment
        await broker.clock.advance("20h")
        assert [record.value for record in await broker.consume("orders")] == [b"1", b"2", None, b"3"]
        await broker.clock.advance("4h")
        assert [record.value for record in await broker.consume("orders")] == [None, b"3"]
        await broker.clock.advance("30h")
        await broker.produce("orders", b"4", key="b", timestamp_ms=broker.clock.time_ms())
        await broker.clock.advance("30h")
        assert [record.value for record in await broker.consume("orders")] == [b"3", b"4"]
