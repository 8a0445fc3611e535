"""How slow this machine is now, by a piece of work that is always the same.

A bound in CPU time belongs to a quiet machine. Where others share the caches and the host, the same work takes several times of
it, for minutes. A limit that is multiplied by `slowness` is a ratio within one run, and so means the same on every machine.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

QUIET_NS: Final = 750_000
"""The CPU time of `_work` on the machine for which the bounds are written, with nothing else on it."""
SAMPLES: Final = 9


def slowness() -> float:
    """Return how many times the CPU time of a quiet machine the same work takes now; at least 1. Takes about 10 ms."""
    return max(1.0, statistics.median(_work_ns() for _ in range(SAMPLES)) / QUIET_NS)


def _work_ns() -> int:
    began_ns = time.thread_time_ns()
    _work()
    return time.thread_time_ns() - began_ns


def _work() -> None:
    """Make, look up and sort small objects, as the broker's loop does most of the time."""
    found = {number: (number, str(number)) for number in range(4_000)}
    sum(number for number, _ in sorted(found.values(), key=lambda value: value[1]))
