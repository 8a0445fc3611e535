"""Incremental fetch sessions: a fetcher names its many partitions once, then only changes, and gets only changes.

How it works
    A full request (epoch 0) names all partitions; its response names all of them too and carries the id of a new
    session, if there was room for one. Requests with that id and the next epoch (1, 2, ... 2147483647, 1) name only
    partitions that are new, have another offset or limit, or are forgotten; the rest is taken from the session. Their
    responses leave out partitions in which nothing changed. Epoch -1 ends the session.

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

Cost
    An incremental request costs two passes over the session's partitions: one to read (`ReplicaManager.read`), one to
    compare.

Source: KIP-227, KIP-516; kafka.server.FetchSession.
"""

from __future__ import annotations

import abc
import logging
import secrets
from bisect import bisect_left, insort
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.model import NO_OFFSET, Offset, new_tuple
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.fetch_data import (
    FetchPartition,
    FetchPartitionData,
    FetchResults,
    SessionKey,
)

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.model import TopicId

logger = logging.getLogger(__name__)

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
TOPIC_ID_VERSION_MIN: Final = 13

_STEP_PARTITIONS: Final = 200
_NO_ERROR: Final = ErrorCode.NONE

TopicNames = Callable[["TopicId"], str | None]


def next_epoch(epoch: int) -> int:
    """Return the epoch that a session expects after `epoch`."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


class CachedPartition(FetchPartition):
    """A partition of a session: the fields of its last request, and of its last response (`sent_...`)."""

    __slots__ = ("key", "sent_high_watermark", "sent_log_start_offset")

    def __init__(self, asked: FetchPartition, topic: str | None, before: CachedPartition | None = None) -> None:
        super().__init__(
            topic,
            asked.topic_id,
            asked.partition,
            fetch_offset=asked.fetch_offset,
            max_bytes=asked.max_bytes,
            log_start_offset=asked.log_start_offset,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        self.key = asked.session_key
        self.sent_high_watermark: Offset = NO_OFFSET if before is None else before.sent_high_watermark
        self.sent_log_start_offset: Offset = NO_OFFSET if before is None else before.sent_log_start_offset

    def remember_response(self, data: FetchPartitionData) -> bool:
        """Remember the response. Returns whether it must be sent: anything but "the same as last time, and no records"."""
        must_send = (
            (data.records is not None and data.records.size > 0)
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        if data.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = data.high_watermark
            must_send = True
        if data.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = data.log_start_offset
            must_send = True
        if data.error_code:
            self.sent_high_watermark = NO_OFFSET  # so that a response is sent when the error ends
            must_send = True
        return must_send


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
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
        "unresolved",
        "uses_topic_ids",
        "was_old",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[SessionKey, CachedPartition],
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
        self.unresolved = {key for key, partition in partitions.items() if partition.topic is None}
        self.evictable_key: EvictableKey | None = None  # the key under which the cache has the session
        self.was_old = False

    def update(self, asked: Iterable[FetchPartition], forgotten: Iterable[SessionKey]) -> None:
        """Apply the changes of an incremental request."""
        partitions = self.partitions
        for wanted in asked:
            key = wanted.session_key
            before = partitions.get(key)
            topic = wanted.topic if before is None or before.topic is None else before.topic
            partitions[key] = CachedPartition(wanted, topic, before)
            if topic is None:
                self.unresolved.add(key)
        for key in forgotten:
            partitions.pop(key, None)
            self.unresolved.discard(key)

    def resolve(self, topic_names: TopicNames) -> None:
        """Look up topics whose ids were unknown before."""
        for key in list(self.unresolved):
            partition = self.partitions[key]
            topic = topic_names(partition.topic_id) if partition.topic is None else partition.topic
            if topic is not None:
                self.unresolved.discard(key)
                self.partitions[key] = CachedPartition(partition, topic, partition)


class SessionResponse(NamedTuple):
    """The content of a fetch response: for the whole, and for the partitions that it names."""

    error_code: ErrorCode
    session_id: int
    results: FetchResults


class FetchContext(abc.ABC):
    """One fetch request in terms of sessions: the partitions to read, and then the response."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: Sequence[FetchPartition]) -> None:
        self.partitions = partitions

    @abc.abstractmethod
    def respond(self, results: FetchResults) -> SessionResponse:
        """Return the response. Called once, with a result for each of `partitions`: for these very objects, in any order."""

    def respond_in_steps(self, results: FetchResults) -> Generator[None, None, SessionResponse]:
        """Return the response, as `respond` does at once. Yields wherever others may have their turn."""
        yield
        return self.respond(results)


class ErrorContext(FetchContext):
    """A request that does not fit its session: there is nothing to read."""

    __slots__ = ("_error_code",)

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(())
        self._error_code = error_code

    def respond(self, results: FetchResults) -> SessionResponse:
        """Return the error, without a session."""
        del results
        return SessionResponse(self._error_code, NO_SESSION_ID, [])


class SessionlessContext(FetchContext):
    """All partitions of the request, without a session."""

    __slots__ = ()

    def respond(self, results: FetchResults) -> SessionResponse:
        """Return all results."""
        return new_tuple(SessionResponse, (_NO_ERROR, NO_SESSION_ID, results))


class FullContext(FetchContext):
    """All partitions of the request, from which the response makes a new session."""

    __slots__ = ("_cache", "_is_from_follower", "_uses_topic_ids")

    def __init__(
        self, cache: FetchSessionCache, partitions: Sequence[FetchPartition], *, is_from_follower: bool, uses_topic_ids: bool
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._is_from_follower = is_from_follower
        self._uses_topic_ids = uses_topic_ids

    def respond(self, results: FetchResults) -> SessionResponse:
        """Return all results, and the new session's id if there was room for one."""
        return self._respond(results, _cached(results))

    def respond_in_steps(self, results: FetchResults) -> Generator[None, None, SessionResponse]:
        """Return the response, as `respond` does at once."""
        partitions: dict[SessionKey, CachedPartition] = {}
        for some in _steps(results):
            partitions |= _cached(some)
            yield
        return self._respond(results, partitions)

    def _respond(self, results: FetchResults, partitions: dict[SessionKey, CachedPartition]) -> SessionResponse:
        session_id = self._cache.create(partitions, is_privileged=self._is_from_follower, uses_topic_ids=self._uses_topic_ids)
        return SessionResponse(ErrorCode.NONE, session_id, results)


class IncrementalContext(FetchContext):
    """All partitions of the session, of which only changed ones are in the response."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        super().__init__(list(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def respond(self, results: FetchResults) -> SessionResponse:
        """Return the changes since the last response; INVALID_FETCH_SESSION_EPOCH if another request has advanced the
        session.
        """
        return self._refusal() or self._response(self._changed(results))

    def respond_in_steps(self, results: FetchResults) -> Generator[None, None, SessionResponse]:
        """Return the response, as `respond` does at once. Another request may advance the session in between."""
        refusal = self._refusal()
        changed: FetchResults = []
        for some in _steps(results):
            if refusal is not None:
                return refusal
            changed += self._changed(some)
            yield
            refusal = self._refusal()
        return refusal or self._response(changed)

    def _response(self, changed: FetchResults) -> SessionResponse:
        return SessionResponse(ErrorCode.NONE, self._session.session_id, changed)

    def _refusal(self) -> SessionResponse | None:
        session = self._session
        if session.epoch != self._epoch:
            logger.info(
                "Fetch session %d is at epoch %d, not %d: a request is refused, maybe a repeated one",
                session.session_id,
                session.epoch,
                self._epoch,
            )
            return SessionResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, [])
        return None

    def _changed(self, results: FetchResults) -> FetchResults:
        """Return the results that the client does not know yet, and remember that it will."""
        session = self._session
        changed: FetchResults = []
        for result in results:
            partition, data = result
            assert isinstance(partition, CachedPartition)
            if not partition.remember_response(data):
                continue
            changed.append(result)
            if data.records is not None and data.records.size:
                del session.partitions[partition.key]
                session.partitions[partition.key] = partition
        return changed


def _steps(results: FetchResults) -> Iterator[FetchResults]:
    """Yield the results a few at a time."""
    for start in range(0, len(results), _STEP_PARTITIONS):
        yield results[start : start + _STEP_PARTITIONS]


def _cached(results: FetchResults) -> dict[SessionKey, CachedPartition]:
    """Return the partitions of a response as those of a new session."""
    partitions: dict[SessionKey, CachedPartition] = {}
    for asked, data in results:
        cached = CachedPartition(asked, asked.topic)
        cached.sent_high_watermark = data.high_watermark
        cached.sent_log_start_offset = data.log_start_offset
        partitions[cached.key] = cached
    return partitions


class FetchSessionCache:
    """The sessions of one broker. Belongs to the loop.

    `evictions` counts sessions that had to make room.
    """

    __slots__ = (
        "_clock",
        "_evictable_by_all",
        "_evictable_by_privileged",
        "_sessions",
        "_slots_max",
        "evictions",
        "partition_count",
    )

    def __init__(self, clock: Clock, slots_max: int) -> None:
        self._clock = clock
        self._slots_max = slots_max
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
        partitions: Sequence[FetchPartition],
        forgotten: Iterable[SessionKey],
        topic_names: TopicNames,
    ) -> FetchContext:
        """Return the request's context. Before version 7, session id 0 and epoch -1 apply. `topic_names` maps known
        topic ids.
        """
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
        session.update(partitions, forgotten)
        if not session.partitions:
            self._remove(session)
            return SessionlessContext(partitions)
        session.resolve(topic_names)
        session.epoch = next_epoch(session.epoch)
        self._touch(session, self._clock.monotonic_ms())
        return IncrementalContext(session)

    def create(self, partitions: dict[SessionKey, CachedPartition], *, is_privileged: bool, uses_topic_ids: bool) -> int:
        """Make a session of partitions, which it owns. Returns its id, or NO_SESSION_ID if there is no room."""
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots_max and not self._evict((is_privileged, len(partitions), 0), now_ms):
            return NO_SESSION_ID
        session_id = secrets.randbelow(EPOCH_MAX) + 1
        while session_id in self._sessions:
            session_id = secrets.randbelow(EPOCH_MAX) + 1
        session = FetchSession(session_id, partitions, is_privileged=is_privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        self._touch(session, now_ms)
        return session_id

    def _evict(self, key: EvictableKey, now_ms: int) -> bool:
        """Make room for a session worth `key`, by the module's rules."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            victim = oldest
        else:
            evictable = self._evictable_by_privileged if key[0] else self._evictable_by_all
            if not evictable or key < evictable[0]:
                return False
            victim = self._sessions[evictable[0][2]]
        self._remove(victim)
        self.evictions += 1
        return True

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
        del self._sessions[session.session_id]
        self._forget_worth(session)
