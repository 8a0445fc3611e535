"""A store that lives as long as the process; also the readable half of the file store.

Reads and comparisons use dictionaries. A subclass makes a commit durable in `_persist`. Other commits queue behind one that
waits there, or between the slices in which its changes are made, so revisions are in the order of durability. A commit that has
begun runs to its end, even if the task that waits for it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pybroker.metadata.store.base import ABSENT, Change, Conflict, Entry, Listing, Store, StoreError, Watch, WatchCallback
from pybroker.metadata.store.watches import Watches
from pybroker.metadata.uninterrupted import Uninterrupted
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.sharing.work import Pausing


class MemoryStore(Store):
    """A store that is not durable: its entries are gone with the process."""

    def __init__(self, entries: Sequence[Entry] = (), revision: int = 0) -> None:
        self._entries = {entry.key: entry for entry in entries}
        self._revision = revision
        self._watches = Watches()
        self._one_commit = asyncio.Lock()
        self._uninterrupted = Uninterrupted()
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""
        return self._entries.get(key)

    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""
        return Listing(tuple(sorted(entry for key, entry in self._entries.items() if key.startswith(prefix))), self._revision)

    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Collection[str] = (),
        compare: Mapping[str, int] | None = None,
    ) -> int | Conflict:
        """Put and delete keys, all or none, if every key of `compare` has that revision."""
        puts = {} if puts is None else puts
        if not puts.keys().isdisjoint(deletes):
            raise ValueError("a key is both put and deleted")
        return await self._uninterrupted.run(self._commit(dict(puts), {*deletes}, {} if compare is None else dict(compare)))

    async def _commit(self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int]) -> int | Conflict:
        async with self._one_commit:
            if self._is_closed:
                raise StoreError("the metadata store is closed")
            for key, expected in compare.items():
                entry = self._entries.get(key)
                actual = ABSENT if entry is None else entry.revision
                if actual != expected:
                    return Conflict(key, expected, actual)
            revision = self._revision + 1
            changes, entries = await complete(self._changes(puts, deletes, revision))
            if changes:
                await self._persist(changes, revision)
                self._apply(changes, entries, revision)
            return self._revision

    def _changes(
        self, puts: Mapping[str, bytes], deletes: Collection[str], revision: int
    ) -> Pausing[tuple[Sequence[Change], dict[str, Entry]]]:
        """Return the changes of a commit by their keys, and the entries that it puts."""
        changes: list[Change] = []
        entries: dict[str, Entry] = {}
        for key in sorted({*puts, *deletes}):
            yield
            value = puts.get(key)
            if value is not None:
                changes.append(Change(key, value, revision))
                entries[key] = Entry(key, value, revision)
            elif key in self._entries:
                changes.append(Change(key, None, revision))
        return changes, entries

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call `callback` for every later commit that changes a key which starts with `prefix`."""
        return self._watches.add(prefix, callback)

    async def close(self) -> None:
        """Wait for the commit that is running and release everything; idempotent."""
        async with self._one_commit:
            if not self._is_closed:
                self._is_closed = True
                await self._release()

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        """Make a commit durable. Raises StoreError, and then nothing of the commit may be found after a restart."""

    async def _release(self) -> None:
        """Release the resources that `_persist` uses."""

    def _apply(self, changes: Sequence[Change], entries: Mapping[str, Entry], revision: int) -> None:
        self._revision = revision
        self._entries.update(entries)
        for key, value, _ in changes:
            if value is None:
                del self._entries[key]
        self._watches.call(changes)
