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
    Reading from a follower near the client (KIP-392): clients are sent to leaders.
Source: KafkaApis.handleFetchRequest, FetchResponse.of; KIP-74, KIP-227, KIP-283, KIP-516.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.fetch.of_follower import fetch_of_follower
from pybroker.api.fetch.responses import count_partition, for_old_client, partition_response, repeats_a_partition
from pybroker.api.fetch.usual import (
    COPIED_BYTES_MAX,
    READ_COMMITTED,
    REPLICA_STATE_VERSION,
    TOPIC_ID_VERSION,
    ZSTD_VERSION,
    names_of,
    replica_of,
    topic_responses,
    usual_response,
)
from pybroker.model import ZERO_TOPIC_ID, BrokerId, TopicId
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pybroker.replication import reading
from pybroker.replication.fetch_data import (
    ClientMetadata,
    FetchPartition,
    FetchPartitionData,
    FetchResults,
    fetch_params,
    session_key,
)
from pybroker.replication.fetching import fetch
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterator

    from pybroker.api.context import RequestContext, Services
    from pybroker.api.deferred import Deferred
    from pybroker.api.fetch.down_conversion import Converted
    from pybroker.model import TopicPartition
    from pybroker.replication.fetch_data import FetchParams, SessionKey
    from pybroker.sharing.work import Work

_RACK_VERSION: Final = 11
_LONG_WAIT_MS: Final = 60_000
"""A fetch that may wait for longer is given up when its connection is closed. One that waits for less stays until its time, as
all do in Kafka: to watch a connection costs a callback.
"""

_new_response: Final = maker(FetchResponse, "error_code", "session_id", "responses")


def handle(
    broker: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | Future[FetchResponse] | Deferred[FetchResults, FetchResponse]:
    """Read the partitions of the request's session, and wait for more records where the request wants that."""
    version = context.api_version
    response = usual_response(broker, version, request)
    if response is not None:
        return response
    replica_id = replica_of(version, request)
    if replica_id >= 0 and request.session_epoch > 0 and version >= REPLICA_STATE_VERSION:
        found = fetch_of_follower(broker, version, request, _params(broker, context, request, replica_id))
        if found is not None:
            return found
    is_long = request.max_wait_ms > _LONG_WAIT_MS
    return in_slices(_fetch(broker, context, request, replica_id), ends_with_connection=is_long)


def handle_allowed(
    broker: Services, context: RequestContext, request: FetchRequest, allows: Callable[[str], bool]
) -> FetchResponse | Future[FetchResponse]:
    """Handle a request whose client may read only the topics that `allows` returns True for; the partitions of others are
    TOPIC_AUTHORIZATION_FAILED, also those of its session.
    """
    is_long = request.max_wait_ms > _LONG_WAIT_MS
    replica_id = replica_of(context.api_version, request)
    return in_slices(_fetch(broker, context, request, replica_id, allows), ends_with_connection=is_long)


def _fetch(
    broker: Services,
    context: RequestContext,
    request: FetchRequest,
    replica_id: BrokerId,
    allows: Callable[[str], bool] | None = None,
) -> Work[FetchResponse]:
    """Handle any request."""
    version, names = context.api_version, names_of(broker)
    uses_ids = version >= TOPIC_ID_VERSION
    partitions = reading.wanted_partitions(request.topics, names if uses_ids else None)
    if len(partitions) > 1 and repeats_a_partition(request):  # the last one counts, at the place of the first
        partitions = list({one.session_key: one for one in partitions}.values())
    session = broker.fetch_sessions.context(
        version=version,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        is_from_follower=replica_id >= 0,
        partitions=partitions,
        forgotten=_forgotten_keys(request, uses_ids=uses_ids),
        topic_names=names,
    )
    params = _params(broker, context, request, replica_id)
    del request, partitions  # a fetch that waits does not keep what was decoded
    wanted, unknown = session.partitions, FetchResults()
    if uses_ids and any(one.topic is None for one in wanted):
        unknown = [(one, FetchPartitionData(ErrorCode.UNKNOWN_TOPIC_ID)) for one in wanted if one.topic is None]
        wanted = [one for one in wanted if one.topic is not None]
    if allows is not None:
        refused = [one for one in wanted if not allows(one.topic or "")]
        unknown += [(one, FetchPartitionData(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for one in refused]
        wanted = [one for one in wanted if allows(one.topic or "")]
    results: FetchResults = []
    if wanted:
        results = yield from fetch(broker.replica_manager, params, wanted)
    replaced: dict[TopicPartition, Converted] = {}
    if version < ZSTD_VERSION:
        replaced = yield from for_old_client(broker, context.connection, version, results)
    error_code, session_id, results = session.respond(results + unknown if unknown else results)
    yield None

    def respond(one: FetchPartition, data: FetchPartitionData) -> PartitionData:
        count_partition(broker.metrics, one, data)
        return partition_response(version, one, data, replaced.get(one.topic_partition))

    topics = topic_responses(results, broker.metrics, respond, COPIED_BYTES_MAX, version >= ZSTD_VERSION)
    return _new_response(error_code, session_id, topics)


def _params(broker: Services, context: RequestContext, request: FetchRequest, replica_id: BrokerId) -> FetchParams:
    client = None
    if context.api_version >= _RACK_VERSION:
        client = ClientMetadata(request.rack_id, context.client_id or "", context.connection.peer_host)
    return fetch_params(
        version=context.api_version,
        replica_id=replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        is_read_committed=request.isolation_level == READ_COMMITTED,
        broker_fetch_max_bytes=broker.config.fetch_max_bytes,
        client=client,
        replica_epoch=request.replica_state.replica_epoch if context.api_version >= REPLICA_STATE_VERSION else -1,
    )


def _forgotten_keys(request: FetchRequest, *, uses_ids: bool) -> Iterator[SessionKey]:
    """Yield the keys of the partitions that the session forgets."""
    for topic in request.forgotten_topics_data:
        name, topic_id = (None, TopicId(topic.topic_id)) if uses_ids else (topic.topic, ZERO_TOPIC_ID)
        for number in topic.partitions:
            yield session_key(name, topic_id, number)
