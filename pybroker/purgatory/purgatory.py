"""The purgatory: where requests wait that can be neither answered nor refused yet.

Idea
    An operation is tried at once. If it is not complete, it is watched under each of its keys, tried again (so that no event
    between the first try and the watching is lost), and only then gets its timer. An event on a key tries what is watched under
    that key. Event or time complete it exactly once; it then leaves the timer at once, but its entries under *other* keys stay
    until an event meets them or a purge takes them.

When to purge
    By the number of completed operations that are still watched, which is not known exactly: an operation has an entry per key,
    and entries go one by one. It is estimated as E - delayed, where `delayed` is the exact number of operations that wait, and
    E counts every operation that was watched and is set back to `delayed` by each purge. E is too high by what events have
    removed since, never too low; so a purge may come early, never late, and completed operations in memory are bounded by the
    purge interval.

Cost
    A try and an append per key to watch; two lookups for an event nobody waits for. A purge is one pass over all entries, at
    most once per `purge_interval` operations.

Source: DelayedOperationPurgatory; seed document on the purgatory (2015).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pybroker.purgatory.delayed_operation import DelayedOperation
    from pybroker.purgatory.timer import PurgatoryTimer

logger = logging.getLogger(__name__)

PURGE_INTERVAL: Final = 1000


class Purgatory:
    """Operations of one kind, by the keys whose events may complete them. Not thread-safe: it belongs to the loop.

    `delayed` is the number of operations that wait for an event or their time: exact at any moment.
    """

    __slots__ = ("_estimated_total", "_purge_interval", "_timer", "_watchers", "delayed", "name")

    def __init__(self, name: str, timer: PurgatoryTimer, purge_interval: int = PURGE_INTERVAL) -> None:
        self.name = name
        self.delayed = 0
        self._timer = timer
        self._purge_interval = purge_interval
        self._estimated_total = 0
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}

    @property
    def watched(self) -> int:
        """Entries in all watcher lists: an operation counts once per key, and a completed one until it is met or purged."""
        return sum(map(len, self._watchers.values()))

    @property
    def watched_keys(self) -> int:
        """Keys that have a watcher list; empty lists do not stay."""
        return len(self._watchers)

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> bool:
        """Complete `operation` now, or keep it until an event on one of `keys` (at least one) or until `timeout_ms` from now.

        Returns True if it was completed by this call's tries. A timeout that is not positive expires it before the return,
        which is False.
        """
        if operation.try_complete():
            return True
        watchers = self._watchers
        for key in keys:
            found = watchers.get(key)
            if found is None:
                watchers[key] = [operation]
            else:
                found.append(operation)
        self._estimated_total += 1
        if operation.try_complete():
            self.purge_if_due()
            return True
        if not operation.is_completed:  # the try may have set off an event that completed it
            self.delayed += 1
            operation._purgatory = self
            self._timer.add(operation, timeout_ms)
        self.purge_if_due()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Something happened to `key`: try what is watched there. Returns how many operations that completed."""
        found = self._watchers.get(key)
        if found is None:
            return 0
        completed = 0
        is_met = False
        for operation in tuple(found):  # completing one may watch another under the same key, or set off the same event
            if operation.is_completed:
                is_met = True
                continue
            try:
                if operation.try_complete():
                    completed += 1
            except Exception:  # whoever caused the event must not suffer; the operation still has its timer
                logger.exception("%s: an operation failed on %r", self.name, key)
        if completed or is_met:
            self._remove_completed(key, found)
            self.purge_if_due()
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Forget what is watched under `key` without completing it, and return what was not complete; the caller owns it now.

        Its timer is gone; entries under other keys stay, so an event there may still complete it.
        """
        cancelled = [operation for operation in self._watchers.pop(key, ()) if not operation.is_completed]
        for operation in cancelled:
            operation.cancel()
            if operation._purgatory is not None:
                operation._purgatory = None
                self.delayed -= 1
        return cancelled

    def purge_if_due(self) -> None:
        """Drop all entries of completed operations if the estimate of how many there are exceeds the purge interval."""
        if self._estimated_total - self.delayed <= self._purge_interval:
            return
        self._estimated_total = self.delayed
        for key, found in list(self._watchers.items()):
            self._remove_completed(key, found)

    def _remove_completed(self, key: Hashable, found: list[DelayedOperation]) -> None:
        found[:] = [operation for operation in found if not operation.is_completed]
        if not found and self._watchers.get(key) is found:
            del self._watchers[key]
