"""Reports the progress of long work, in a line on stderr every few seconds: rows, MB/s, what is left and for how long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO, final


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the work has come."""

    rows: int
    total: int | None = None
    """All rows of the work, if their number is known."""
    size: int | None = None
    """Bytes so far, if their number is known."""


def line(name: str, standing: Standing, *, seconds: float, rows_before: int = 0) -> str:
    """Return the line for a person. The work has lasted `seconds`; `rows_before` were there when it began."""
    done = standing.rows - rows_before
    rate = done / seconds if seconds > 0 else 0.0
    parts = [f"{standing.rows:,} rows", f"{rate:,.0f} rows/s"]
    if standing.size is not None and seconds > 0:
        parts.append(f"{standing.size / seconds / 1e6:,.1f} MB/s")
    if standing.total is not None:
        left = max(0, standing.total - standing.rows)
        parts.append(f"lag {left:,}")
        if left and rate:
            parts.append(f"about {duration(left / rate)} left")
    return f"{name}: {', '.join(parts)}"


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
        interval_s: float = 5.0,
        out: TextIO | None = None,
    ) -> None:
        self._name, self._look, self._before, self._interval_s = name, look, rows_before, interval_s
        self._out = out if out is not None else sys.stderr
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
        while not self._over.wait(self._interval_s):
            try:
                standing = self._look()
            except Exception:  # noqa: S112 (the work itself meets the error and reports it)
                continue
            print(
                line(self._name, standing, seconds=time.monotonic() - began, rows_before=self._before), file=self._out, flush=True
            )
