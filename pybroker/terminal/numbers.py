"""Numbers, sizes and times as people write and read them."""

from __future__ import annotations

import datetime as dt
import re
import time
from typing import Final

UNITS: Final = ("B", "kB", "MB", "GB", "TB")
SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
SPANS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
MILLISECONDS_FROM: Final = 100_000_000_000
"""A time as a number: from here on in ms, which is in 1973; a smaller number is not a time."""


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
    """Return the ms since 1970 of a date, of a date and a time, in UTC unless it has a zone, or of a number; None for another."""
    if text.isascii() and text.isdecimal():
        return int(text) if int(text) >= MILLISECONDS_FROM else None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def now_ms() -> int:
    """Return the time, in ms since 1970."""
    return time.time_ns() // 1_000_000


def when_ms(text: str) -> int | None:
    """Return the time of `10m`, that long ago, or of a moment; None when the text is neither."""
    ago = span_ms(text)
    return moment_ms(text) if ago is None else now_ms() - ago


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
