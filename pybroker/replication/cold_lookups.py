"""The lookups of one fetch that would wait for a disk or take long, and that a thread does before the loop reads."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from pybroker.log import aborted_lookup
from pybroker.log.aborted_lookup import AbortedLookup

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybroker.log.log import Log
    from pybroker.log.results import AbortedTransactions
    from pybroker.model import Offset, TopicPartition

PER_ROUND_MAX: Final = 16
"""The lookups that a thread does before the fetch is tried again: the others may not be needed then."""


ENTRIES_MAX: Final = 1 << 14
"""The entries of transaction indexes that the loop looks at in one try: 2.5 ms."""


class ColdLookups:
    """Collects lookups while a fetch is tried on the loop. Each partition is looked up once: then the loop reads it."""

    __slots__ = ("_aborted", "_due", "_entries_left", "_known")

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self._known: set[TopicPartition] = set()
        self._aborted: dict[TopicPartition, AbortedLookup] = {}
        self._entries_left = ENTRIES_MAX

    def __bool__(self) -> bool:
        """Return whether a thread has something to do."""
        return bool(self._due)

    def is_cold(self, log: Log, offset: Offset) -> bool:
        """Return whether a thread must look the partition up first: in a full round, all that were not looked up yet."""
        topic_partition = log.topic_partition
        if topic_partition in self._known or len(self._due) >= PER_ROUND_MAX:
            return topic_partition not in self._known
        lookup = log.cold_lookup(offset)
        if lookup is None:
            return False
        self._known.add(topic_partition)
        self._due.append(lookup)
        return True

    def aborted_transactions(self, log: Log, *, fetch_offset: Offset, upper_offset: Offset) -> AbortedTransactions:
        """Return the aborted transactions that touch a range; nothing if a thread must find them first. Raises KafkaError."""
        topic_partition = log.topic_partition
        lookup = self._aborted.get(topic_partition)
        if lookup is not None:
            found = lookup.result(log, fetch_offset=fetch_offset, upper_offset=upper_offset)
            if found is None:  # the log has changed meanwhile
                found = log.aborted_transactions(fetch_offset=fetch_offset, upper_offset=upper_offset)
            return found
        found, looked_at = aborted_lookup.look_up_in_memory(
            log, fetch_offset=fetch_offset, upper_offset=upper_offset, entries_max=self._entries_left
        )
        self._entries_left -= looked_at
        if found is None and len(self._due) < PER_ROUND_MAX:
            lookup = self._aborted[topic_partition] = AbortedLookup(log, fetch_offset=fetch_offset, upper_offset=upper_offset)
            self._due.append(lookup)
        return found or []

    def take(self) -> Callable[[], None]:
        """Return what to run in a thread, and begin the next round."""
        due, self._due = self._due, []
        self._entries_left = ENTRIES_MAX

        def work() -> None:
            for lookup in due:
                with contextlib.suppress(OSError):  # the read meets the same error, and takes the directory offline
                    lookup()

        return work
