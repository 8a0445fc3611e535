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

import asyncio
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.api.slices import LARGE_PARTITIONS, Pauses, complete
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
from pybroker.slicing import emptied, run_through

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Coroutine

    from pybroker.api.context import RequestContext, Services
    from pybroker.metadata.image import ClusterImage

_FENCED_VERSION: Final = 2
_SEVERAL_VERSION: Final = 4

_STEP_PARTITIONS: Final = 500

TopicResults = list[AddPartitionsToTxnTopicResult]
Outcome = Mapping[TopicPartition, ErrorCode] | ErrorCode


def handle(
    broker: Services, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Future[AddPartitionsToTxnResponse] | Coroutine[None, None, AddPartitionsToTxnResponse]:
    """Add or verify the partitions of each transaction."""
    version = context.api_version
    if version < _SEVERAL_VERSION:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        if _is_large([only]):
            return _one_in_slices(broker, version, only)
        deferred: Deferred[TopicResults, AddPartitionsToTxnResponse] = Deferred(_response)
        _add(broker, version, only, deferred)
        return deferred.response()
    if _is_large(request.transactions):
        return _all_in_slices(broker, version, request.transactions)
    responses = []
    for one in request.transactions:
        result: Deferred[TopicResults, AddPartitionsToTxnResult] = Deferred(partial(_result, one))
        _add(broker, version, one, result)
        responses.append(result.response())
    if any(isinstance(response, asyncio.Future) for response in responses):
        return asyncio.ensure_future(_all(responses))
    return AddPartitionsToTxnResponse(results_by_transaction=responses)  # type: ignore[arg-type]  # none is a Future


def _is_large(transactions: list[AddPartitionsToTxnTransaction]) -> bool:
    count = 0
    for one in transactions:
        count += 1 + len(one.topics)
        for topic in one.topics:
            count += len(topic.partitions)
            if count > LARGE_PARTITIONS:
                return True
    return count > LARGE_PARTITIONS


def _response(results: TopicResults) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _result(one: AddPartitionsToTxnTransaction, results: TopicResults) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)


async def _all(responses: list[Any]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[await one if isinstance(one, asyncio.Future) else one for one in responses]
    )


async def _one_in_slices(broker: Services, version: int, one: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResponse:
    return _response(await _add_in_slices(broker, version, one))


async def _all_in_slices(
    broker: Services, version: int, transactions: list[AddPartitionsToTxnTransaction]
) -> AddPartitionsToTxnResponse:
    """Handle one transaction after the other, each as the cluster is then."""
    results = []
    pauses = Pauses()
    for one in transactions:
        results.append(_result(one, await _add_in_slices(broker, version, one)))
        await pauses.between()
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _add_in_slices(broker: Services, version: int, one: AddPartitionsToTxnTransaction) -> TopicResults:
    """Return the results of one transaction. Its partitions are added at once, as the cluster was when this began.

    If a topic was deleted meanwhile, the transactions may have forgotten its partitions already: the client tries again.
    """
    image = broker.controller.image
    asked, missing = await complete(_look_up(image, one.topics))
    if missing:
        results = await complete(_results(one.topics, _of_missing(missing)))
        await complete(emptied(missing, asked))
        return results
    while (now := broker.controller.image) is not image:
        if not await complete(_still_has(now, image, one.topics)):
            return await complete(_results(one.topics, _of_outcome(ErrorCode.CONCURRENT_TRANSACTIONS, version)))
        image = now
    deferred: Deferred[Outcome, Outcome] = Deferred(lambda outcome: outcome)
    _ask(broker, one, asked, deferred.complete)
    outcome = deferred.response()
    if isinstance(outcome, asyncio.Future):
        outcome = await outcome
    results = await complete(_results(one.topics, _of_outcome(outcome, version)))
    await complete(emptied(asked))
    return results


def _add(broker: Services, version: int, one: AddPartitionsToTxnTransaction, deferred: Deferred[TopicResults, Any]) -> None:
    """Complete `deferred` with the results of one transaction."""
    asked, missing = run_through(_look_up(broker.controller.image, one.topics))
    if missing:
        deferred.complete(run_through(_results(one.topics, _of_missing(missing))))
        return
    _ask(
        broker,
        one,
        asked,
        lambda outcome: deferred.complete(run_through(_results(one.topics, _of_outcome(outcome, version)))),
    )


def _ask(
    broker: Services, one: AddPartitionsToTxnTransaction, asked: list[TopicPartition], done: Callable[[Outcome], None]
) -> None:
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    producer = Producer(ProducerId(one.producer_id), ProducerEpoch(one.producer_epoch))
    coordinator = broker.transactions
    ask = coordinator.verify_partitions if one.verify_only else coordinator.add_partitions
    ask(one.transactional_id, producer, asked, done)


def _look_up(
    image: ClusterImage, topics: list[AddPartitionsToTxnTopic]
) -> Generator[None, None, tuple[list[TopicPartition], set[TopicPartition]]]:
    """Return the partitions, and those of them that do not exist."""
    asked: list[TopicPartition] = []
    missing: set[TopicPartition] = set()
    for topic in topics:
        known = image.topics.get(topic.name)
        count = 0 if known is None else len(known.partitions)
        for start in range(0, len(topic.partitions), _STEP_PARTITIONS):
            some = [TopicPartition(topic.name, number) for number in topic.partitions[start : start + _STEP_PARTITIONS]]
            asked += some
            missing.update(one for one in some if not 0 <= one.partition < count)
            yield
    return asked, missing


def _still_has(now: ClusterImage, before: ClusterImage, topics: list[AddPartitionsToTxnTopic]) -> Generator[None, None, bool]:
    for start in range(0, len(topics), _STEP_PARTITIONS):
        if not now.still_has(before, [topic.name for topic in topics[start : start + _STEP_PARTITIONS]]):
            return False
        yield
    return True


def _of_missing(missing: set[TopicPartition]) -> Callable[[TopicPartition], ErrorCode]:
    return lambda one: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in missing else ErrorCode.OPERATION_NOT_ATTEMPTED


def _of_outcome(outcome: Outcome, version: int) -> Callable[[TopicPartition], ErrorCode]:
    if not isinstance(outcome, ErrorCode):
        return outcome.__getitem__
    is_old = outcome is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
    code = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else outcome
    return lambda _one: code


def _results(
    topics: list[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]
) -> Generator[None, None, TopicResults]:
    results: TopicResults = []
    for topic in topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=[])
        for start in range(0, len(topic.partitions), _STEP_PARTITIONS):
            result.results_by_partition += [
                AddPartitionsToTxnPartitionResult(
                    partition_index=number, partition_error_code=code_of(TopicPartition(topic.name, number))
                )
                for number in topic.partitions[start : start + _STEP_PARTITIONS]
            ]
            yield
        results.append(result)
    return results
