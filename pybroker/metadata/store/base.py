"""The promises of a metadata store, so that memory, a file or a consensus service can be behind the same controller.

Idea
    Keys are text, values bytes. Every commit that changes something has a revision, higher than that of the commit
    before, and every entry carries the revision of the commit that last put it. A commit names the revisions it was
    computed from: if one of them is not current, nothing happens and the caller computes again. This is etcd's model,
    reduced to what the controller needs.

Order of events
    A commit becomes durable first. Then every watcher whose prefix matches is called, in the order of revisions, on
    the loop's thread. Only then does `commit` return: a caller sees its own change in everything that watches. The
    same holds for a Conflict: the watchers have seen the commit that it conflicts with, so the caller never computes
    again from an older state.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

ABSENT: Final = 0
"""The revision of a key that does not exist; commits count from 1."""


class StoreError(Exception):
    """The store cannot be opened, read or written. Nothing of the commit that raised it is visible, now or after a restart."""


class OutcomeUnknownError(StoreError):
    """A remote store did not respond: the commit may have happened, or may still happen, as the watches will show. Once a later
    commit of the same store has happened, it cannot happen any more.
    """


class Entry(NamedTuple):
    """A key that exists."""

    key: str
    value: bytes
    revision: int


class Listing(NamedTuple):
    """All entries of a prefix in the order of their keys, as of the commit `revision`."""

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


class Limits(NamedTuple):
    """The largest commit: keys that are put or deleted, or keys that are compared; bytes of keys and values."""

    operations_max: int
    bytes_max: int

    def check(self, puts: Mapping[str, bytes], deletes: Collection[str], compare: Collection[str]) -> None:
        """Raise StoreError if a commit is larger."""
        count = max(len(puts) + len(deletes), len(compare))
        size = sum(len(key) + len(value) for key, value in puts.items()) + sum(map(len, deletes)) + sum(map(len, compare))
        if count > self.operations_max or size > self.bytes_max:
            raise StoreError(
                f"one change of the metadata has {count} keys and {size} bytes; the store takes at most {self.operations_max} "
                f"keys and {self.bytes_max} bytes at once"
            )


NO_LIMITS: Final = Limits(sys.maxsize, sys.maxsize)

WatchCallback = Callable[[Sequence[Change]], None]
"""A function that each commit calls once with the matching changes, in the order of their keys. It must not raise or commit."""


class Watch(abc.ABC):
    """A running watch."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """Stop the watch; idempotent."""


class Store(abc.ABC):
    """A metadata store. `limits` are those of a commit.

    All methods are called on the loop's thread; commits may be started while another commit runs.
    """

    limits: Limits = NO_LIMITS

    @abc.abstractmethod
    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""

    @abc.abstractmethod
    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`."""

    @abc.abstractmethod
    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Collection[str] = (),
        compare: Mapping[str, int] | None = None,
    ) -> int | Conflict:
        """Put and delete keys durably, all or none, if every key of `compare` has that revision (ABSENT: the key does
        not exist).

        Deleting a key that does not exist is no change, which no watch sees. Returns the store's revision after the commit.
        Raises StoreError, also if the commit is larger than `limits`; ValueError if a key is both put and deleted.
        """

    @abc.abstractmethod
    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call `callback` for every later commit that changes a key which starts with `prefix`."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Wait for the commit that is running and release everything; idempotent."""
