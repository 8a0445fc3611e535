"""Numbers, sizes and times as people write and read them."""

from __future__ import annotations

import datetime as dt
import re
import time
from typing import Final

UNITS: Final = ("B", "kB", "MB", "GB", "TB")
SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
SPANS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
TIME_MS_MAX: Final = (1 << 63) - 1
MILLISECONDS_FROM: Final = 100_000_000_000
"""Where a number may be a time or an offset, it is a time from here on, which is in 1973, in ms."""


def counted(count: int, noun: str) -> str:
    """Return a number of things: 1 record, 2,000 records."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: float | None) -> str:
    """Format a number of bytes: 999 B, 1.2 kB, 45 MB."""
    if count is None:
        return "-"
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 or count >= 10 else f"{count:.1f} {UNITS[unit]}"


def span_ms(text: str) -> int | None:
    """Return the ms of a span such as 10m or 1h30m; None when the text is no span."""
    if not text or SPAN.sub("", text):
        return None
    return round(sum(float(number) * SPANS_MS[unit] for number, unit in SPAN.findall(text)))


def moment_ms(text: str) -> int | None:
    """Return the ms since 1970 of a date, of a date and a time, in UTC unless it has a zone, or of a number; None for another.

    A time before 1970 is none: the protocol has other meanings for negative numbers.
    """
    if text.isascii() and text.isdecimal():
        at_ms = int(text)
    else:
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            return None
        at_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)
    return at_ms if 0 <= at_ms <= TIME_MS_MAX else None


def now_ms() -> int:
    """Return the time, in ms since 1970."""
    return time.time_ns() // 1_000_000


def time_ms(text: str) -> int | None:
    """Return the time of `10m`, that long ago, or of a moment; None when the text is neither."""
    ago = span_ms(text)
    return moment_ms(text) if ago is None else max(0, now_ms() - ago)


def when_ms(text: str) -> int | None:
    """Return a time as `time_ms` does, where a small number is an offset and no time."""
    at_ms = time_ms(text)
    return None if text.isdecimal() and (at_ms or 0) < MILLISECONDS_FROM else at_ms


def shown_time(at_ms: int) -> str:
    """Format a time in UTC, as 2026-11-21T08:00:00.000Z; `-` when there is none."""
    if at_ms < 0:
        return "-"
    moment = dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def duration(seconds: float) -> str:
    """Format a duration: 42 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
