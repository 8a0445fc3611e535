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
