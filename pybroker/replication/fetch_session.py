"""Incremental fetch sessions: a fetcher names its many partitions once, then only changes, and gets only changes.

How it works
    A full request (epoch 0) names all partitions; its response names all of them too and carries the id of a new session, if
    there was room for one. Requests with that id and the next epoch (1, 2, ... 2147483647, 1) name only partitions that are new,
    have another offset or limit, or are forgotten. The session has the others. Their responses leave out partitions in which
    nothing changed. Epoch -1 ends the session.

Which partition is first
    The session keeps an order. A partition whose response had records moves to the end, so that under a limit on the
    response every partition gets its turn although the fetcher does not repeat them.

Which fetcher gets a session
    There are `max.incremental.fetch.session.cache.slots`. If all are taken, the session that was used longest ago
    makes room for a new one if that was more than two minutes ago (`EVICTION_MS`). Otherwise the least valuable
    session does, if the new one is worth as much: a follower's is worth more than a client's, then more partitions
    are worth more. A client's new session can only replace sessions that were older than two minutes when they were
    last used; a follower's can replace any of a client's too. A fetcher without a session makes a full request each
    time.

    Beyond Kafka, all sessions together keep at most `pybroker.fetch.session.cache.partitions` partitions, because a slot bounds
    no memory. Where a new session needs the room of others, sessions are evicted in the same order until there is room. If there
    would not be enough, none is evicted, and the fetcher gets no session. A session that grows makes room for itself like a new
    one of its new size. If it cannot, it is evicted itself, and its client makes a full request. A session that grows to more
    partitions than a full request may name is evicted, too. No session keeps a name that is too long for a topic.

Cost
    An incremental request costs two passes over the session's partitions: one to read (`ReplicaManager.read`), one to
    compare.

Source: KIP-227, KIP-516; kafka.server.FetchSession.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_context import (
    NO_SESSION_ID,
    ErrorContext,
    FetchContext,
    FullContext,
    IncrementalContext,
    SessionlessContext,
    has_possible_name,
)
from pybroker.replication.partition_data import CachedPartition

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.model import TopicId
    from pybroker.replication.fetch_data import FetchPartition, SessionKey
    from pybroker.replication.session_tracker import SessionTracker

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
TOPIC_ID_VERSION_MIN: Final = 13

TopicNames = Callable[["TopicId"], str | None]


def next_epoch(epoch: int) -> int:
    """Return the epoch that a session expects after `epoch`."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


SessionPartitions = dict["SessionKey", CachedPartition]

EvictableKey = tuple[bool, int, int]
"""A session's worth: whether it is a follower's, its number of partitions, its id."""


class FetchSession:
    """One session. Its partitions are in the order in which they are served.

    A partition of a session is replaced, not changed, by a request, because an earlier request may still wait with it.
    """

    __slots__ = (
        "created_ms",
        "epoch",
        "evictable_key",
        "has_impossible_name",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
        "tracker",
        "unresolved",
        "uses_topic_ids",
        "was_old",
    )

    def __init__(
        self,
        session_id: int,
        partitions: SessionPartitions,
        unresolved: set[SessionKey],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.session_id = session_id
        self.partitions = partitions
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.unresolved = unresolved
        self.has_impossible_name = False
        self.evictable_key: EvictableKey | None = None  # the key under which the cache has the session
        self.was_old = False
        self.tracker: SessionTracker | None = None
        """Of the usual requests of a follower; ends with one that is not."""

    def update(self, asked: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Apply the changes of an incremental request."""
        partitions = self.partitions
        for wanted in asked:
            key = wanted.session_key
            before = partitions.get(key)
            topic = wanted.topic if before is None or before.topic is None else before.topic
            cached = CachedPartition(wanted, topic, before)
            partitions[cached.key] = cached
            if not has_possible_name(topic):
                self.has_impossible_name = True
            if topic is None:
                self.unresolved.add(key)
        for key in forgotten:
            partitions.pop(key, None)
            self.unresolved.discard(key)

    def resolve(self, keys: Iterable[SessionKey], topic_names: TopicNames) -> None:
        """Look up topics whose ids were unknown before: those of the partitions with these keys."""
        for key in keys:
            partition = self.partitions[key]
            topic = topic_names(partition.topic_id) if partition.topic is None else partition.topic
            if topic is not None:
                self.unresolved.discard(key)
                self.partitions[key] = CachedPartition(partition, topic, partition)


def _counted(session: FetchSession) -> int:
    """Return how many partitions the cache counts for a session that it has: those after its last request."""
    return 0 if session.evictable_key is None else session.evictable_key[1]


def _end_tracking(session: FetchSession) -> None:
    tracker, session.tracker = session.tracker, None
    if tracker is not None:
        tracker.close()


class FetchSessionCache:
    """The sessions of one broker: at most `slots_max`, with at most `partitions_max` partitions in all, and at most `session_max`
    in each that grows. Belongs to the loop.

    `evictions` counts sessions that had to make room.
    """

    __slots__ = (
        "_clock",
        "_evictable_by_all",
        "_evictable_by_privileged",
        "_partitions_max",
        "_session_max",
        "_sessions",
        "_slots_max",
        "evictions",
        "partition_count",
    )

    def __init__(self, clock: Clock, *, slots_max: int, partitions_max: int, session_max: int | None = None) -> None:
        """Prepare an empty cache."""
        self._clock = clock
        self._session_max = partitions_max if session_max is None else session_max
        self._slots_max = slots_max
        self._partitions_max = partitions_max
        self._sessions: dict[int, FetchSession] = {}  # by id, the session used longest ago first
        self._evictable_by_all: list[EvictableKey] = []  # sorted, the least valuable first
        self._evictable_by_privileged: list[EvictableKey] = []
        self.evictions = 0
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """Return the session, without using it."""
        return self._sessions.get(session_id)

    def context(
        self,
        *,
        version: int,
        session_id: int,
        session_epoch: int,
        is_from_follower: bool,
        partitions: list[FetchPartition],
        forgotten: Iterable[SessionKey],
        topic_names: TopicNames,
    ) -> FetchContext:
        """Return the request's context, which owns `partitions`. Before version 7, session id 0 and epoch -1 apply.
        `topic_names` maps known topic ids.
        """
        session = self._found(
            version=version,
            session_id=session_id,
            session_epoch=session_epoch,
            is_from_follower=is_from_follower,
            partitions=partitions,
        )
        if not isinstance(session, FetchSession):
            return session
        _end_tracking(session)
        session.update(partitions, forgotten)
        session.resolve(tuple(session.unresolved), topic_names)
        return self._advanced(session, session_epoch, partitions)

    def _found(
        self, *, version: int, session_id: int, session_epoch: int, is_from_follower: bool, partitions: list[FetchPartition]
    ) -> FetchSession | FetchContext:
        """Return the session that an incremental request changes, or the context of any other request."""
        if session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION_ID and (old := self._sessions.get(session_id)) is not None:
                self._remove(old)
            if session_epoch == FINAL_EPOCH:
                return SessionlessContext(partitions)
            uses_topic_ids = version >= TOPIC_ID_VERSION_MIN
            return FullContext(self, partitions, is_from_follower=is_from_follower, uses_topic_ids=uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != session_epoch:
            return ErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= TOPIC_ID_VERSION_MIN):
            return ErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session

    def _advanced(self, session: FetchSession, session_epoch: int, partitions: list[FetchPartition]) -> FetchContext:
        """Return the context of the incremental request that has changed a session."""
        if not session.partitions:
            self._remove(session)
            return SessionlessContext(partitions)
        now_ms = self._clock.monotonic_ms()
        size = len(session.partitions)
        if (
            session.has_impossible_name
            or size > self._session_max
            or not self._make_room(session.is_privileged, size=size, now_ms=now_ms, grown=session)
        ):
            self._remove(session)
            self.evictions += 1
            return ErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = next_epoch(session_epoch)
        self._touch(session, now_ms)
        return IncrementalContext(session)

    def advance(self, session: FetchSession) -> None:
        """Use a session for its next request, which changes none of its partitions but their offsets."""
        session.epoch = next_epoch(session.epoch)
        self._touch(session, self._clock.monotonic_ms())

    def create(
        self, partitions: SessionPartitions, unresolved: set[SessionKey], *, is_privileged: bool, uses_topic_ids: bool
    ) -> int:
        """Make a session of partitions, which it owns; those with the keys `unresolved` have no topic yet. Returns its id, or
        NO_SESSION_ID if there is no room.
        """
        now_ms = self._clock.monotonic_ms()
        if not self._make_room(is_privileged, size=len(partitions), now_ms=now_ms):
            return NO_SESSION_ID
        session_id = secrets.randbelow(EPOCH_MAX) + 1
        while session_id in self._sessions:
            session_id = secrets.randbelow(EPOCH_MAX) + 1
        session = FetchSession(
            session_id, partitions, unresolved, is_privileged=is_privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._touch(session, now_ms)
        return session_id

    def _make_room(self, is_privileged: bool, *, size: int, now_ms: int, grown: FetchSession | None = None) -> bool:
        """Evict what is in the way of a session, if all of it may be evicted. Returns whether there is room now."""
        victims = self._in_the_way(is_privileged, size=size, now_ms=now_ms, grown=grown)
        if victims is None:
            return False
        for victim in victims:
            self._remove(victim)
        self.evictions += len(victims)
        return True

    def _in_the_way(
        self, is_privileged: bool, *, size: int, now_ms: int, grown: FetchSession | None = None
    ) -> list[FetchSession] | None:
        """Return the sessions to evict for a session of `size` partitions, a new one or `grown`; None if they are not enough."""
        slots_missing = len(self._sessions) + 1 - self._slots_max
        partitions_missing = self.partition_count + size - self._partitions_max
        if grown is not None:
            slots_missing, partitions_missing = 0, partitions_missing - _counted(grown)
        victims: list[FetchSession] = []
        evictable = self._evictable((is_privileged, size, 0), now_ms)
        while slots_missing > 0 or partitions_missing > 0:
            victim = next(evictable, None)
            if victim is None:
                return None
            if victim is not grown:
                victims.append(victim)
                slots_missing -= 1
                partitions_missing -= _counted(victim)
        return victims

    def _evictable(self, key: EvictableKey, now_ms: int) -> Iterator[FetchSession]:
        """Yield the sessions that may be evicted for one worth `key`, by the module's rules: the first one first."""
        stale: set[int] = set()
        for session_id, session in self._sessions.items():
            if now_ms - session.last_used_ms <= EVICTION_MS:
                break
            stale.add(session_id)
            yield session
        for worth in self._evictable_by_privileged if key[0] else self._evictable_by_all:
            if key < worth:
                return
            if worth[2] not in stale:
                yield self._sessions[worth[2]]

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Use the session now: it becomes the youngest, and its worth is that of its present partitions."""
        self._sessions.pop(session.session_id, None)
        self._sessions[session.session_id] = session
        session.last_used_ms = now_ms
        key = (session.is_privileged, len(session.partitions), session.session_id)
        is_old = now_ms - session.created_ms > EVICTION_MS
        if key == session.evictable_key and is_old == session.was_old:
            return
        self._forget_worth(session)
        session.evictable_key, session.was_old = key, is_old
        self.partition_count += key[1]
        if is_old or not session.is_privileged:
            insort(self._evictable_by_privileged, key)
        if is_old:
            insort(self._evictable_by_all, key)

    def _forget_worth(self, session: FetchSession) -> None:
        key = session.evictable_key
        if key is None:
            return
        self.partition_count -= key[1]
        for evictable in (self._evictable_by_all, self._evictable_by_privileged):
            index = bisect_left(evictable, key)
            if index < len(evictable) and evictable[index] == key:
                del evictable[index]

    def _remove(self, session: FetchSession) -> None:
        _end_tracking(session)
        del self._sessions[session.session_id]
        self._forget_worth(session)
