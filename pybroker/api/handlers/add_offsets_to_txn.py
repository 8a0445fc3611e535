"""AddOffsetsToTxn (key 25), v0-4: the group whose offsets a transaction is going to commit.

Behaviour
    Adds the group's partition of `__consumer_offsets` to the transaction, as AddPartitionsToTxn adds others. If the topic is
    missing, the request creates it, because clients look for the coordinator of the group only afterwards. A producer of
    transaction version 2 does not send this request: its TxnOffsetCommit adds the partition.
Versions
    v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH. v3 flexible. v4 TRANSACTION_ABORTABLE, which the broker has no reason for.
Not done
    Nothing.
Source: KafkaApis.handleAddOffsetsToTxnRequest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.model import GroupId, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pybroker.api.context import RequestContext, Services

_FENCED_VERSION: Final = 2


def handle(
    broker: Services, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the partition of the group."""
    if broker.groups.topic.is_missing:
        return _create_first(broker, context.api_version, request)
    return _add(broker, context.api_version, request)


async def _create_first(broker: Services, version: int, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    if code := await broker.groups.topic.create():
        return AddOffsetsToTxnResponse(error_code=code)
    response = _add(broker, version, request)
    return await response if isinstance(response, asyncio.Future) else response


def _add(
    broker: Services, version: int, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | asyncio.Future[AddOffsetsToTxnResponse]:
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    def respond(code: Any) -> AddOffsetsToTxnResponse:
        is_old = code is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code)

    deferred: Deferred[Any, AddOffsetsToTxnResponse] = Deferred(respond)
    broker.transactions.add_partitions(
        request.transactional_id,
        Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
        [broker.groups.topic_partition(GroupId(request.group_id))],
        deferred.complete,
    )
    return deferred.response()
