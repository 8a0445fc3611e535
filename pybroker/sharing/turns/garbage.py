"""Keeps garbage collections short, so that none of them holds the loop for long.

A full collection visits all objects that are not frozen, at about 50 ns each. A broker with 10,000 topics has millions that live
as long as it does. So after a full collection that took long, all that have survived it are frozen: no later collection visits
them. The next full collection visits what is new since, and Python begins it when that is a quarter of what the last one found
alive. That is what was new then, because what was frozen before does not count. So freezing makes full collections no rarer, and
another collection right after it would change nothing. The length of collections is bounded by what a few of them can find new,
not by what the broker has.

Objects that are frozen are freed as all others, when no other object refers to them. Only a cycle of frozen objects would remain
for good; a connection breaks its cycles when it ends.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from time import thread_time_ns
from typing import Final

LONG_NS: Final = 3_000_000
"""A full collection of more CPU time freezes what it has left."""

THRESHOLDS: Final = (5_000, 0, 0)
"""Those of the collector: a full collection may be the third, so that it meets at most 15,000 new objects. Where memory is slow,
each takes almost a microsecond. While 10,000 partitions were created three times on such a machine, 17 collections took more than
20 ms with (10_000, 1, 1), the longest 51, and 2 with (10_000, 0, 0); none does now. Requests cost the same instructions. With
Python's own, 700, it goes through the requests that wait several times in a turn of the loop: a fifth of what a commit of twelve
partitions costs beside 49 others (docs/design/cost.md).
"""

_FULL: Final = 2
_begun_ns = 0


def keep_collections_short() -> None:
    """Freeze all objects that there are, and what survives long collections from now on."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if not is_freezing():
        gc.callbacks.append(_collection)


def is_freezing() -> bool:
    """Return whether long collections freeze what survives them."""
    return _collection in gc.callbacks


def stop_freezing() -> None:
    """Freeze no more. For tests."""
    gc.callbacks.remove(_collection)


def _collection(phase: str, details: Mapping[str, int]) -> None:
    global _begun_ns  # noqa: PLW0603  collections do not overlap
    if details["generation"] != _FULL:
        return
    if phase == "start":
        _begun_ns = thread_time_ns()
    elif thread_time_ns() - _begun_ns > LONG_NS:
        gc.freeze()
