"""Sizes, spans and times as people write and read them."""

from __future__ import annotations

import pytest

from pybroker.terminal.numbers import duration, moment_ms, now_ms, shown_time, size, span_ms, time_ms, when_ms

MOMENT_MS = 1_795_248_000_000


@pytest.mark.parametrize(
    ("count", "text"), [(None, "-"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12 MB"), (3e15, "3000 TB")]
)
def test_sizes_are_short(count: float | None, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10m", 600_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("250ms", 250), ("1w", 604_800_000), ("", None), ("10", None)],
)
def test_spans_have_units(text: str, expected: int | None) -> None:
    assert span_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T08:00:00", MOMENT_MS),
        ("2026-11-21T08:00Z", MOMENT_MS),
        ("2026-11-21T09:00:00+01:00", MOMENT_MS),
        ("2026-11-21", MOMENT_MS - 8 * 3_600_000),
        (str(MOMENT_MS), MOMENT_MS),
        ("12", 12),
        ("-12", None),
        ("1969-12-31", None),
        (str(1 << 63), None),
        ("yesterday", None),
    ],
)
def test_moments_are_utc_unless_they_have_a_zone(text: str, expected: int | None) -> None:
    assert moment_ms(text) == expected


def test_a_time_is_a_moment_or_a_span_ago() -> None:
    assert 0 <= now_ms() - 600_000 - (when_ms("10m") or 0) < 60_000
    assert when_ms("2026-11-21T08:00:00") == MOMENT_MS
    assert when_ms("end") is None
    assert (time_ms("1000"), when_ms("1000")) == (1000, None), "where an offset may stand, a small number is one"
    assert when_ms(str(MOMENT_MS)) == MOMENT_MS


def test_times_and_durations_are_shown() -> None:
    assert shown_time(MOMENT_MS + 7) == "2026-11-21T08:00:00.007Z"
    assert shown_time(-1) == "-"
    assert [duration(seconds) for seconds in (42, 180, 9000)] == ["42 s", "3 min", "2.5 h"]
