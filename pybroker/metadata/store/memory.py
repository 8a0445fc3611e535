"""A store that lives as long as the process; also the readable half of the file store.

Reads and comparisons use dictionaries. A subclass makes a commit durable in `_persist`. The keys of sessions are never durable:
no session outlives the process. So a commit of such keys alone persists nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.metadata.store.base import ABSENT, Change, Conflict, Entry, Listing, Session, Store
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.sharing.work import Pausing


class LocalSession(Session):
    """A session in the process of its store, which ends when it is closed."""

    __slots__ = ("_store",)

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store

    async def close(self) -> None:
        """End the session; idempotent. Its keys are gone when this returns."""
        await self._store.end(self)


class _Planned(NamedTuple):
    """The changes of a commit in the order of keys, those of durable entries, and the entries that it puts."""

    changes: Sequence[Change]
    durable: Sequence[Change]
    entries: Mapping[str, Entry]


class MemoryStore(Store):
    """A store that is not durable: its entries are gone with the process."""

    def __init__(self, entries: Sequence[Entry] = (), revision: int = 0) -> None:
        super().__init__()
        self._entries = {entry.key: entry for entry in entries}
        self._sessions: dict[str, Session] = {}  # of the keys that have one
        self._revision = revision

    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""
        return self._entries.get(key)

    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""
        return Listing(tuple(sorted(entry for key, entry in self._entries.items() if key.startswith(prefix))), self._revision)

    async def open_session(self, *, ttl_ms: int, renew_ms: int) -> Session:  # noqa: ARG002  both are for a store that others reach
        """Open a session, whose keys exist until it is closed, and no longer than the process."""
        return LocalSession(self)

    async def end(self, session: Session) -> None:
        """End a session of this store: delete its keys, in one commit."""
        await self._uninterrupted.run(self._ended(session))

    async def _ended(self, session: Session) -> None:
        async with self._one_commit:
            session.mark_ended()
            await self._commit({}, {key for key, owner in self._sessions.items() if owner is session}, {}, None)

    async def _commit(
        self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int], session: Session | None
    ) -> int | Conflict:
        for key, expected in compare.items():
            entry = self._entries.get(key)
            actual = ABSENT if entry is None else entry.revision
            if actual != expected:
                return Conflict(key, expected, actual)
        revision = self._revision + 1
        planned = await complete(self._planned(puts, deletes, revision, session))
        if planned.durable:
            await self._persist(planned.durable, revision)
        if planned.changes:
            self._apply(planned, revision, session)
        return self._revision

    def _planned(
        self, puts: Mapping[str, bytes], deletes: Collection[str], revision: int, session: Session | None
    ) -> Pausing[_Planned]:
        changes: list[Change] = []
        durable: list[Change] = []
        entries: dict[str, Entry] = {}
        for key in sorted({*puts, *deletes}):
            yield
            value, is_known = puts.get(key), key in self._entries
            if value is None and not is_known:
                continue
            change = Change(key, value, revision)
            changes.append(change)
            if value is not None:
                entries[key] = Entry(key, value, revision)
            if value is not None and session is None:
                durable.append(change)
            elif is_known and key not in self._sessions:
                durable.append(Change(key, None, revision))
        return _Planned(changes, durable, entries)

    async def _persist(self, changes: Sequence[Change], revision: int) -> None:
        """Make a commit durable. Raises StoreError, and then nothing of the commit may be found after a restart."""

    async def _release(self) -> None:
        pass  # a subclass has what `_persist` uses

    def _apply(self, planned: _Planned, revision: int, session: Session | None) -> None:
        self._revision = revision
        self._entries.update(planned.entries)
        for key, value, _ in planned.changes:
            if value is None:
                del self._entries[key]
        kept = {key: owner for key, owner in self._sessions.items() if key in self._entries and key not in planned.entries}
        self._sessions = kept if session is None else kept | dict.fromkeys(planned.entries, session)
        self._call_watches(planned.changes)
