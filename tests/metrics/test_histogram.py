from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.metrics.histogram import Histogram

TWINS = ["_counts_native", "_counts_python"] if find_spec("pybroker.metrics._counts_native") is not None else ["_counts_python"]


@pytest.mark.parametrize("twin", TWINS)
@settings(deadline=None)
@given(parts=st.lists(st.tuples(*[st.integers(0, 2**50)] * 4), max_size=20))
def test_the_parts_of_requests_and_their_sums_are_counted(twin: str, parts: list[tuple[int, int, int, int]]) -> None:
    module = import_module(f"pybroker.metrics.{twin}")
    counts = [module.Counts() for _ in range(5)]
    for one in parts:
        module.observe_request(*counts, *one)
    for number, of_part in enumerate(counts):
        durations_ns = [sum(one) if number == 4 else one[number] for one in parts]
        assert of_part.sum == sum(durations_ns)
        assert of_part.buckets == [sum(duration.bit_length() == bits for duration in durations_ns) for bits in range(64)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**55), min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
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
