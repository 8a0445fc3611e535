"""Builds the response to a Produce from the results of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.api.one_partition import partition_response
from pybroker.api.produce_makers import new_response, new_topic
from pybroker.model import TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator

    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
    from pybroker.replication.produce_data import PartitionProduceResult, ProduceResults

STEP_PARTITIONS: Final = 500

Layout = list[tuple[str, TopicId, list[TopicPartition]]]
"""The topics and partitions of the response, in the request's order."""


def response_of(layout: Layout, results: ProduceResults) -> ProduceResponse:
    """Return the response about the partitions of `layout`, in its order."""
    responses = []
    for name, topic_id, asked in layout:
        partitions = [partition_response(topic_partition, results[topic_partition]) for topic_partition in asked]
        responses.append(new_topic(name, topic_id, partitions))
    return new_response(responses)


def response_in_steps(layout: Layout, *results: ProduceResults) -> Generator[None, None, ProduceResponse]:
    """Return what `response_of` returns, and yield between some of the partitions, each of which is in one of `results`."""
    responses, left = [], STEP_PARTITIONS
    for name, topic_id, asked in layout:
        partitions: list[PartitionProduceResponse] = []
        responses.append(new_topic(name, topic_id, partitions))
        for topic_partition in asked:
            partitions.append(partition_response(topic_partition, _found(topic_partition, results)))
            left -= 1
            if not left:
                left = STEP_PARTITIONS
                yield
    return new_response(responses)


def failures(layout: Layout, *results: ProduceResults) -> Generator[None, None, list[tuple[TopicPartition, ErrorCode]]]:
    """Return the partitions that failed, each of which is in one of `results`, and yield between some of them."""
    failed, left = [], STEP_PARTITIONS
    for _, _, asked in layout:
        for topic_partition in asked:
            code = _found(topic_partition, results).error_code
            if code:
                failed.append((topic_partition, code))
            left -= 1
            if not left:
                left = STEP_PARTITIONS
                yield
    return failed


def _found(topic_partition: TopicPartition, results: tuple[ProduceResults, ...]) -> PartitionProduceResult:
    return next(some[topic_partition] for some in results if topic_partition in some)
