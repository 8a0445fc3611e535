"""EndTxn (key 26), v0-5: commit or abort a transaction.

Behaviour
    The broker responds when the decision is durable; the markers follow. A request that is repeated gets its response again;
    while the markers are being written, CONCURRENT_TRANSACTIONS. `coordinator/transaction/operations.py` has a table.
Versions
    v2 PRODUCER_FENCED, before INVALID_PRODUCER_EPOCH. v3 flexible. v5 transaction version 2 (KIP-890): the end gives the
    producer a new epoch, and a transaction without partitions can be aborted.
Not done
    Nothing.
Source: KafkaApis.handleEndTxnRequest, TransactionCoordinator.endTransaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.model import ProducerEpoch, ProducerId
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services

_FENCED_VERSION: Final = 2
_NEW_EPOCH_VERSION: Final = 5


def handle(broker: Services, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Future[EndTxnResponse]:
    """Let the coordinator decide the end."""
    from pybroker.coordinator.runtime.result import Producer  # noqa: PLC0415  loaded with the coordinator

    version = context.api_version

    def respond(outcome: Any) -> EndTxnResponse:
        if not isinstance(outcome, ErrorCode):
            return EndTxnResponse(producer_id=outcome.producer_id, producer_epoch=outcome.epoch)
        is_old = outcome is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION
        return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH if is_old else outcome)

    deferred: Deferred[Any, EndTxnResponse] = Deferred(respond)
    broker.transactions.end(
        request.transactional_id,
        Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
        2 if version >= _NEW_EPOCH_VERSION else 0,
        deferred.complete,
        is_commit=request.committed,
    )
    return deferred.response()
