# cython: annotation_typing=False
"""The way of a Produce of one partition, in Python; `_one_partition_native` is this same text, compiled with the types of
`_one_partition_native.pxd`.

So every rule is written once, and both builds follow it. After a change here the extension must be built again.
`handlers/produce.py` has the ways of all other requests.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pybroker.model as model  # noqa: PLR0402  (the compiled text takes it from the package that it names)
from pybroker.api.context import ADMIN_CLIENT_ID
from pybroker.api.deferred import Deferred
from pybroker.log.results import AppendOrigin
from pybroker.model import ZERO_TOPIC_ID, TopicPartition
from pybroker.protocol.codec import maker
from pybroker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pybroker.records import kernels
from pybroker.records.work import ONE_BATCH_ON_LOOP
from pybroker.replication.produce_data import REFUSED

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.protocol.messages.produce import ProduceRequest
    from pybroker.replication.produce_data import PartitionProduceResult, ProduceResults

__all__ = ["new_response", "new_topic", "only", "only_of", "partition_response", "produce_one"]

CLIENT = AppendOrigin.CLIENT
TOPIC_ID_VERSION = 13
ACKS_ALL = -1
ACKS_LEADER = 1

new_response = maker(ProduceResponse, "responses")
new_topic = maker(TopicProduceResponse, "name", "topic_id", "partition_responses")
new_partition = maker(
    PartitionProduceResponse,
    "index",
    "error_code",
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "error_message",
)


def produce_one(
    broker: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Future[ProduceResponse] | None:
    """Append to the only partition of a usual request, and return its response. Returns None for any other, with nothing done.

    A usual request has a response, names its topic, and has records that are there and belong to no transaction. Its client
    may not write internal topics. This saves the dicts and lists that several partitions need.

    Raises LongWorkError, with nothing done.
    """
    _, version, _, client_id = context
    acks = request.acks
    if acks not in {ACKS_LEADER, ACKS_ALL} or version >= TOPIC_ID_VERSION or client_id == ADMIN_CLIENT_ID:
        return None
    topics = request.topic_data
    if len(topics) != 1:
        return None
    topic = topics[0]
    partitions = topic.partition_data
    if len(partitions) != 1:
        return None
    partition = partitions[0]
    records: Any = partition.records  # the decoder makes a memoryview or None
    if records is None or kernels.is_of_transaction(records):
        return None
    topic_partition = model.new_tuple(TopicPartition, (topic.name, partition.index))
    manager = broker.replica_manager
    result, required_offset = manager.append_one(
        topic_partition, records, acks, broker.clock.time_ms(), version, CLIENT, False, ONE_BATCH_ON_LOOP
    )
    if required_offset != REFUSED:
        manager.wake(topic_partition)
    if required_offset < 0:
        return only(topic_partition, result)
    deferred = Deferred(functools.partial(only_of, topic_partition))
    manager.await_settled(
        timeout_ms=request.timeout_ms,
        acks=acks,
        results={topic_partition: result},
        unsettled={topic_partition: required_offset},
        on_complete=deferred.complete,
    )
    return deferred.response()


def only_of(topic_partition: TopicPartition, results: ProduceResults) -> ProduceResponse:
    """Return the response about one partition from its result among `results`."""
    return only(topic_partition, results[topic_partition])


def only(topic_partition: TopicPartition, result: PartitionProduceResult) -> ProduceResponse:
    """Return the response about one partition, whose topic is known by its name."""
    return new_response([new_topic(topic_partition[0], ZERO_TOPIC_ID, [partition_response(topic_partition, result)])])


def partition_response(topic_partition: TopicPartition, result: PartitionProduceResult) -> PartitionProduceResponse:
    """Return a partition's part of a response."""
    error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message = result
    response = new_partition(topic_partition[1], error_code, base_offset, log_append_time_ms, log_start_offset, error_message)
    if record_errors:
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in record_errors
        ]
    return response
