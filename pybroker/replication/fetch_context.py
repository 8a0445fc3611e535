"""One fetch request in terms of sessions: which partitions it reads, and what its response names.

`fetch_session.py` has the rules of sessions, and returns the context of each request.

Source: KIP-227; kafka.server.FetchContext and its subclasses.
"""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.names import NAME_CHARACTERS_MAX
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.partition_data import CachedPartition

if TYPE_CHECKING:
    from pybroker.replication.fetch_data import FetchPartition, FetchResults, SessionKey
    from pybroker.replication.fetch_session import FetchSession, FetchSessionCache, SessionPartitions

logger = logging.getLogger(__name__)

NO_SESSION_ID: Final = 0

_NO_ERROR: Final = ErrorCode.NONE


def has_possible_name(topic: str | None) -> bool:
    """Return whether a topic may have this name, as far as its length is concerned; True for a topic that only has an id.

    A session keeps no other names: each may take 32 kB, and a session that names its topics keeps them all.
    """
    return topic is None or len(topic) <= NAME_CHARACTERS_MAX


class SessionResponse(NamedTuple):
    """The content of a fetch response: for the whole, and for the partitions that it names."""

    error_code: ErrorCode
    session_id: int
    results: FetchResults


class FetchContext(abc.ABC):
    """One fetch request in terms of sessions: the partitions to read, and then the response."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: list[FetchPartition]) -> None:
        """Own `partitions`."""
        self.partitions = partitions

    @abc.abstractmethod
    def respond(self, results: FetchResults) -> SessionResponse:
        """Return the response. Called once, with a result for each of `partitions`: for these very objects, in any order."""


class ErrorContext(FetchContext):
    """A request that does not fit its session: there is nothing to read."""

    __slots__ = ("_error_code",)

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__([])
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
        return SessionResponse(_NO_ERROR, NO_SESSION_ID, results)


class FullContext(FetchContext):
    """All partitions of the request, from which the response makes a new session."""

    __slots__ = ("_cache", "_is_from_follower", "_uses_topic_ids")

    def __init__(
        self, cache: FetchSessionCache, partitions: list[FetchPartition], *, is_from_follower: bool, uses_topic_ids: bool
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._is_from_follower = is_from_follower
        self._uses_topic_ids = uses_topic_ids

    def respond(self, results: FetchResults) -> SessionResponse:
        """Return all results, and the new session's id if there was room for one."""
        if not all(has_possible_name(asked.topic) for asked, _ in results):
            return SessionResponse(_NO_ERROR, NO_SESSION_ID, results)
        partitions: SessionPartitions = {}
        unresolved: set[SessionKey] = set()
        for asked, data in results:
            cached = CachedPartition(asked, asked.topic)
            cached.sent_high_watermark = data.high_watermark
            cached.sent_log_start_offset = data.log_start_offset
            partitions[cached.key] = cached
            if cached.topic is None:
                unresolved.add(cached.key)
        session_id = self._cache.create(
            partitions, unresolved, is_privileged=self._is_from_follower, uses_topic_ids=self._uses_topic_ids
        )
        return SessionResponse(_NO_ERROR, session_id, results)


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
        session = self._session
        if session.epoch != self._epoch:
            logger.info(
                "Fetch session %d is at epoch %d, not %d: a request is refused, maybe a repeated one",
                session.session_id,
                session.epoch,
                self._epoch,
            )
            return SessionResponse(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, [])
        changed: FetchResults = []
        for result in results:
            partition, data = result
            assert isinstance(partition, CachedPartition)
            if not partition.remember_response(data):
                continue
            changed.append(result)
            if data.records is not None and data.records.size and session.partitions.pop(partition.key, None) is not None:
                session.partitions[partition.key] = partition
        return SessionResponse(_NO_ERROR, session.session_id, changed)
