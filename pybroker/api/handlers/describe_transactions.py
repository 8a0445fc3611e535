"""DescribeTransactions (key 65), v0: the state of transactional ids.

Behaviour
    State, timeout, begin, producer and partitions of each id. An id that does not exist is TRANSACTIONAL_ID_NOT_FOUND, the empty
    one INVALID_REQUEST. The state that is shown is durable. While a transaction ends, all of its partitions are shown until the
    last one has its marker. An id that is named again is described once; Kafka describes it each time.
Versions
    Only one.
Not done
    Nothing.
Source: TransactionCoordinator.handleDescribeTransactions; KIP-664.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Union

from pybroker.api.deferred import Deferred, when_all
from pybroker.api.pieces import Pieces, once_by_name
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Hashable, Iterator

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.transaction.state import Transaction

Outcome = Union["Transaction", ErrorCode]


def _large(response: Any) -> Iterator[Hashable]:
    return (one.transactional_id for one in response.transaction_states if one.topics)


ONCE: Final = once_by_name("transactional_ids", _large)
PIECES: Final = Pieces(("transactional_ids", "transaction_states"), elements=1, once=ONCE)  # one may have 10,000 partitions


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse | Future[DescribeTransactionsResponse]:
    """Describe each id."""
    ONCE.leave_out(request, ())
    outcomes: list[Any] = []
    for transactional_id in request.transactional_ids:
        one: Deferred[Outcome, Outcome] = Deferred(lambda outcome: outcome)
        broker.transactions.describe(transactional_id, one.complete)
        outcomes.append(one.response())
    return when_all(outcomes, partial(_response, request.transactional_ids))


def _response(transactional_ids: list[str], outcomes: list[Outcome]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(transaction_states=list(map(_described, transactional_ids, outcomes)))


def _described(transactional_id: str, outcome: Outcome) -> TransactionState:
    if isinstance(outcome, ErrorCode):
        return TransactionState(transactional_id=transactional_id, error_code=outcome)
    from pybroker.coordinator.transaction.listing import NAMES  # noqa: PLC0415  loaded with the coordinator
    from pybroker.coordinator.transaction.state import by_topic  # noqa: PLC0415

    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=NAMES[outcome.state],
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.start_ms,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.epoch,
        topics=[TopicData(topic=topic, partitions=numbers) for topic, numbers in by_topic(outcome.partitions).items()],
    )
