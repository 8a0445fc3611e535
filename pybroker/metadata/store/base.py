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

Sessions
    A key that a commit puts for a session exists until the session ends: it is closed, or whoever opened it has died. All keys
    of a session are then deleted in one commit, which watches see as any other. A put without a session, or for another one,
    takes the key over.
"""

from __future__ import annotations

import abc
import asyncio
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from pybroker.metadata.uninterrupted import Uninterrupted

ABSENT: Final = 0
"""The revision of a key that does not exist; commits count from 1."""


class StoreError(Exception):
    """The store cannot be opened, read or written. Nothing of the commit that raised it is visible, now or after a restart."""


class UnreachableError(StoreError):
    """A remote store did not respond, and nothing was changed."""


class OutcomeUnknownError(StoreError):
    """A remote store did not respond: the commit may have happened, or may still happen, as the watches will show. Once a later
    commit of the same store has happened, it cannot happen any more.
    """


class SessionEndedError(StoreError):
    """The session of a commit has ended, so nothing of the commit has happened."""


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


class Watch:
    """A running watch."""

    __slots__ = ("_watches", "callback", "prefix")

    def __init__(self, prefix: str, callback: WatchCallback, watches: list[Watch]) -> None:
        self.prefix, self.callback, self._watches = prefix, callback, watches
        watches.append(self)

    def cancel(self) -> None:
        """Stop the watch; idempotent."""
        if self in self._watches:
            self._watches.remove(self)


class Session(abc.ABC):
    """A session of a store, which renews itself.

    `ended` is set when the session has ended for its owner, for whatever reason. `valid_until_s` is the time of the loop before
    which no other client of the store can see that its keys are gone, unless the owner closes it. It grows with each renewal.
    `reason` is why it has ended, for a person.
    """

    __slots__ = ("ended", "reason", "valid_until_s")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.valid_until_s = math.inf
        self.reason = ""

    @abc.abstractmethod
    async def close(self) -> None:
        """End the session; idempotent. Its keys are gone when this returns, or, if the store cannot be reached, when its time is
        over.
        """

    def mark_ended(self, reason: str = "this process has closed it") -> None:
        """Note that the session has ended, and why; the first reason remains."""
        self.reason = self.reason or reason
        self.ended.set()
        self.valid_until_s = -math.inf

    def check(self) -> None:
        """Raise SessionEndedError if the session has ended."""
        if self.ended.is_set():
            raise SessionEndedError(f"the session of this process with the metadata store has ended: {self.reason}")


class Store(abc.ABC):
    """A metadata store. `limits` are those of a commit.

    All methods are called on the loop's thread. Commits may be started while another commit runs: they queue, so revisions are in
    the order of durability. A commit that has begun runs to its end, even if the task that waits for it is cancelled.
    """

    limits: Limits = NO_LIMITS

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._one_commit = asyncio.Lock()
        self._uninterrupted = Uninterrupted()
        self._is_closed = False

    @abc.abstractmethod
    async def get(self, key: str) -> Entry | None:
        """Return the entry of `key`, or None."""

    @abc.abstractmethod
    async def list(self, prefix: str = "") -> Listing:
        """Return all entries whose key starts with `prefix`. Before it returns, no watch sees what the listing does not have."""

    async def commit(
        self,
        *,
        puts: Mapping[str, bytes] | None = None,
        deletes: Collection[str] = (),
        compare: Mapping[str, int] | None = None,
        session: Session | None = None,
    ) -> int | Conflict:
        """Put and delete keys durably, all or none, if every key of `compare` has that revision (ABSENT: the key does
        not exist). The keys that are put exist until `session` ends, if there is one.

        Deleting a key that does not exist is no change, which no watch sees. Returns the store's revision after the commit.
        Raises StoreError, also if the commit is larger than `limits`; SessionEndedError; ValueError if a key is both put and
        deleted.
        """
        puts = {} if puts is None else puts
        if not puts.keys().isdisjoint(deletes):
            raise ValueError("a key is both put and deleted")
        compare = {} if compare is None else compare
        return await self._uninterrupted.run(self._queued(dict(puts), {*deletes}, dict(compare), session))

    @abc.abstractmethod
    async def open_session(self, *, ttl_ms: int, renew_ms: int) -> Session:
        """Open a session, which is renewed every `renew_ms`, and ends for other clients `ttl_ms` after its last renewal.

        A store that notices the end of its clients at once uses neither. Raises StoreError.
        """

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call `callback` for every later commit that changes a key which starts with `prefix`."""
        return Watch(prefix, callback, self._watches)

    def hasten(self) -> None:  # noqa: B027  most stores respond at once, or never
        """Give up soon whenever the store does not respond, from now on, because this process stops. What follows from that is
        logged by the caller.
        """

    async def close(self) -> None:
        """Wait for the commit that is running and release everything; idempotent."""
        async with self._one_commit:
            if not self._is_closed:
                self._is_closed = True
                await self._release()

    async def _queued(
        self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int], session: Session | None
    ) -> int | Conflict:
        async with self._one_commit:
            self._check_open()
            if session is not None:
                session.check()
            return await self._commit(puts, deletes, compare, session)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError("the metadata store is closed")

    @abc.abstractmethod
    async def _commit(
        self, puts: dict[str, bytes], deletes: set[str], compare: dict[str, int], session: Session | None
    ) -> int | Conflict:
        """Carry out a commit, as `commit` promises, while no other one runs."""

    @abc.abstractmethod
    async def _release(self) -> None:
        """Release what the store holds; called once."""

    def _call_watches(self, changes: Sequence[Change]) -> None:
        """Call every watch for which some of the changes are."""
        for watch in tuple(self._watches):
            matching = [change for change in changes if change.key.startswith(watch.prefix)]
            if matching:
                watch.callback(matching)
