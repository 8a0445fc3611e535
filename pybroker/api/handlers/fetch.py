"""Fetch (key 1), v0-18: read record batches from the leaders of partitions.

Behaviour
    Partitions are read in order within the limits of KIP-74. The response waits until `min_bytes` can be read or `max_wait_ms`
    has passed. Records are slices of segment files that the sender pulls when the socket can take them; before v4 they are
    converted chunk by chunk while they are sent (`down_conversion`).
Versions
    v0-1 magic 0, v2-3 magic 1, from v4 batches as they are on disk. v3 a limit on the response. v4 isolation level. v5 log start
    offset. v7 sessions. v9 leader epoch. v10 zstd. v11 rack. v12 flexible, diverging epochs. v13 topic ids. v15 replica state.
    v16 addresses of new leaders.
Not done
    Reading from a follower near the client (KIP-392): there is one replica.
Source: KafkaApis.handleFetchRequest, FetchResponse.of; KIP-74, KIP-227, KIP-283, KIP-516.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import LONG_WAIT_MS, Deferred, LongWait
from pybroker.api.down_conversion import magic_for
from pybroker.api.element_budget import parked
from pybroker.api.fetch_partition import (
    ZSTD_VERSION,
    aborted_in_steps,
    count_partition,
    partition_response,
    repeats_a_partition,
    topic_responses,
)
from pybroker.api.fetch_steps import (
    converted_in_steps,
    forgotten_keys,
    is_large,
    is_of_large_session,
    known_in_steps,
    read_in_steps,
    topics_in_steps,
    unknown_id,
    until_due,
    wanted_in_steps,
)
from pybroker.api.slices import LARGE_PARTITIONS, complete
from pybroker.model import BrokerId, TopicId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pybroker.replication import reading
from pybroker.replication.cold_lookups import ColdLookups
from pybroker.replication.fetch_context import NO_SESSION_ID
from pybroker.replication.fetch_data import (
    ClientMetadata,
    FetchIsolation,
    FetchPartition,
    FetchPartitionData,
    FetchResults,
    fetch_params,
)
from pybroker.replication.fetch_session import FINAL_EPOCH
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Coroutine, Sequence

    from pybroker.api.context import RequestContext, Services
    from pybroker.replication.fetch_context import FetchContext
    from pybroker.replication.fetch_data import FetchParams

_RACK_VERSION: Final = 11
_TOPIC_ID_VERSION: Final = 13
_REPLICA_STATE_VERSION: Final = 15
_NONE: Final = ErrorCode.NONE
_READ_COMMITTED: Final = 1
_UNCOMMITTED: Final = FetchIsolation.HIGH_WATERMARK
_COMMITTED: Final = FetchIsolation.TXN_COMMITTED
_COPIED_BYTES_MAX: Final = 64 << 10
"""Small slices are copied into a response up to this many bytes in all: cheaper than sending each as a piece of its own."""

_new_response: Final = maker(FetchResponse, "error_code", "session_id", "responses")


def handle(
    broker: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | Future[FetchResponse] | Deferred[FetchResults, FetchResponse] | Coroutine[None, None, FetchResponse]:
    """Read the partitions of the request's session, and wait for more records where the request wants that."""
    version = context.api_version
    replica_id = request.replica_state.replica_id if version >= _REPLICA_STATE_VERSION else request.replica_id
    if is_large(request) or is_of_large_session(broker.fetch_sessions, request):
        return _large(broker, context, request, replica_id)
    is_sessionless = request.session_epoch == FINAL_EPOCH and request.session_id == NO_SESSION_ID
    if is_sessionless and replica_id < 0 and version >= ZSTD_VERSION:
        response = _usual_response(broker, version, request)
        if response is not None:
            return response
    names = _names(broker) if version >= _TOPIC_ID_VERSION else None
    partitions = reading.wanted_partitions(request.topics, names)
    if len(partitions) > 1 and repeats_a_partition(request):  # the last one counts, at the place of the first
        partitions = list({one.session_key: one for one in partitions}.values())
    asked = _asked(broker, version, request, partitions, is_from_follower=replica_id >= 0)
    session = broker.fetch_sessions.context(**asked)
    params = _params(broker, context, request, replica_id)
    if len(session.partitions) > LARGE_PARTITIONS or magic_for(version) is not None:
        return _in_steps(broker, context, session, params)
    wanted, erroneous = _known(version, session)
    if not wanted:
        return _response(broker, version, session, erroneous)
    cold = ColdLookups()
    results, is_enough = broker.replica_manager.read_first(params, wanted, cold)
    if cold:
        return _in_steps(broker, context, session, params, cold)
    if is_enough:
        return _response(broker, version, session, results + erroneous if erroneous else results)
    kind = LongWait if params.max_wait_ms > LONG_WAIT_MS else Deferred
    deferred: Deferred[FetchResults, FetchResponse] = kind(lambda later: _response(broker, version, session, later + erroneous))
    operation = broker.replica_manager.wait_for_more(params, results, deferred.complete)
    if isinstance(deferred, LongWait):
        deferred.give_up = operation.give_up
        return deferred.later()
    return deferred.response()


async def _large(broker: Services, context: RequestContext, request: FetchRequest, replica_id: int) -> FetchResponse:
    """Handle a request that names many partitions."""
    version = context.api_version
    partitions = await complete(wanted_in_steps(request, _names(broker) if version >= _TOPIC_ID_VERSION else None))
    asked = _asked(broker, version, request, partitions, is_from_follower=replica_id >= 0)
    session = await complete(broker.fetch_sessions.context_in_steps(**asked))
    params = _params(broker, context, request, replica_id)
    del asked, request  # a fetch that waits does not keep what was decoded
    if session.partitions is not partitions:
        await complete(emptied(partitions))
    return await _in_steps(broker, context, session, params)


async def _in_steps(
    broker: Services, context: RequestContext, session: FetchContext, params: FetchParams, cold: ColdLookups | None = None
) -> FetchResponse:
    """Handle a request for many partitions, one of an old client, for which records are converted, or one that must look up in a
    thread what the page cache lacks: `cold`, if that is known.
    """
    manager, version = broker.replica_manager, context.api_version
    wanted, erroneous = await complete(known_in_steps(session.partitions, uses_ids=version >= _TOPIC_ID_VERSION))
    results = await read_in_steps(manager, params, wanted, cold or ColdLookups())
    if not await complete(manager.is_enough_in_steps(params, results)):
        parked()
        await until_due(manager, params, results)
        results = await read_in_steps(manager, params, wanted, ColdLookups())
    converted = await converted_in_steps(broker, context.connection, version, results)
    aborted = await complete(aborted_in_steps(results))
    results += erroneous
    session_response = await complete(session.respond_in_steps(results))
    places = count()

    def respond(one: FetchPartition, data: FetchPartitionData) -> PartitionData:
        count_partition(broker.metrics, one, data)
        return partition_response(
            broker, version, one, data, converted=converted.get(next(places)), aborted=aborted.get(one.topic_partition)
        )

    steps_to_topics = topics_in_steps(session_response.results, broker.metrics, respond, is_plain=version >= ZSTD_VERSION)
    topics = await complete(steps_to_topics)
    await complete(emptied(session_response.results, results, erroneous, wanted, session.partitions))
    return _new_response(session_response.error_code, session_response.session_id, topics)


def _known(version: int, session: FetchContext) -> tuple[Sequence[FetchPartition], FetchResults]:
    """Return the partitions to read, and the results of those whose topics' ids are unknown."""
    wanted = session.partitions
    if version < _TOPIC_ID_VERSION:
        return wanted, []
    erroneous = [unknown_id(one) for one in wanted if one.topic is None]
    return [one for one in wanted if one.topic is not None] if erroneous else wanted, erroneous


def _params(broker: Services, context: RequestContext, request: FetchRequest, replica_id: int) -> FetchParams:
    client = None
    if context.api_version >= _RACK_VERSION:
        client = ClientMetadata(request.rack_id, context.client_id or "", context.connection.peer_host)
    return fetch_params(
        version=context.api_version,
        replica_id=BrokerId(replica_id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        is_read_committed=request.isolation_level == _READ_COMMITTED,
        broker_fetch_max_bytes=broker.config.fetch_max_bytes,
        client=client,
    )


def _usual_response(broker: Services, version: int, request: FetchRequest) -> FetchResponse | None:
    """Return the response to an ordinary request, if there is enough to read and nothing about the request is unusual."""
    bytes_max = max(0, min(request.max_bytes, broker.config.fetch_max_bytes))
    results = reading.read_all_usual(
        broker.replica_manager.partitions,
        request.topics,
        _names(broker) if version >= _TOPIC_ID_VERSION else None,
        _COMMITTED if request.isolation_level == _READ_COMMITTED else _UNCOMMITTED,
        bytes_max,
        min(request.min_bytes, bytes_max) if request.max_wait_ms > 0 else 0,
    )
    return None if results is None else _new_response(_NONE, 0, topic_responses(results, broker.metrics, None, _COPIED_BYTES_MAX))


def _asked(
    broker: Services, version: int, request: FetchRequest, partitions: list[FetchPartition], *, is_from_follower: bool
) -> dict[str, Any]:
    """Return what the cache of sessions makes the context of a request from."""
    return {
        "version": version,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "is_from_follower": is_from_follower,
        "partitions": partitions,
        "forgotten": forgotten_keys(request, uses_ids=version >= _TOPIC_ID_VERSION),
        "topic_names": _names(broker),
    }


def _names(broker: Services) -> Callable[[TopicId], str | None]:
    """Return the function that finds a topic's name by its id."""

    def name_of(topic_id: TopicId) -> str | None:
        topic = broker.controller.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    return name_of


def _response(broker: Services, version: int, session: FetchContext, results: FetchResults) -> FetchResponse:
    session_response = session.respond(results)

    def respond(wanted: FetchPartition, data: FetchPartitionData) -> PartitionData:
        count_partition(broker.metrics, wanted, data)
        return partition_response(broker, version, wanted, data)

    responses = topic_responses(
        session_response.results, broker.metrics, respond, _COPIED_BYTES_MAX, is_plain=version >= ZSTD_VERSION
    )
    return _new_response(session_response.error_code, session_response.session_id, responses)
