"""Builds the response to a Produce from the results of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.api.produce.makers import new_response, new_topic
from pybroker.api.produce.one_partition import partition_response
from pybroker.model import TopicId, TopicPartition
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import ErrorCode
    from pybroker.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
    from pybroker.replication.produce_data import ProduceResults
    from pybroker.sharing.work import Pausing

Layout = list[tuple[str, TopicId, list[TopicPartition]]]
"""The topics and partitions of the response, in the request's order."""


def response_of(layout: Layout, results: ProduceResults) -> Pausing[ProduceResponse]:
    """Return the response about the partitions of `layout`, in its order, and yield between some of them."""
    responses = []
    for some in portions(layout):
        for name, topic_id, asked in some:
            partitions: list[PartitionProduceResponse] = []
            for topic_partitions in portions(asked):
                if partitions:
                    yield
                partitions += [partition_response(one, results[one]) for one in topic_partitions]
            responses.append(new_topic(name, topic_id, partitions))
        yield
    return new_response(responses)


def failures(layout: Layout, results: ProduceResults) -> list[tuple[TopicPartition, ErrorCode]]:
    """Return the partitions that failed."""
    return [(one, code) for _, _, asked in layout for one in asked if (code := results[one].error_code)]
