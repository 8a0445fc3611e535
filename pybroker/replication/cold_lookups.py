"""The lookups of one fetch that would wait for a disk, and that a thread does before the loop reads."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.model import Offset, TopicPartition

PER_ROUND_MAX: Final = 16
"""The lookups that a thread does before the fetch is tried again: the others may not be needed then."""


class ColdLookups:
    """Collects lookups while a fetch is tried on the loop. Each partition is looked up once: then the loop reads it."""

    __slots__ = ("_due", "_known")

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self._known: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Return whether a thread has something to do."""
        return bool(self._due)

    def is_cold(self, log: Log, offset: Offset) -> bool:
        """Return whether the partition must be looked up first, or would have to be if this round were not full."""
        topic_partition = log.topic_partition
        if topic_partition in self._known or len(self._due) >= PER_ROUND_MAX:
            return topic_partition not in self._known
        lookup = log.cold_lookup(offset)
        if lookup is None:
            return False
        self._known.add(topic_partition)
        self._due.append(lookup)
        return True

    def take(self) -> Callable[[], None]:
        """Return what to run in a thread, and begin the next round."""
        due, self._due = self._due, []

        def work() -> None:
            for lookup in due:
                with contextlib.suppress(OSError):  # the read meets the same error, and takes the directory offline
                    lookup()

        return work
