"""Builds the response to a Produce from the results of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.model import ZERO_TOPIC_ID, TopicId, TopicPartition
from pybroker.protocol.codec import maker
from pybroker.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.replication.produce_data import PartitionProduceResult, ProduceResults

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

STEP_PARTITIONS: Final = 500

Layout = list[tuple[str, TopicId, list[TopicPartition]]]
"""The topics and partitions of the response, in the request's order."""


def only(topic_partition: TopicPartition, result: PartitionProduceResult) -> ProduceResponse:
    """Return the response about one partition, whose topic is known by its name."""
    return _new_response([_new_topic(topic_partition[0], ZERO_TOPIC_ID, [_partition(topic_partition, result)])])


def response_of(layout: Layout, results: ProduceResults) -> ProduceResponse:
    """Return the response about the partitions of `layout`, in its order."""
    responses = []
    for name, topic_id, asked in layout:
        partitions = [_partition(topic_partition, results[topic_partition]) for topic_partition in asked]
        responses.append(_new_topic(name, topic_id, partitions))
    return _new_response(responses)


def response_in_steps(layout: Layout, *results: ProduceResults) -> Generator[None, None, ProduceResponse]:
    """Return what `response_of` returns, and yield between some of the partitions, each of which is in one of `results`."""
    responses, left = [], STEP_PARTITIONS
    for name, topic_id, asked in layout:
        partitions: list[PartitionProduceResponse] = []
        responses.append(_new_topic(name, topic_id, partitions))
        for topic_partition in asked:
            partitions.append(_partition(topic_partition, _found(topic_partition, results)))
            left -= 1
            if not left:
                left = STEP_PARTITIONS
                yield
    return _new_response(responses)


def failures(layout: Layout, *results: ProduceResults) -> Generator[None, None, list[tuple[TopicPartition, ErrorCode]]]:
    """Return the partitions that failed, each of which is in one of `results`, and yield between some of them."""
    failed = []
    for _, _, asked in layout:
        for number, topic_partition in enumerate(asked, 1):
            code = _found(topic_partition, results).error_code
            if code:
                failed.append((topic_partition, code))
            if not number % STEP_PARTITIONS:
                yield
    return failed


def _found(topic_partition: TopicPartition, results: tuple[ProduceResults, ...]) -> PartitionProduceResult:
    return next(some[topic_partition] for some in results if topic_partition in some)


def _partition(topic_partition: TopicPartition, result: PartitionProduceResult) -> PartitionProduceResponse:
    error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message = result
    response = _new_partition(topic_partition[1], error_code, base_offset, log_append_time_ms, log_start_offset, error_message)
    if record_errors:
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message) for index, message in record_errors
        ]
    return response
