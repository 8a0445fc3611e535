"""AddPartitionsToTxn (key 24), v0-5: partitions that a transaction is going to write to.

Behaviour
    The transaction is open from its first partition on. If one partition does not exist, it is UNKNOWN_TOPIC_OR_PARTITION, the
    others of its transaction are OPERATION_NOT_ATTEMPTED, and none is added. Other errors are those of all partitions.
    A transaction with `verify_only` changes nothing: a partition that does not belong to it is TRANSACTION_ABORTABLE.
Versions
    v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH. v3 flexible. v4 several transactions, from brokers (KIP-890). v5
    TRANSACTION_ABORTABLE for clients.
Not done
    Nothing.
Source: KafkaApis.handleAddPartitionsToTxnRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred, when_all
from pybroker.model import ProducerEpoch, ProducerId, TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

_FENCED_VERSION: Final = 2
_SEVERAL_VERSION: Final = 4

TopicResults = list[AddPartitionsToTxnTopicResult]
Outcome = Mapping[TopicPartition, ErrorCode] | ErrorCode


def handle(
    broker: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Future[AddPartitionsToTxnResponse]:
    """Add or verify the partitions of each transaction."""
    version = context.api_version
    if version < _SEVERAL_VERSION:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        deferred: Deferred[TopicResults, AddPartitionsToTxnResponse] = Deferred(_response)
        _add(broker, version, only, deferred)
        return deferred.response()
    responses = []
    for one in request.transactions:
        result: Deferred[TopicResults, AddPartitionsToTxnResult] = Deferred(partial(_result, one))
        _add(broker, version, one, result)
        responses.append(result.response())
    return when_all(responses, lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))


def _response(results: TopicResults) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _result(one: AddPartitionsToTxnTransaction, results: TopicResults) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)


def _add(broker: Services, version: int, one: AddPartitionsToTxnTransaction, deferred: Deferred[TopicResults, Any]) -> None:
    """Complete `deferred` with the results of one transaction."""
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    has_partition = broker.controller.image.has_partition
    asked = [TopicPartition(topic.name, number) for topic in one.topics for number in topic.partitions]
    if not all(map(has_partition, asked)):
        missing, others = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        deferred.complete(_results(one.topics, lambda tp: others if has_partition(tp) else missing))
        return

    def respond(outcome: Outcome) -> None:
        deferred.complete(_results(one.topics, _of_outcome(outcome, version)))

    producer = Producer(ProducerId(one.producer_id), ProducerEpoch(one.producer_epoch))
    coordinator = broker.transactions
    ask = coordinator.verify_partitions if one.verify_only else coordinator.add_partitions
    ask(one.transactional_id, producer, asked, respond)


def _of_outcome(outcome: Outcome, version: int) -> Callable[[TopicPartition], ErrorCode]:
    if not isinstance(outcome, ErrorCode):
        return outcome.__getitem__
    is_old = outcome is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
    code = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else outcome
    return lambda _one: code


def _results(topics: list[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]) -> TopicResults:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=code_of(TopicPartition(topic.name, number))
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
