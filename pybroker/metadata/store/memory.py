"""A store that lives as long as the process; also the readable half of the file store.

Reads and comparisons use dictionaries. A subclass makes a commit durable in `_persist`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pybroker.metadata.store.base import ABSENT, Change, Conflict, Entry, Listing, Store
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.sharing.work import Pausing


class MemoryStore(Store):
    """A store that is not durable: its entries are gone with the process."""

    def __init__(self, entries: Sequence[Entry] = (), revision: int = 0) -> None:
        super().__init__()
        self._entries = {entry.key: entry for entry in entries}
        self._revision = revision

    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""
        return self._entries.get(key)

    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""
        return Listing(tuple(sorted(entry for key, entry in self._entries.items() if key.startswith(prefix))), self._revision)

    async def _commit(self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int]) -> int | Conflict:
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

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        """Make a commit durable. Raises StoreError, and then nothing of the commit may be found after a restart."""

    async def _release(self) -> None:
        pass  # a subclass has what `_persist` uses

    def _apply(self, changes: Sequence[Change], entries: Mapping[str, Entry], revision: int) -> None:
        self._revision = revision
        self._entries.update(entries)
        for key, value, _ in changes:
            if value is None:
                del self._entries[key]
        self._call_watches(changes)
