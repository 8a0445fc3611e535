"""What a metadata store promises, so that memory, a file or a consensus service can stand behind the same controller.

Idea
    Keys are text, values bytes. Every commit that changes something has a revision, one higher than the one before, and every
    entry carries the revision of the commit that last put it. A commit names the revisions it was computed from: if one of them
    is not current, nothing happens and the caller computes again. This is etcd's model, cut down to what the controller needs.

Order of events
    A commit is durable first. Then every watcher whose prefix matches is called, in the order of revisions, on the loop's thread.
    Only then `commit` returns: a caller sees its own change in everything that watches. The same holds for a Conflict: the
    watchers have seen what it conflicts with, so computing again is never from an older state.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

ABSENT: Final = 0
"""The revision of a key that does not exist; commits count from 1."""


class StoreError(Exception):
    """The store cannot be opened, read or written. Nothing of the commit that raised it is visible, now or after a restart."""


class Entry(NamedTuple):
    """A key that exists."""

    key: str
    value: bytes
    revision: int


class Listing(NamedTuple):
    """Entries in the order of their keys, all as of the commit `revision`."""

    entries: tuple[Entry, ...]
    revision: int


class Change(NamedTuple):
    """One key of a commit; `value` is None when it was deleted."""

    key: str
    value: bytes | None
    revision: int


class Conflict(NamedTuple):
    """A commit that did not happen: `key` is at `actual`, not at `expected`."""

    key: str
    expected: int
    actual: int


WatchCallback = Callable[[Sequence[Change]], None]
"""Called once per commit with the matching changes, in the order of their keys. It must not raise and must not commit."""


class Watch(abc.ABC):
    """A running watch."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """Stop it; idempotent."""


class Store(abc.ABC):
    """See the module. All methods are called on the loop's thread; commits may be started while another one runs."""

    @abc.abstractmethod
    async def get(self, key: str) -> Entry | None:
        """The entry of `key`, or None."""

    @abc.abstractmethod
    async def list(self, prefix: str = "") -> Listing:
        """All entries whose key starts with `prefix`."""

    @abc.abstractmethod
    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Collection[str] = (),
        compare: Mapping[str, int] | None = None,
    ) -> int | Conflict:
        """All of it or nothing, and durable: put and delete keys if every key of `compare` has that revision (ABSENT: none).

        Deleting a key that does not exist is no change. Returns the revision after it: the one before when nothing changed.
        Raises StoreError; ValueError when a key is both put and deleted.
        """

    @abc.abstractmethod
    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call `callback` for every later commit that changes a key which starts with `prefix`."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Wait for the commit in work and release everything; idempotent."""
