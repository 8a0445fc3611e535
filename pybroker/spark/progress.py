"""Reports the progress of long work on stderr: how long it will last, records, MB/s, what is left.

A terminal shows a bar, which changes twice in a second; a file gets a line every few seconds. The time that is left is estimated
by the pace of the last minute: the pace of the whole would be wrong after a slow start, or a wait for a cluster that went away.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO, final

_REDRAW_S: Final = 0.5
_WINDOW_S: Final = 60.0
_LOOK_SHARE: Final = 10
"""How many times as long as a look, which may ask brokers for each partition, the next pause is at least."""
_CLEAR: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the work has come."""

    rows: int
    total: int | None = None
    """All rows of the work, if their number is known."""
    size: int | None = None
    """Bytes so far, if their number is known."""


def line(
    name: str, standing: Standing, *, seconds: float, rows_before: int = 0, pace: float | None = None, width: int | None = None
) -> str:
    """Return the line for a person. The work has lasted `seconds`; `rows_before` were there when it began.

    `pace` is the latest one, in rows per second; without it, what is left is estimated by that of the whole work. What a person
    looks for first stands first, and the line leaves out at its end what does not fit in `width` characters.
    """
    done = standing.rows - rows_before
    rate = done / seconds if seconds > 0 else 0.0
    left = None if standing.total is None else max(0, standing.total - standing.rows)
    parts = [f"about {duration(left / (pace or rate))} left"] if left and (pace or rate) else []
    parts += [f"{standing.rows:,} records", f"{rate:,.0f} records/s"]
    if standing.size is not None and seconds > 0:
        parts.append(f"{standing.size / seconds / 1e6:,.1f} MB/s")
    if left is not None:
        parts.append(f"lag {left:,}")
    while width is not None and len(parts) > 1 and len(f"{name}: {', '.join(parts)}") > width:
        parts.pop()
    return f"{name}: {', '.join(parts)}"


def bar(standing: Standing, width: int = 10) -> str:
    """Return a bar of how much is done; empty when the whole is not known."""
    if not standing.total:
        return ""
    done = min(1.0, standing.rows / standing.total)
    return f"[{'#' * int(done * width):<{width}}] {done:4.0%} "


def duration(seconds: float) -> str:
    """Return a duration as people write it: 42 s, 3 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@final
class Progress:
    """A printer of progress while a block runs: `with Progress("replay", look):`. It prints no line when `look` fails."""

    def __init__(
        self,
        name: str,
        look: Callable[[], Standing],
        *,
        rows_before: int = 0,
        interval_s: float = 10.0,
        out: TextIO | None = None,
    ) -> None:
        self._name, self._look, self._before, self._interval_s = name, look, rows_before, interval_s
        self._out = out if out is not None else sys.stderr
        self._is_terminal = self._out.isatty()
        self._paces: deque[tuple[float, int]] = deque()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        wait_s = interval_s = _REDRAW_S if self._is_terminal else self._interval_s
        while not self._over.wait(wait_s):
            looked_at = time.monotonic()
            try:
                standing = self._look()
            except Exception:  # noqa: S112 (the work itself meets the error and reports it)
                continue
            now = time.monotonic()
            wait_s = max(interval_s, _LOOK_SHARE * (now - looked_at))
            drawn = bar(standing) if self._is_terminal else ""
            width = shutil.get_terminal_size().columns - 1 - len(drawn) if self._is_terminal else None
            pace = self._pace(now, rows=standing.rows)
            text = line(self._name, standing, seconds=now - began, rows_before=self._before, pace=pace, width=width)
            if self._is_terminal:
                self._out.write(_CLEAR + drawn + text)
                self._out.flush()
            else:
                print(text, file=self._out, flush=True)
        if self._is_terminal:
            self._out.write(_CLEAR)
            self._out.flush()

    def _pace(self, now: float, *, rows: int) -> float | None:
        """Return the rows per second of the last minute; None when there is no earlier look."""
        self._paces.append((now, rows))
        while now - self._paces[0][0] > _WINDOW_S and len(self._paces) > 2:
            self._paces.popleft()
        then, before = self._paces[0]
        return (rows - before) / (now - then) if now > then else None
