from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker.metrics.histogram import Histogram


@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_right_to_its_power_of_two(durations_ns: list[int], fraction: float) -> None:
    histogram = Histogram()
    for duration_ns in durations_ns:
        histogram.observe(duration_ns)
    exact = sorted(durations_ns)[max(0, -int(-fraction * len(durations_ns) // 1) - 1)]
    low, high = (1 << exact.bit_length()) >> 1, 1 << exact.bit_length()
    assert low <= histogram.quantile(fraction) <= high
    assert (histogram.count, histogram.sum) == (len(durations_ns), sum(durations_ns))


def test_without_durations_it_is_zero() -> None:
    assert Histogram().quantile(0.99) == 0


def test_within_a_power_of_two_it_is_interpolated() -> None:
    histogram = Histogram()
    for _ in range(4):
        histogram.observe(1024)
    assert [histogram.quantile(f) for f in (0.25, 0.5, 1.0)] == [1280, 1536, 2048]
