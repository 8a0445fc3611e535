"""The wheel against the simplest thing that could be right: a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker.purgatory.timing_wheel import BUCKETS, Timer, TimingWheel

FAR_MS = BUCKETS**4  # reaches the fourth wheel


@given(
    start_ms=st.integers(0, FAR_MS),
    delays_ms=st.lists(st.integers(0, FAR_MS), max_size=60),
    steps_ms=st.lists(st.integers(0, FAR_MS // 10), max_size=30),
    cancelled=st.sets(st.integers(0, 59)),
)
def test_every_timer_expires_once_at_its_tick_unless_cancelled(
    start_ms: int, delays_ms: list[int], steps_ms: list[int], cancelled: set[int]
) -> None:
    wheel, now_ms = TimingWheel(start_ms), start_ms
    timers = [Timer() for _ in delays_ms]
    expired = [t for t, d in zip(timers, delays_ms, strict=True) if not wheel.add(t, start_ms + d)]
    dropped = [t for i, t in enumerate(timers) if i in cancelled and t.cancel()]
    for step_ms in [*steps_ms, FAR_MS * 2]:
        now_ms += step_ms
        for timer in wheel.advance(now_ms):
            assert now_ms - step_ms < timer.expiration_ms <= now_ms, "neither early nor a step late"
            expired.append(timer)
    assert wheel.next_expiration_ms is None
    assert not any(t.is_pending for t in timers)
    assert len(expired) + len(dropped) == len(timers)
    assert {*map(id, expired)}.isdisjoint(map(id, dropped))


def test_an_idle_wheel_has_nothing_to_wait_for_and_a_busy_one_is_never_late() -> None:
    wheel = TimingWheel(0)
    assert wheel.next_expiration_ms is None
    assert wheel.add(Timer(), 45)
    assert wheel.next_expiration_ms == 40  # the coarse bucket [40, 60)
    assert wheel.advance(40) == []
    assert wheel.next_expiration_ms == 45
    assert len(wheel.advance(45)) == 1


@given(
    delays_ms=st.lists(st.integers(1, FAR_MS), max_size=60),
    steps=st.lists(st.tuples(st.integers(0, FAR_MS // 10), st.integers(1, 5)), max_size=40),
    cancelled=st.lists(st.integers(0, 99), max_size=40),
    added_ms=st.lists(st.integers(1, FAR_MS), max_size=40),
)
def test_a_bucket_that_is_half_moved_loses_no_timer(
    delays_ms: list[int], steps: list[tuple[int, int]], cancelled: list[int], added_ms: list[int]
) -> None:
    wheel, now_ms = TimingWheel(0), 0
    timers = [Timer() for _ in delays_ms]
    for timer, delay_ms in zip(timers, delays_ms, strict=True):
        assert wheel.add(timer, delay_ms)
    pending = set(timers)

    def expire() -> None:
        while (timer := wheel.next_expired()) is not None:
            assert timer.expiration_ms <= now_ms, "not early"
            pending.remove(timer)  # once, and not if it was cancelled

    for step_ms, most in [*steps, (FAR_MS * 2, 5)]:
        now_ms += step_ms
        while not wheel.collect(now_ms, most=most):
            if cancelled and timers:
                timer = timers[cancelled.pop() % len(timers)]
                assert timer.cancel() == (timer in pending)
                pending.discard(timer)
            if added_ms:
                timers.append(Timer())
                assert wheel.add(timers[-1], now_ms + added_ms.pop())
                pending.add(timers[-1])
            if most % 2:
                expire()
        expire()
        assert all(timer.expiration_ms > now_ms for timer in pending), "not late"
        assert all(timer.is_pending for timer in pending)
        assert not wheel.is_due(now_ms)
    assert all(timer.expiration_ms > now_ms for timer in pending)
    assert set(wheel.advance(now_ms + FAR_MS)) == pending
    assert wheel.next_expiration_ms is None


def test_no_step_moves_more_timers_of_a_coarse_bucket_than_it_may() -> None:
    wheel = TimingWheel(0)
    timers = [Timer() for _ in range(1_000)]
    for number, timer in enumerate(timers):
        assert wheel.add(timer, 8_000 + number)
    assert wheel.next_expiration_ms == 8_000
    assert not wheel.collect(8_000, most=100)
    assert wheel.next_expiration_ms == 8_000, "there is more to do at once"
    assert timers[-1].cancel()
    assert not wheel.add(Timer(), 8_000)
    assert wheel.add(timers[-1], 8_001), "the bucket that is half moved is the present"
    assert [wheel.collect(8_000, most=100) for _ in range(10)] == [False] * 9 + [True]
    assert wheel.next_expired() is timers[0]
    assert not wheel.has_expired
    assert wheel.advance(8_001) == [timers[1], timers[-1]]
    assert set(wheel.advance(9_000)) == {*timers[2:-1]}
