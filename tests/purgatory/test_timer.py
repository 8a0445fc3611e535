"""One wake-up for the earliest bucket, and only an earlier timer moves it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pybroker.clock import ManualClock
from pybroker.purgatory.timer import MOVED_AT_ONCE, OperationTimer, TimerTask
from pybroker.purgatory.timing_wheel import Timer, TimingWheel

if TYPE_CHECKING:
    import pytest


class Recorded(TimerTask):
    def __init__(self, expired_ms: list[int], clock: ManualClock) -> None:
        super().__init__()
        self.expired_ms = expired_ms
        self.clock = clock

    def expire(self) -> None:
        self.expired_ms.append(self.clock.monotonic_ms())


class Loop:
    """An event loop's timers on a manual clock, and a record of all that was asked of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[Handle] = []

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Handle:
        handle = Handle(when_ms, callback)
        self.asked.append(handle)
        return handle

    @property
    def pending(self) -> list[Handle]:
        return [handle for handle in self.asked if not handle.is_done]

    def run_until(self, end_ms: int) -> None:
        while due := [handle for handle in self.pending if handle.when_ms <= end_ms]:
            handle = min(due, key=lambda handle: handle.when_ms)
            self.clock.advance(max(0, handle.when_ms - self.clock.monotonic_ms()))
            handle.is_done = True
            handle.callback()
        self.clock.advance(end_ms - self.clock.monotonic_ms())


class Handle:
    def __init__(self, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback = callback
        self.is_done = False

    def cancel(self) -> None:
        self.is_done = True


@given(start_ms=st.integers(0, 10**9), added=st.lists(st.tuples(st.integers(0, 500), st.integers(-5, 100_000)), max_size=40))
def test_every_task_expires_exactly_at_its_millisecond_by_the_wake_ups_alone(start_ms: int, added: list[tuple[int, int]]) -> None:
    clock = ManualClock(start_ms)
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)
    expired_ms: list[int] = []
    expected_ms: list[int] = []
    for wait_ms, delay_ms in added:
        loop.run_until(clock.monotonic_ms() + wait_ms)
        timer.add(Recorded(expired_ms, clock), delay_ms)
        expected_ms.append(clock.monotonic_ms() + max(0, delay_ms))
        assert len(loop.pending) <= 1
    loop.run_until(clock.monotonic_ms() + 1_000_000)
    assert sorted(expired_ms) == sorted(expected_ms)
    assert timer.next_expiration_ms is None
    assert loop.pending == []


def test_only_an_earlier_task_moves_the_wake_up() -> None:
    clock = ManualClock(0)
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)
    for delay_ms in (15, 18, 16, 15):
        timer.add(Recorded([], clock), delay_ms)
    assert [handle.when_ms for handle in loop.asked] == [15]
    timer.add(Recorded([], clock), 7)
    assert [handle.when_ms for handle in loop.asked] == [15, 7]
    assert [handle.when_ms for handle in loop.pending] == [7]


def test_a_timer_that_stood_idle_places_a_task_by_the_present() -> None:
    clock = ManualClock(0)
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)
    clock.advance(1_000_000)
    timer.add(Recorded([], clock), 5)
    assert [handle.when_ms for handle in loop.asked] == [1_000_005]


def test_no_delay_expires_before_the_call_returns_however_long_the_wheel_stood() -> None:
    clock = ManualClock(0)
    timer = OperationTimer(clock, Loop(clock).call_at)
    expired_ms: list[int] = []
    timer.add(Recorded(expired_ms, clock), 5_000)
    clock.advance(1_000)
    timer.add(Recorded(expired_ms, clock), 0)
    timer.add(Recorded(expired_ms, clock), -3)
    assert expired_ms == [1_000, 1_000]


def test_a_task_that_adds_another_while_time_passes_loses_none() -> None:
    clock = ManualClock(0)
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)
    expired_ms: list[int] = []

    class Slow(Recorded):
        def expire(self) -> None:
            super().expire()
            clock.advance(50)
            timer.add(Recorded(expired_ms, clock), 100)

    timer.add(Slow(expired_ms, clock), 10)
    timer.add(Recorded(expired_ms, clock), 30)
    loop.run_until(1_000)
    assert expired_ms == [10, 60, 160]


def test_one_failing_task_does_not_keep_the_others_from_expiring(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(TimerTask):
        def expire(self) -> None:
            raise RuntimeError("a bug")

    clock = ManualClock(0)
    timer = OperationTimer(clock, Loop(clock).call_at)
    expired_ms: list[int] = []
    timer.add(Broken(), 5)
    timer.add(Recorded(expired_ms, clock), 5)
    clock.advance(5)
    with caplog.at_level(logging.ERROR):
        assert timer.advance() == 2
    assert expired_ms == [5]
    assert "a bug" in caplog.text


def test_a_closed_timer_wakes_no_more() -> None:
    clock = ManualClock(0)
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)
    timer.add(Recorded([], clock), 5)
    timer.close()
    assert loop.pending == []


def test_tasks_that_expire_together_give_the_loop_back_and_can_be_cancelled_between() -> None:
    clock, expired_ms = ManualClock(0), list[int]()
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at, slice_s=0.0)
    tasks = [Recorded(expired_ms, clock) for _ in range(10)]
    for task in tasks:
        timer.add(task, 50)
    clock.advance(50)
    counts = []
    for _ in range(3):
        (handle,) = loop.pending
        assert handle.when_ms <= 50, "at once"
        handle.is_done = True
        handle.callback()
        counts.append(len(expired_ms))
    assert counts == [1, 2, 3]
    assert tasks[5].is_pending
    assert tasks[5].cancel(), "its turn has not come"
    timer.add(tasks[5], 20)
    timer.add(Recorded(expired_ms, clock), 0)
    assert len(expired_ms) == 4, "at once"
    loop.run_until(100)
    assert expired_ms == [50] * 10 + [70]
    assert loop.pending == []


def test_tasks_that_are_left_for_the_next_turn_do_not_hold_back_a_later_one() -> None:
    clock, expired_ms = ManualClock(0), list[int]()
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at, slice_s=0.0)
    for delay_ms in (10, 10, 10, 30):
        timer.add(Recorded(expired_ms, clock), delay_ms)
    loop.run_until(100)
    assert expired_ms == [10, 10, 10, 30]


def test_very_many_tasks_in_one_coarse_bucket_are_moved_in_slices_and_expire_at_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, expired_ms, moved = ManualClock(0), list[int](), list[int]()
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at, slice_s=0.0)
    for number in range(3_000):
        timer.add(Recorded(expired_ms, clock), 160_000 + number % 7)
    add = TimingWheel.add

    def counted(wheel: TimingWheel, one: Timer, expiration_ms: int) -> bool:
        moved[-1] += 1
        return add(wheel, one, expiration_ms)

    monkeypatch.setattr(TimingWheel, "add", counted)
    while loop.pending:
        (handle,) = loop.pending
        clock.advance(max(0, handle.when_ms - clock.monotonic_ms()))
        handle.is_done = True
        moved.append(0)
        handle.callback()
        if len(moved) == 3:
            timer.add(Recorded(expired_ms, clock), 3)
    assert max(moved) <= MOVED_AT_ONCE
    assert sum(moved) >= 3_000
    assert expired_ms == sorted([*(160_000 + number % 7 for number in range(3_000)), 160_003])


def test_a_task_that_expires_and_adds_another_costs_none_that_expires_with_it() -> None:
    clock, expired_ms = ManualClock(0), list[int]()
    loop = Loop(clock)
    timer = OperationTimer(clock, loop.call_at)

    class Again(Recorded):
        def expire(self) -> None:
            super().expire()
            timer.add(Recorded(expired_ms, clock), 20)

    timer.add(Again(expired_ms, clock), 10)
    timer.add(Recorded(expired_ms, clock), 10)
    loop.run_until(100)
    assert expired_ms == [10, 10, 30]
    assert [handle.when_ms for handle in loop.asked] == [10, 20, 30]
