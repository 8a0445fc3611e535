"""DescribeProducers (key 61), v0: the producers with ids that a partition remembers.

Behaviour
    Every idempotent or transactional producer that has not been silent for producer.id.expiration.ms, with its last sequence and
    the offset where its open transaction begins. Only the leader responds with producers: NOT_LEADER_OR_FOLLOWER.
    A partition that is named again is described once. Kafka describes it each time, so that a request of 400 kB has a response
    of gigabytes where there are many producers.
Versions
    Only one.
Not done
    Nothing.
Source: KafkaApis.handleDescribeProducersRequest, UnifiedLog.activeProducers; KIP-664.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.pieces import Once, Pieces, first_of
from pybroker.metadata import names
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Container, Hashable, Iterator

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing


def _leave_out_repeats(request: Any, known: Container[Hashable]) -> set[Hashable]:
    named: set[Hashable] = set()
    for topic in request.topics:
        name = topic.name
        topic.partition_indexes = first_of(topic.partition_indexes, known, named, lambda number, name=name: (name, number))  # type: ignore[misc]
    return named


def _large(response: Any) -> Iterator[Hashable]:
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.active_producers:
                yield topic.name, partition.partition_index


PIECES: Final = Pieces(
    ("topics.partition_indexes", "topics.partitions"), elements=20, once=Once(leave_out=_leave_out_repeats, large=_large)
)


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeProducersRequest,
) -> DescribeProducersResponse | Future[DescribeProducersResponse]:
    """Respond from the logs' producers; others get their turn while there are many."""
    _leave_out_repeats(request, ())
    return in_slices(_describe(broker, request))


def _describe(broker: Services, request: DescribeProducersRequest) -> Pausing[DescribeProducersResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for number in topic.partition_indexes:
            response = yield from _partition(broker, TopicPartition(topic.name, number))
            partitions.append(response)
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _partition(broker: Services, topic_partition: TopicPartition) -> Pausing[PartitionResponse]:
    number = topic_partition.partition
    if (reason := names.invalid_name_reason(topic_partition.topic)) is not None:
        return PartitionResponse(
            partition_index=number, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=f"Topic name is invalid: {reason}"
        )
    found = broker.replica_manager.partition(topic_partition)
    if not isinstance(found, ErrorCode) and not found.is_leader:
        found = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if isinstance(found, ErrorCode):
        return PartitionResponse(partition_index=number, error_code=found, error_message=found.message)
    producers: list[ProducerState] = []
    for entry in list(found.log.producers.producers.values()):
        yield
        producers.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.transaction_first_offset,
            )
        )
    return PartitionResponse(partition_index=number, error_code=ErrorCode.NONE, active_producers=producers)
