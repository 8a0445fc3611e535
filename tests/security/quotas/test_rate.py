"""Rates and throttle times are those of Kafka's formulas, computed by hand."""

from __future__ import annotations

import pytest

from pybroker.security.quotas.token_bucket import TokenBucket
from pybroker.security.quotas.usage import Rate

SECOND = 1000


def per_second(rate: Rate, now_ms: float) -> float:
    used, window_ms = rate.measured(now_ms)
    return used / window_ms * 1000


def test_a_first_use_is_averaged_over_all_windows_but_one() -> None:
    rate = Rate(samples=11, window_ms=SECOND)
    rate.record(10_000, now_ms=0)
    assert rate.measured(0) == (10_000, 10_000)
    assert rate.throttle_ms(1000, now_ms=0) == 0, "as much as the quota is not above it"
    rate.record(5000, now_ms=500)
    assert per_second(rate, 500) == pytest.approx(15_000 / 10.5)
    assert rate.throttle_ms(1000, now_ms=500) == round((15_000 / 10.5 - 1000) / 1000 * 10_500) == 4500


def test_a_use_is_forgotten_after_all_windows() -> None:
    rate = Rate(samples=11, window_ms=SECOND)
    rate.record(22_000, now_ms=0)
    assert per_second(rate, 10_999) == pytest.approx(22_000 / 10.999)
    assert per_second(rate, 11_000) == 0
    assert rate.throttle_ms(1, now_ms=11_000) == 0


def test_a_use_that_is_taken_back_leaves_nothing() -> None:
    rate = Rate(samples=11, window_ms=SECOND)
    rate.record(500, now_ms=0)
    rate.record(-500, now_ms=10)
    assert per_second(rate, 10) == 0


def test_a_producer_at_twice_its_quota_is_held_to_it() -> None:
    """Send 100 bytes every 50 ms, 2,000 a second, where 1,000 are allowed, and wait for the throttle times."""
    rate, now_ms, sent = Rate(samples=11, window_ms=SECOND), 0.0, 0
    throttled: list[int] = []
    while now_ms < 60_000:
        rate.record(100, now_ms=now_ms)
        sent += 100
        throttle_ms = rate.throttle_ms(1000, now_ms=now_ms)
        throttled.append(throttle_ms)
        now_ms += 50 + throttle_ms
    assert sent / (now_ms / 1000) == pytest.approx(1000, rel=0.25), "a first burst of ten seconds' worth is free"
    assert throttled[:100] == [0] * 100
    assert max(throttled) > 0
    before, start_ms = sent, now_ms
    while now_ms < start_ms + 60_000:
        rate.record(100, now_ms=now_ms)
        sent += 100
        now_ms += 50 + rate.throttle_ms(1000, now_ms=now_ms)
    assert (sent - before) / (now_ms - start_ms) == pytest.approx(1, rel=0.1)


def test_a_bucket_lets_a_burst_through_and_then_counts_what_is_owed() -> None:
    bucket = TokenBucket(2, samples=11, window_ms=SECOND, now_ms=0)
    bucket.take(22, now_ms=0)
    assert bucket.throttle_ms(0) == 0
    bucket.take(5, now_ms=0)
    assert bucket.throttle_ms(0) == 2500, "5 are missing, and 2 come in a second"
    assert bucket.throttle_ms(2000) == 500
    assert bucket.throttle_ms(2500) == 0
    bucket.take(22, now_ms=1_000_000)
    assert bucket.throttle_ms(1_000_000) == 0, "no more than its room flowed in meanwhile"
    bucket.take(1, now_ms=1_000_000)
    assert bucket.throttle_ms(1_000_000) == 500
