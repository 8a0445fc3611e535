"""A fetch of many partitions, in steps between which the loop serves others.

What others see between two steps
    Each partition is read at the time of its step, as each request thread of Kafka does while others append. The limits of the
    response, and the order of the partitions, are those of the whole request.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.down_conversion import Conversion, Converted, DownConversion, magic_for
from pybroker.api.fetch_partition import conversion_of, topic_responses
from pybroker.api.pieces import cut
from pybroker.api.slices import LARGE_PARTITIONS, Pauses, complete
from pybroker.model import ZERO_TOPIC_ID, TopicId
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.errors import ConversionClosedError
from pybroker.replication import reading
from pybroker.replication.fetch_context import NO_SESSION_ID
from pybroker.replication.fetch_data import FetchPartitionData, session_key
from pybroker.slicing import emptied

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from pybroker.api.context import Services
    from pybroker.long_work import LongWork
    from pybroker.metrics.broker_metrics import BrokerMetrics
    from pybroker.network.context import ConnectionContext
    from pybroker.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, PartitionData
    from pybroker.replication.cold_lookups import ColdLookups
    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchResults, SessionKey
    from pybroker.replication.fetch_session import FetchSessionCache
    from pybroker.replication.replica_manager import ReplicaManager

_STEP_PARTITIONS: Final = 200
_PARTS: Final = 256


def is_large(request: FetchRequest) -> bool:
    """Return whether a request names many partitions."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        count += 1 + len(forgotten.partitions)
    return count > LARGE_PARTITIONS


def is_of_large_session(sessions: FetchSessionCache, request: FetchRequest) -> bool:
    """Return whether a request reads or changes a session of many partitions."""
    if request.session_id == NO_SESSION_ID:
        return False
    session = sessions.get(request.session_id)
    return session is not None and len(session.partitions) > LARGE_PARTITIONS


def forgotten_keys(request: FetchRequest, *, uses_ids: bool) -> Iterator[SessionKey]:
    """Yield the keys of the partitions that the session forgets."""
    for topic in request.forgotten_topics_data:
        name, topic_id = (None, TopicId(topic.topic_id)) if uses_ids else (topic.topic, ZERO_TOPIC_ID)
        for number in topic.partitions:
            yield session_key(name, topic_id, number)


def wanted_in_steps(
    request: FetchRequest, names: Callable[[TopicId], str | None] | None
) -> Generator[None, None, list[FetchPartition]]:
    """Return the partitions of a request; of one that is named twice, the last counts, at the place of the first."""
    wanted: list[FetchPartition] = []
    # Where a large dict grows, it is copied as a whole. A dict of texts and numbers alone is none of the collector's, until it
    # grows: then the next collection looks at all of it again. One that refers to a list stays among the old objects.
    places: list[dict[Any, Any]] = [{None: []} for _ in range(_PARTS)]
    for piece, _ in cut(request, ["topics", "partitions"], _STEP_PARTITIONS):
        for one in reading.wanted_partitions(piece.topics, names):
            key = one.session_key
            place: int = places[hash(key) % _PARTS].setdefault(key, len(wanted))
            wanted[place : place + 1] = (one,)
        yield
    yield from emptied(*places)
    return wanted


def known_in_steps(
    wanted: list[FetchPartition], *, uses_ids: bool
) -> Generator[None, None, tuple[list[FetchPartition], FetchResults]]:
    """Return the partitions to read, and the results of those whose topics' ids are unknown.

    Without such, `wanted` itself is returned. A list that grows while nothing else is made is long when the collector sees it
    first, and three collections would go through it.
    """
    erroneous: FetchResults = []
    if uses_ids:
        for start in range(0, len(wanted), _STEP_PARTITIONS):
            erroneous += [unknown_id(one) for one in wanted[start : start + _STEP_PARTITIONS] if one.topic is None]
            yield
    if not erroneous:
        return wanted, erroneous
    known: list[FetchPartition] = []
    for start in range(0, len(wanted), _STEP_PARTITIONS):
        known += [one for one in wanted[start : start + _STEP_PARTITIONS] if one.topic is not None]
        yield
    return known, erroneous


def unknown_id(wanted: FetchPartition) -> tuple[FetchPartition, FetchPartitionData]:
    """Return the result of a partition whose topic's id is unknown."""
    return wanted, FetchPartitionData(ErrorCode.UNKNOWN_TOPIC_ID)


async def read_in_steps(
    replicas: ReplicaManager, params: FetchParams, wanted: Sequence[FetchPartition], cold: ColdLookups
) -> FetchResults:
    """Read whatever is available, within the limits, as `ReplicaManager.read_first` does at once; what the page cache lacks is
    looked up in a thread, and what is known of that already comes first.
    """
    results: FetchResults = []
    pauses = Pauses()
    for start in range(0, len(wanted), _STEP_PARTITIONS):
        asked = wanted[start : start + _STEP_PARTITIONS]
        is_read = False
        while cold or not is_read:
            if cold:
                await asyncio.get_running_loop().run_in_executor(None, cold.take())
            some, _ = replicas.read_first(params, asked, cold)
            is_read = True
        results += some
        size = sum(data.records.size for _, data in some if data.records is not None)
        if size:
            params = dataclasses.replace(params, max_bytes=max(0, params.max_bytes - size), is_continued=True)
        await pauses.between()
    return results


async def converted_in_steps(
    broker: Services, connection: ConnectionContext, version: int, results: FetchResults
) -> dict[int, Converted]:
    """Return the records that a client of an old version gets, by their places in `results`."""
    converted: dict[int, Converted] = {}
    magic = magic_for(version)
    if magic is None:
        return converted
    conversion = DownConversion(broker.config, broker.metrics, magic)
    pauses = Pauses()
    for number, (one, data) in enumerate(results):
        steps = conversion_of(broker, version, conversion, one, data)
        if steps is not None:
            converted[number] = await _measured(broker.conversions, connection, steps)
        await pauses.between()
    return converted


async def _measured(threads: LongWork, connection: ConnectionContext, steps: Conversion) -> Converted:
    """Run `steps`, which ends when the connection is lost: with ProtocolViolation."""
    try:
        lazy = next(steps)
        while True:
            connection.on_lost = lazy.close
            try:
                await threads.run(lazy.measure)
            except ConversionClosedError:
                raise ProtocolViolation("the connection is closed") from None
            except Exception as error:
                lazy = steps.throw(error)
            else:
                lazy = next(steps)
            finally:
                connection.on_lost = None
    except StopIteration as stopped:
        converted: Converted = stopped.value
        return converted


async def until_due(replicas: ReplicaManager, params: FetchParams, results: FetchResults) -> None:
    """Wait until there is more to read than `results`, or an event or the time ends the wait of the fetch. Empties `results`."""
    due = asyncio.get_running_loop().create_future()

    def on_due() -> None:
        if not due.done():  # otherwise the connection was closed
            due.set_result(None)

    operation = await complete(replicas.wait_in_steps(params, results, on_due))
    await due
    await complete(operation.free())


def topics_in_steps(
    results: FetchResults,
    metrics: BrokerMetrics,
    respond: Callable[[FetchPartition, FetchPartitionData], PartitionData],
    *,
    is_plain: bool,
) -> Generator[None, None, list[FetchableTopicResponse]]:
    """Return the responses by topics, as `topic_responses` does at once. No slice is copied into them."""
    topics: list[FetchableTopicResponse] = []
    for start in range(0, len(results), _STEP_PARTITIONS):
        some = topic_responses(results[start : start + _STEP_PARTITIONS], metrics, respond, 0, is_plain=is_plain)
        if topics and (topics[-1].topic, topics[-1].topic_id) == (some[0].topic, some[0].topic_id):
            topics[-1].partitions += some.pop(0).partitions
        topics += some
        yield
    return topics
