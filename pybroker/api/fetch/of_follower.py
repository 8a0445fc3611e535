"""The way of a follower's usual Fetch: the next one of its session, which names a few partitions that the session has.

It reads the partitions that are not quiet (`replication/session_tracker.py`), and no others. Any other request of a follower goes
the general way, which ends the tracking; the next usual one begins it again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pybroker.api.deferred import Deferred
from pybroker.api.fetch.responses import count_partition, partition_response
from pybroker.api.fetch.usual import COPIED_BYTES_MAX, topic_responses
from pybroker.model import LeaderEpoch, Offset
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchResponse
from pybroker.replication.fetching import is_enough
from pybroker.replication.session_tracker import SessionTracker

if TYPE_CHECKING:
    from pybroker.api.context import Services
    from pybroker.protocol.messages.fetch import FetchRequest, PartitionData
    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchPartitionData, FetchResults
    from pybroker.replication.fetch_session import FetchSession

NAMED_MAX: Final = 50

_NONE: Final = ErrorCode.NONE
_new_response: Final = maker(FetchResponse, "error_code", "session_id", "responses")


def fetch_of_follower(
    broker: Services, version: int, request: FetchRequest, params: FetchParams
) -> FetchResponse | Deferred[FetchResults, FetchResponse] | None:
    """Return the response, or what becomes of it; None, with nothing done, for an unusual request."""
    replicas = broker.replica_manager
    session = broker.fetch_sessions.get(request.session_id)
    if session is None or not _is_usual(session, request, params):
        return None
    tracker = session.tracker
    if tracker is None:
        tracker = SessionTracker(replicas, params.replica_id, session.partitions)
        if not tracker.is_usual:
            tracker.close()
            return None
        session.tracker = tracker
    elif not tracker.is_usual:
        return None
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.topic_id, asked.partition)
            one = session.partitions[key]  # type: ignore[index]  # a topic's id is no type of its own in a message
            one.fetch_offset, one.max_bytes = Offset(asked.fetch_offset), asked.partition_max_bytes
            one.log_start_offset = Offset(asked.log_start_offset)
            one.current_leader_epoch = LeaderEpoch(asked.current_leader_epoch)
            one.last_fetched_epoch = LeaderEpoch(asked.last_fetched_epoch)
            tracker.named(key)  # type: ignore[arg-type]  # as above
    broker.fetch_sessions.advance(session)
    tracker.fetched_ms = session.last_used_ms
    tracker.look_through(tracker.fetched_ms)
    results = replicas.read(params, tracker.not_quiet())
    replicas.note_follower(params, results)
    if params.max_wait_ms <= 0 or (results and is_enough(params, results)):
        return _response(broker, version, session, tracker, results)
    deferred: Deferred[FetchResults, FetchResponse] = Deferred(partial(_response, broker, version, session, tracker))
    tracker.wait(lambda: deferred.complete(replicas.read(params, tracker.not_quiet())), params.max_wait_ms)
    return deferred.later()


def _is_usual(session: FetchSession, request: FetchRequest, params: FetchParams) -> bool:
    """Return whether a request is the next one of a session, names few partitions, and waits for anything at all."""
    topics, partitions = request.topics, session.partitions
    return (
        session.epoch == request.session_epoch
        and session.is_privileged
        and session.uses_topic_ids
        and not session.unresolved
        and not request.forgotten_topics_data
        and params.min_bytes <= 1
        and len(topics) <= NAMED_MAX
        and sum(len(topic.partitions) for topic in topics) <= NAMED_MAX
        and all((topic.topic_id, one.partition) in partitions for topic in topics for one in topic.partitions)
    )


def _response(
    broker: Services, version: int, session: FetchSession, tracker: SessionTracker, results: FetchResults
) -> FetchResponse:
    def respond(one: FetchPartition, data: FetchPartitionData) -> PartitionData:
        count_partition(broker.metrics, one, data)
        return partition_response(version, one, data, None)

    topics = topic_responses(tracker.responded(results), broker.metrics, respond, COPIED_BYTES_MAX, True)
    return _new_response(_NONE, session.session_id, topics)
