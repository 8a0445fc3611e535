"""Pages are made one at a time, for all scrapes that wait, with rests in between and breaks inside."""

from __future__ import annotations

import asyncio
import threading
from itertools import count

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pybroker.metrics import pages
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.metrics.exporter import BrokerCollector
from pybroker.metrics.pages import Breaks, Pages, StoppedError


class Maker:
    """Makes pages that have numbers, each when the test lets it."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def __call__(self) -> bytes:
        self.begun.release()
        assert self.may_end.acquire(timeout=60)
        return b"%d" % next(self.numbers)


async def test_scrapes_that_wait_get_the_same_page_which_is_newer_than_they_are() -> None:
    maker = Maker()
    made = Pages(maker, Breaks())
    first = [asyncio.create_task(made.page()) for _ in range(3)]
    assert await asyncio.to_thread(maker.begun.acquire, timeout=60)
    later = [asyncio.create_task(made.page()) for _ in range(5)]
    maker.may_end.release()
    assert {(await one).plain for one in first} == {b"1"}
    maker.may_end.release()
    assert {(await one).plain for one in later} == {b"2"}, "a page that was begun before has numbers from before"
    made.stop()


async def test_a_page_begins_after_a_rest_as_long_as_the_last_one_took() -> None:
    maker = Maker()
    made = Pages(maker, Breaks())
    loop = asyncio.get_running_loop()
    times_s = []
    for _ in range(2):
        scrape = asyncio.create_task(made.page())
        assert await asyncio.to_thread(maker.begun.acquire, timeout=60)
        times_s.append(loop.time())
        await asyncio.sleep(0.1)
        maker.may_end.release()
        await scrape
    assert times_s[1] - times_s[0] >= 0.2
    made.stop()


async def test_a_scrape_that_leaves_takes_the_page_from_no_other() -> None:
    maker = Maker()
    made = Pages(maker, Breaks())
    leaving, staying = asyncio.create_task(made.page()), asyncio.create_task(made.page())
    assert await asyncio.to_thread(maker.begun.acquire, timeout=60)
    leaving.cancel()
    maker.may_end.release()
    assert (await staying).plain == b"1"
    made.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the breaks a clock that a test sets, and record how long they sleep in the entries after the first."""
    times = [0.0]
    monkeypatch.setattr(pages, "perf_counter", lambda: times[0])
    monkeypatch.setattr(pages, "sleep", times.append)
    return times


def test_a_thread_takes_a_break_whenever_it_has_run_for_long_enough(clock: list[float]) -> None:
    breaks = Breaks()
    for _ in range(20):
        breaks.take()
        clock[0] += pages.RUN_S / 4
    assert clock[1:] == [pages.PAUSE_S] * 4
    breaks.is_stopped = True
    with pytest.raises(StoppedError):
        breaks.take()


def test_a_thread_that_makes_a_page_may_take_a_break_before_each_line() -> None:
    metrics, registry = BrokerMetrics(), CollectorRegistry(auto_describe=False)
    for number in range(100):
        metrics.topic(str(number))
    taken: list[int] = []
    registry.register(BrokerCollector(metrics, take_break=lambda: taken.append(0)))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    assert len(lines) > 1_000
    assert len(taken) == len(lines)
