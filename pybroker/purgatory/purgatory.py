"""The purgatory: where requests wait that can be neither completed nor refused yet, and the operations that wait in it.

The operation
    It waits for an event or for its time, whichever comes first, and is completed exactly once: a fetch waits for enough bytes, a
    produce for its followers, a join for the other members. It *is* its entry in the timing wheel, so that completing it takes it
    out of the timer at once and allocates nothing.

        created -> try_complete() true -> completed
                -> watched by a purgatory, with a timer -> an event's try_complete() true -> completed
                                                        -> its time comes                 -> completed, expired

The purgatory
    An operation is tried at once. If it is not complete, it is watched under each of its keys, tried again (so that no event
    between the first try and the watching is lost), and only then gets its timer. An event on a key tries the operations that are
    watched under that key. Event or time complete an operation exactly once. It then leaves the timer at once, but its entries
    under *other* keys stay until an event meets them or a purge takes them.

When to purge
    When the number of completed operations that may still be watched exceeds the purge interval. That number is an estimate: an
    operation has an entry per key, and the entries that events have met are not counted. So the estimate may be too high, but
    never too low: a purge may come early, never late, and the purge interval bounds what completed operations hold on to.

Cost
    A try and an insertion per key to watch; two lookups for an event that no operation waits for. A purge removes the entries of
    the completed operations, each at O(1), and does not look at those that wait. It costs a completed operation about what
    watching it did, and it stops the loop for at most the timer's `slice_s` at a time. The entries of an
    operation with very many keys are removed when it is completed.

Both classes are in this module, because each maintains the state of the other: an operation that is completed notes it in its
purgatory.

Source: DelayedOperation, DelayedOperationPurgatory; Kafka's design of its purgatory on timing wheels (2015).
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from pybroker.purgatory.timer import TimerTask

if TYPE_CHECKING:
    from pybroker.purgatory.timer import PurgatoryTimer

logger = logging.getLogger(__name__)

PURGE_INTERVAL: Final = 1000
TRIES_PER_LOOK: Final = 16
KEYS_OF_TRY: Final = 16
"""An operation with this many keys more counts as one try more: what it is about may be as long as that."""
LARGE_KEYS: Final = 1000
"""An operation with more keys is not left to a purge: its entries are dropped as soon as it is completed."""
_KEYS_AT_ONCE: Final = 200


class DelayedOperation(TimerTask):
    """An operation that waits. Subclasses decide when it can be completed and what completing it does.

    `is_completed` is read on the hot path; only `force_complete` sets it.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed")

    def __init__(self) -> None:
        super().__init__()
        self.is_completed = False
        self._purgatory: Purgatory | None = None  # watches this operation and counts it as delayed
        self._keys: Sequence[Hashable] = ()  # the keys under which it is watched

    @abc.abstractmethod
    def try_complete(self) -> bool:
        """Complete the operation if its condition holds. Returns True only if this very call completed it."""

    def try_complete_at(self, key: Hashable) -> bool:  # noqa: ARG002  (for those with many keys)
        """Complete the operation, as `try_complete` does, after an event on `key`."""
        return self.try_complete()

    @abc.abstractmethod
    def on_complete(self) -> None:
        """Do what completing means: called exactly once, by event or by time, when the operation has left the timer."""

    def on_expiration(self) -> None:
        """Note the expiry: called after `on_complete` when it was the time that completed the operation."""

    def force_complete(self) -> bool:
        """Complete now, unless that has happened. Returns whether this call did it, so that exactly one caller gets True."""
        if self.is_completed:
            return False
        self.is_completed = True
        self.cancel()
        purgatory = self._purgatory
        if purgatory is not None:
            self._purgatory = None
            purgatory.delayed -= 1
            if len(self._keys) > LARGE_KEYS:
                purgatory.unwatch_soon(self)
            else:
                purgatory.completed[self] = None
        self.on_complete()
        return True

    def expire(self) -> None:
        """Complete the operation because its time has come; called by the timer."""
        purgatory = self._purgatory
        if purgatory is not None and self.force_complete():  # None: completed by an operation that expired just before
            self.on_expiration()
            purgatory.purge_if_due()


class Purgatory:
    """Operations of one kind, by the keys whose events may complete them. Not thread-safe: it belongs to the loop.

    `delayed` is the number of operations that wait for an event or their time: exact at any moment. `completed` are those that
    were completed and may still be watched. An operation keeps both up to date when it is completed. `watchers` has the
    operations that are watched under each key; it is public so that an event that no operation waits for costs no call.
    """

    __slots__ = ("_caused", "_is_trying", "_purge_interval", "_timer", "completed", "delayed", "name", "watchers")

    def __init__(self, name: str, timer: PurgatoryTimer, purge_interval: int = PURGE_INTERVAL) -> None:
        self.name = name
        self.delayed = 0
        self._timer = timer
        self._purge_interval = purge_interval
        self.watchers: dict[
            Hashable, dict[DelayedOperation, None]
        ] = {}  # a dict serves as a list here that gives up any entry at O(1)
        self.completed: dict[DelayedOperation, None] = {}  # and perhaps still watched
        self._is_trying = False
        self._caused: dict[Hashable, None] = {}  # the keys of events that what was completed has caused, in their order

    @property
    def watched(self) -> int:
        """The entries in all watcher lists: an operation counts once per key, and a completed one until it is met or purged."""
        return sum(map(len, self.watchers.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable], timeout_ms: int) -> bool:
        """Complete `operation` now, or keep it until an event on one of `keys` or until `timeout_ms` from now.

        `keys` is owned by the purgatory from now on. Returns True if it was completed by this call's tries. A timeout that is not
        positive expires it before the return, which is False.
        """
        assert keys, "an operation without keys has no event to wait for"
        if operation.try_complete():
            return True
        watchers = self.watchers
        for key in keys:
            found = watchers.get(key)
            if found is None:
                watchers[key] = {operation: None}
            else:
                found[operation] = None
        self.delayed += 1
        operation._purgatory = self
        operation._keys = keys
        is_completed_here = operation.try_complete()
        if not operation.is_completed:  # the try itself may have caused an event that completed it
            self._timer.add(operation, timeout_ms)
        self.purge_if_due()
        return is_completed_here

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn of the loop."""
        self._timer.soon(work)

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that are watched under `key`, after an event there. Returns how many of them that completed.

        Thousands may wait for the same event: those that are not tried within the timer's `slice_s` are tried in the next
        turns of the loop. Between two turns such an operation may be completed by another event or its time, or see a later
        state. An event that completing an operation causes is looked at after the one in hand, and counts with it: a completion
        within another one, thousands deep, would exceed the stack. It returns 0.
        """
        found = self.watchers.get(key)
        if found is None:
            return 0
        if self._is_trying:
            self._caused[key] = None
            return 0
        # A copy: completing an operation may watch another under the same key, or cause the same event.
        return self._try_all(key, found, iter(tuple(found)))

    def check_all(self, keys: Iterable[Hashable]) -> None:
        """Try the operations that are watched under each key, after events there, as `check_and_complete` does. The events that
        are not looked at within the timer's `slice_s` are looked at in the next turns.
        """
        watchers = self.watchers
        self._caused.update((key, None) for key in keys if key in watchers)
        if self._caused and not self._is_trying:
            self._try_caused_later()

    def _try_all(self, key: Hashable, found: dict[DelayedOperation, None], operations: Iterator[DelayedOperation]) -> int:
        """Try the operations for an event on `key`, and then those for the events which that causes."""
        self._is_trying = True
        try:
            completed = self._try_some(key, found, operations)
            if self._caused:
                completed += self._try_caused()
        finally:
            self._is_trying = False
        return completed

    def _try_caused(self) -> int:
        """Try the operations for the events that completions have caused, for a slice; the other events in the next turn."""
        completed = 0
        end = perf_counter() + self._timer.slice_s
        caused = self._caused
        while caused:
            key = next(iter(caused))
            del caused[key]
            found = self.watchers.get(key)
            if found is not None:
                completed += self._try_some(key, found, iter(tuple(found)))
            if caused and perf_counter() >= end:
                self._timer.soon(self._try_caused_later)
                break
        return completed

    def _try_caused_later(self) -> None:
        self._is_trying = True
        try:
            self._try_caused()
        finally:
            self._is_trying = False

    def _try_some(self, key: Hashable, found: dict[DelayedOperation, None], operations: Iterator[DelayedOperation]) -> int:
        completed = 0
        met: list[DelayedOperation] = []
        end = 0.0
        tries = 0
        for operation in operations:
            tries += 1 + len(operation._keys) // KEYS_OF_TRY
            if not operation.is_completed:
                try:
                    completed += operation.try_complete_at(key)
                except Exception:  # the cause of the event must not suffer; the operation still has its timer
                    logger.exception(
                        "%s: an operation failed at an event on %r, which is a bug; it waits for its timeout", self.name, key
                    )
            if operation.is_completed:
                met.append(operation)
            if tries >= TRIES_PER_LOOK:  # the usual event meets a few operations, and needs no clock
                tries = 0
                end = end or perf_counter() + self._timer.slice_s
                if perf_counter() >= end:
                    self._timer.soon(lambda: self._try_rest(key, found, operations))
                    break
        for operation in met:
            found.pop(operation, None)
            if len(operation._keys) == 1:
                self.completed.pop(operation, None)
        if not found and self.watchers.get(key) is found:
            del self.watchers[key]
        self.purge_if_due()
        return completed

    def _try_rest(self, key: Hashable, found: dict[DelayedOperation, None], operations: Iterator[DelayedOperation]) -> None:
        self._try_all(key, found, operations)

    def complete_all(self) -> int:
        """Complete every operation that waits, as if its time were over; for the end of a broker. Returns how many there were."""
        waiting = {operation: None for found in self.watchers.values() for operation in found if not operation.is_completed}
        for operation in waiting:
            try:
                operation.expire()
            except Exception:  # the other operations must be completed nevertheless
                logger.exception("%s: an operation failed at the end of the broker, which is a bug", self.name)
        return len(waiting)

    def purge_if_due(self) -> None:
        """Drop the entries of completed operations if the estimate of their number exceeds the purge interval."""
        if len(self.completed) > self._purge_interval:
            completed, self.completed = self.completed, {}
            self._unwatch((operation, key) for operation in completed for key in operation._keys)

    def unwatch_soon(self, operation: DelayedOperation) -> None:
        """Drop the entries of a completed operation, and free its keys, in the next turns of the loop."""
        keys, operation._keys = [*operation._keys], ()
        entries = ((operation, keys.pop()) for _ in range(len(keys)))
        self._timer.soon(lambda: self._unwatch(entries))

    def _unwatch(self, entries: Iterator[tuple[DelayedOperation, Hashable]]) -> None:
        """Drop entries for at most the timer's `slice_s`, and the others in the next turns."""
        watchers = self.watchers
        end = 0.0
        for count, (operation, key) in enumerate(entries, start=1):
            found = watchers.get(key)
            if found is not None:
                found.pop(operation, None)
                if not found:
                    del watchers[key]
            if count % _KEYS_AT_ONCE == 0:
                end = end or perf_counter() + self._timer.slice_s
                if perf_counter() >= end:
                    self._timer.soon(lambda: self._unwatch(entries))
                    return
