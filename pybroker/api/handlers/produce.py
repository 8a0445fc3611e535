"""Produce (key 0), v0-13: append records to the leaders of partitions.

Behaviour
    Each partition has a result of its own: its base offset, or why its records were refused. With acks 1 the broker responds when
    the records are in the leader's log, with acks -1 when every in-sync replica has them; in both cases when they are durable
    where `flush.messages` wants that, at the latest after the request's timeout. acks 0 has no response; when any partition
    fails, the connection is closed, so that the client learns that something is wrong.
    The records are checked in the receive buffer, and their base offset and leader epoch are written there; no records are
    copied.
Versions
    v0-1 message sets of magic 0 and 1 with codecs of that time, v2 log append time, v3 magic 2 only: exactly one batch for each
    partition. v5 log start offset. v7 zstd. v8 record errors. v9 flexible. v10 the current leader, where it is another. v13 topic
    ids in place of names.
Not done
    Transactions: a batch that belongs to a transaction is refused with INVALID_TXN_STATE, because no transaction can be open.
    Such a batch in a request without a transactional id makes every partition TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
Source: KafkaApis.handleProduceRequest, ProduceRequest.validateRecords; KIP-98, KIP-467, KIP-516, KIP-951.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.model import ZERO_TOPIC_ID, TopicId, TopicPartition, new_tuple
from pybroker.network.context import ProtocolViolation
from pybroker.protocol.codec import maker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pybroker.records.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_BIT
from pybroker.replication.fetch_data import PartitionProduceResult, ProduceResults
from pybroker.replication.replica_manager import REFUSED

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

logger = logging.getLogger(__name__)

_TOPIC_ID_VERSION: Final = 13
_ACKS_WITH_RESPONSE: Final = frozenset({-1, 1})  # the acks that have a response

_new_response: Final = maker(ProduceResponse, "responses")
_new_topic: Final = maker(TopicProduceResponse, "name", "topic_id", "partition_responses")
_new_partition: Final = maker(
    PartitionProduceResponse,
    "index",
    "error_code",
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "error_message",
)

Layout = list[tuple[str, TopicId, list[TopicPartition]]]
"""The topics and partitions of the response, in the request's order."""


def handle(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Future[ProduceResponse] | None:
    """Append the records of each partition, and wait until they are settled where `acks` wants that."""
    version = context.api_version
    topics = request.topic_data
    if len(topics) == 1 and version < _TOPIC_ID_VERSION and request.acks in _ACKS_WITH_RESPONSE:
        partitions = topics[0].partition_data
        if len(partitions) == 1:
            records: Any = partitions[0].records  # the decoder makes a memoryview or None
            if records is not None and not _is_transactional(records):
                topic_partition = new_tuple(TopicPartition, (topics[0].name, partitions[0].index))
                return _append_one(broker, version, request, topic_partition, records)
    entries: dict[TopicPartition, memoryview] = {}
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
            elif records is None or is_transactional:
                refused[topic_partition] = _refusal(records)
            else:
                entries[topic_partition] = records
    if is_unauthorized:
        unauthorized = PartitionProduceResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        entries, refused = {}, {topic_partition: unauthorized for _, _, asked in layout for topic_partition in asked}

    results, unsettled = broker.replica_manager.append(request.acks, entries, request_version=version)
    if not unsettled:
        return _respond(request.acks, layout, refused, results)
    deferred = Deferred(functools.partial(_respond, request.acks, layout, refused))
    broker.replica_manager.await_settled(
        timeout_ms=request.timeout_ms, acks=request.acks, results=results, unsettled=unsettled, on_complete=deferred.complete
    )
    return deferred.response()  # type: ignore[return-value]  # acks 0 never waits


def _append_one(
    broker: Services, version: int, request: ProduceRequest, topic_partition: TopicPartition, records: memoryview
) -> ProduceResponse | Future[ProduceResponse]:
    """Append to the only partition of a request, which saves the dicts and lists that several partitions need."""
    manager = broker.replica_manager
    acks = request.acks
    result, required_offset = manager.append_one(topic_partition, records, acks, broker.clock.time_ms(), version)
    if required_offset != REFUSED:
        manager.wake(topic_partition)
    if required_offset < 0:
        return _only(topic_partition, result)

    def respond(results: ProduceResults) -> ProduceResponse:
        return _only(topic_partition, results[topic_partition])

    deferred = Deferred(respond)
    unsettled = {topic_partition: required_offset}
    manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=acks,
        results={topic_partition: result},
        unsettled=unsettled,
        on_complete=deferred.complete,
    )
    return deferred.response()


def _only(topic_partition: TopicPartition, result: PartitionProduceResult) -> ProduceResponse:
    """Return the response about one partition, whose topic is known by its name."""
    return _new_response([_new_topic(topic_partition[0], ZERO_TOPIC_ID, [_partition(topic_partition, result)])])


def _respond(acks: int, layout: Layout, refused: ProduceResults, results: ProduceResults) -> ProduceResponse | None:
    if refused:
        results.update(refused)
    if acks == 0:
        _check_unacknowledged(results)
        return None
    responses = []
    for name, topic_id, asked in layout:
        partitions = [_partition(topic_partition, results[topic_partition]) for topic_partition in asked]
        responses.append(_new_topic(name, topic_id, partitions))
    return _new_response(responses)


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) > HEADER_SIZE
        and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT != 0  # the high byte is unused
        and records[MAGIC_AT] == MAGIC
    )


def _refusal(records: memoryview | None) -> PartitionProduceResult:
    """Return the refusal of records for which the log is not needed."""
    if records is None:
        return PartitionProduceResult(ErrorCode.INVALID_RECORD, error_message="The records of a partition must not be null")
    return PartitionProduceResult(ErrorCode.INVALID_TXN_STATE, error_message="No transaction is open")


def _partition(topic_partition: TopicPartition, result: PartitionProduceResult) -> PartitionProduceResponse:
    error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message = result
    response = _new_partition(topic_partition[1], error_code, base_offset, log_append_time_ms, log_start_offset, error_message)
    if record_errors:
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in record_errors
        ]
    return response


def _check_unacknowledged(results: ProduceResults) -> None:
    """Send no response to acks 0; a failure closes the connection. Raises ProtocolViolation."""
    failed = {tp: result.error_code for tp, result in results.items() if result.error_code}
    if failed:
        what = ", ".join(f"{tp}: {code.name}" for tp, code in failed.items())
        raise ProtocolViolation(f"a produce request with acks 0 failed: {what}")
