"""DescribeTransactions (key 65), v0: the state of transactional ids.

Behaviour
    State, timeout, begin, producer and partitions of each id. An id that does not exist is TRANSACTIONAL_ID_NOT_FOUND, the empty
    one INVALID_REQUEST. The state that is shown is durable. While a transaction ends, all of its partitions are shown until the
    last one has its marker.
Versions
    Only one.
Not done
    Nothing.
Source: TransactionCoordinator.handleDescribeTransactions; KIP-664.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pybroker.api.deferred import Deferred
from pybroker.api.pieces import Pieces
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.coordinator.transaction.state import Transaction

PIECES: Final = Pieces(("transactional_ids", "transaction_states"), elements=20)


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse | Future[DescribeTransactionsResponse]:
    """Describe each id."""
    responses: list[Any] = []
    for transactional_id in request.transactional_ids:
        one: Deferred[Any, TransactionState] = Deferred(
            lambda outcome, name=transactional_id: _described(name, outcome)  # type: ignore[misc]
        )
        broker.transactions.describe(transactional_id, one.complete)
        responses.append(one.response())
    if any(isinstance(response, asyncio.Future) for response in responses):
        return asyncio.ensure_future(_all(responses))
    return DescribeTransactionsResponse(transaction_states=responses)


async def _all(responses: list[Any]) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[await one if isinstance(one, asyncio.Future) else one for one in responses]
    )


def _described(transactional_id: str, outcome: Transaction | ErrorCode) -> TransactionState:
    if isinstance(outcome, ErrorCode):
        return TransactionState(transactional_id=transactional_id, error_code=outcome)
    from pybroker.coordinator.transaction.listing import NAMES  # noqa: PLC0415  loaded with the coordinator

    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(outcome.partitions):
        topics[topic].append(partition)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=NAMES[outcome.state],
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.start_ms,
        producer_id=outcome.producer_id,
        producer_epoch=outcome.epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
