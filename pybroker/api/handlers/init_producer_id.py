"""InitProducerId (key 22), v0-6: an id for an idempotent producer.

Behaviour
    Every call without a transactional id gets an id that was never assigned before, with epoch 0. This includes a producer that
    names the id and epoch it has: as in Kafka, where an idempotent producer raises its epoch by itself. An id without an epoch,
    or an epoch without an id, is INVALID_REQUEST.
    With a transactional id: UNSUPPORTED_VERSION. This code means "not here" without "try again": the Java producer and librdkafka
    both fail at once with it, while COORDINATOR_NOT_AVAILABLE would make them search until their timeout.
Versions
    v2 flexible. v3 the producer's current id and epoch (KIP-360). v4, v5 more codes for transactions.
    v6 two-phase commit (KIP-939).
Not done
    Transactions.
Source: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from pybroker.api.context import RequestContext, Services


async def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: InitProducerIdRequest,
) -> InitProducerIdResponse:
    """Respond with a new id; this waits for the metadata store once in a thousand calls."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _refuse(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refuse(ErrorCode.UNSUPPORTED_VERSION)
    try:
        producer_id = await broker.controller.producer_ids.next()
    except KafkaError as error:
        return _refuse(error.code)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
