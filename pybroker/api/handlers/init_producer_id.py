"""InitProducerId (key 22), v0-6: an id for an idempotent producer, or the producer of a transactional id.

Behaviour
    Every call without a transactional id gets an id that was never assigned before, with epoch 0. This includes a producer that
    names the id and epoch it has: as in Kafka, where an idempotent producer raises its epoch by itself. An id without an epoch,
    or an epoch without an id, is INVALID_REQUEST.
    With a transactional id the response has the id's producer and a new epoch, which fences every other producer. An open
    transaction is aborted first: CONCURRENT_TRANSACTIONS until that is done. `coordinator/transaction/operations.py` has the
    rules.
Versions
    v2 flexible. v3 the producer's current id and epoch (KIP-360). v4 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH.
    v6 two-phase commit (KIP-939): TRANSACTIONAL_ID_AUTHORIZATION_FAILED where a client asks for it, because it is not enabled;
    UNSUPPORTED_VERSION for a prepared transaction to be kept, as Kafka responds.
Not done
    Two-phase commit with an external coordinator.
Source: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pybroker.api.context import RequestContext, Services

_FENCED_VERSION: Final = 4


def handle(
    broker: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Respond with a producer; this waits for the metadata store once in a thousand new ids."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _idempotent(broker)
    if not request.transactional_id:
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.keep_prepared_txn:
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    if request.enable2_pc:
        return _refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return _transactional(broker, context.api_version, request.transactional_id, request)


async def _idempotent(broker: Services) -> InitProducerIdResponse:
    try:
        producer_id = await broker.controller.producer_ids.next()
    except KafkaError as error:
        return _refuse(error.code)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _transactional(
    broker: Services, version: int, transactional_id: str, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    def respond(outcome: Any) -> InitProducerIdResponse:
        if not isinstance(outcome, ErrorCode):
            return InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)
        is_old = outcome is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
        return _refuse(ErrorCode.INVALID_PRODUCER_EPOCH if is_old else outcome)

    deferred: Deferred[Any, InitProducerIdResponse] = Deferred(respond)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
    broker.transactions.init_producer_id(transactional_id, request.transaction_timeout_ms, expected, deferred.complete)
    return deferred.response()


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
