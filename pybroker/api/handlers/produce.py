"""Produce (key 0), v0-13: append records to the leaders of partitions.

Behaviour
    Each partition has a result of its own: its base offset, or why its records were refused. With acks 1 the broker responds when
    the records are in the leader's log, with acks -1 when every in-sync replica has them; in both cases when they are durable
    where `flush.messages` wants that, at the latest after the request's timeout. acks 0 has no response; when any partition
    fails, the connection is closed, so that the client learns that something is wrong.
    The records are checked in the receive buffer, and their base offset and leader epoch are written there; no records are
    copied. What takes longer than a slice is parked, and a long batch is checked in a thread (`api/appending.py`).
    `api/transactional_append.py` decides about batches of transactions; such a batch in a request without a transactional id
    makes every partition TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    Internal topics take records only from the client id `__admin_client`, as in Kafka.
Versions
    v0-1 message sets of magic 0 and 1 with codecs of that time, v2 log append time, v3 transactions, and magic 2 only: one batch
    for each partition. v5 log start offset. v7 zstd. v8 record errors. v9 flexible. v10 the current leader, where it is another.
    v12 adds partitions to the transaction (KIP-890). v13 topic ids in place of names.
Not done
    Nothing.
Source: KafkaApis.handleProduceRequest, ProduceRequest.validateRecords; KIP-98, KIP-467, KIP-516, KIP-951.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.appending import append_after, append_in_turns, hold
from pybroker.api.deferred import Deferred
from pybroker.api.produce_response import Layout, only, response_of
from pybroker.api.transactional_append import Entries, Verified, verify
from pybroker.listed import listed
from pybroker.log.results import AppendOrigin
from pybroker.model import TopicId, TopicPartition, new_tuple
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_BIT
from pybroker.records.work import ONE_BATCH_ON_LOOP, LongWorkError
from pybroker.replication.appends import Appends
from pybroker.replication.fetch_data import REFUSED, PartitionProduceResult, ProduceResults

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Awaitable, Callable

    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.produce import ProduceRequest, ProduceResponse
    from pybroker.records.work import Work

logger = logging.getLogger(__name__)

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may produce to internal topics."""

_CLIENT: Final = AppendOrigin.CLIENT
_TOPIC_ID_VERSION: Final = 13
_ACKS_WITH_RESPONSE: Final = frozenset({-1, 1})  # the acks that have a response

_NULL_RECORDS: Final = PartitionProduceResult(
    ErrorCode.INVALID_RECORD, error_message="The records of a partition must not be null"
)


def handle(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the records of each partition, and wait until they are settled where `acks` wants that."""
    version = context.api_version
    topics = request.topic_data
    is_admin = context.client_id == ADMIN_CLIENT_ID
    if len(topics) == 1 and version < _TOPIC_ID_VERSION and request.acks in _ACKS_WITH_RESPONSE and not is_admin:
        partitions = topics[0].partition_data
        if len(partitions) == 1:
            records: Any = partitions[0].records  # the decoder makes a memoryview or None
            if records is not None and not _is_transactional(records):
                topic_partition = new_tuple(TopicPartition, (topics[0].name, partitions[0].index))
                return _append_one(broker, context, request, topic_partition, records)
    entries: Entries = {}
    transactional: Entries = {}
    refused: ProduceResults = {}
    is_unauthorized = False
    layout: Layout = []
    for topic in request.topic_data:
        name, topic_id = topic.name, topic.topic_id
        known = True
        if version >= _TOPIC_ID_VERSION:
            found = broker.controller.image.topics_by_id.get(TopicId(topic_id))
            known, name = found is not None, "" if found is None else found.name
        # Partitions of unknown ids are identified by the id's bytes, which no topic's name can equal.
        key = name if known else topic_id.hex(" ")
        asked: list[TopicPartition] = []
        layout.append((name, TopicId(topic_id), asked))
        for partition in topic.partition_data:
            topic_partition = new_tuple(TopicPartition, (key, partition.index))
            asked.append(topic_partition)
            records = partition.records
            is_transactional = records is not None and _is_transactional(records)
            if is_transactional and request.transactional_id is None:
                is_unauthorized = True
            if not known:
                refused[topic_partition] = PartitionProduceResult(ErrorCode.UNKNOWN_TOPIC_ID)
            elif records is None:
                refused[topic_partition] = _NULL_RECORDS
            else:
                entries[topic_partition] = records
                if is_transactional:
                    transactional[topic_partition] = records
    if is_unauthorized:
        unauthorized = PartitionProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        entries, refused = {}, {topic_partition: unauthorized for _, _, asked in layout for topic_partition in asked}
        transactional = {}
    return _append_all(broker, context, request, layout, refused=refused, entries=entries, transactional=transactional)


def _append_all(
    broker: Services,
    context: RequestContext,
    request: ProduceRequest,
    layout: Layout,
    *,
    refused: ProduceResults,
    entries: Entries,
    transactional: Entries,
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append `entries`; the coordinator of the transaction first verifies those that are `transactional`."""
    work = broker.validations.work()
    build = functools.partial(_respond, request.acks, layout, refused)

    def appends(verified: Verified) -> Appends:
        refused.update(verified.refused)
        return Appends(
            broker.replica_manager,
            request.acks,
            verified.entries,
            request_version=context.api_version,
            is_internal_allowed=context.client_id == ADMIN_CLIENT_ID,
            work=work,
            guard=verified.guard,
        )

    verified: Verified | Future[Verified] = Verified(entries)
    if transactional:
        verified = verify(broker, context.api_version, request.transactional_id or "", entries, transactional)
    if isinstance(verified, Verified):
        return _append_in_turns(broker, context, request, appends(verified), work, build)
    holder = hold(context.connection, entries)
    return append_after(broker.validations, holder, verified, appends, work, lambda done: _settle(broker, request, done, build))


def _append_in_turns(  # noqa: PLR0917  (each is of another kind)
    broker: Services,
    context: RequestContext,
    request: ProduceRequest,
    appends: Appends,
    work: Work,
    build: Callable[[ProduceResults], ProduceResponse | None],
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Run `appends`, which may take long, and wait until the records are settled where `acks` wants that."""

    return append_in_turns(
        broker.validations, context.connection, appends, work, lambda: _settle(broker, request, appends, build)
    )


def _settle(
    broker: Services,
    request: ProduceRequest,
    appends: Appends,
    build: Callable[[ProduceResults], ProduceResponse | None],
) -> ProduceResponse | Future[ProduceResponse | None] | None:
    """Return the response, or a Future of it if the records are not settled yet."""
    if not appends.unsettled:
        return build(appends.results)
    deferred: Deferred[ProduceResults, ProduceResponse | None] = Deferred(build)
    broker.replica_manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=request.acks,
        results=appends.results,
        unsettled=appends.unsettled,
        on_complete=deferred.complete,
    )
    return deferred.response()


def _append_one(
    broker: Services, context: RequestContext, request: ProduceRequest, topic_partition: TopicPartition, records: memoryview
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append to the only partition of a request, which saves the dicts and lists that several partitions need."""
    manager = broker.replica_manager
    version, acks = context.api_version, request.acks
    try:
        result, required_offset = manager.append_one(
            topic_partition, records, acks, broker.clock.time_ms(), version, _CLIENT, False, ONE_BATCH_ON_LOOP
        )
    except LongWorkError as long:
        work = broker.validations.work()
        appends = Appends(manager, acks, {topic_partition: records}, request_version=version, work=work, long=long)
        return _append_in_turns(broker, context, request, appends, work, functools.partial(_only_of, topic_partition))
    if required_offset != REFUSED:
        manager.wake(topic_partition)
    if required_offset < 0:
        return only(topic_partition, result)

    deferred = Deferred(functools.partial(_only_of, topic_partition))
    unsettled = {topic_partition: required_offset}
    manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=acks,
        results={topic_partition: result},
        unsettled=unsettled,
        on_complete=deferred.complete,
    )
    return deferred.response()


def _only_of(topic_partition: TopicPartition, results: ProduceResults) -> ProduceResponse:
    return only(topic_partition, results[topic_partition])


def _respond(acks: int, layout: Layout, refused: ProduceResults, results: ProduceResults) -> ProduceResponse | None:
    if refused:
        results.update(refused)
    if acks == 0:
        _check_unacknowledged(results)
        return None
    return response_of(layout, results)


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) > HEADER_SIZE
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0  # the high byte is unused
        and records[MAGIC_AT] == MAGIC
    )


def _check_unacknowledged(results: ProduceResults) -> None:
    """Send no response to acks 0; a failure closes the connection. Raises ProtocolViolation."""
    failed = [(topic_partition, result.error_code) for topic_partition, result in results.items() if result.error_code]
    if failed:
        what = listed(failed, lambda one: f"{one[0]}: {one[1].name}")
        raise ProtocolViolation(f"a produce request with acks 0 failed: {what}")
