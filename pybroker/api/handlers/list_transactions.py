"""ListTransactions (key 66), v0-2: the transactional ids that this broker coordinates.

Behaviour
    A tool asks all brokers and combines their responses. A listed id passes all filters. A state that does not exist is named in
    the response and matches no id; names of states are exact. While ids are loaded: COORDINATOR_LOAD_IN_PROGRESS.
Versions
    v1 transactions that are open for longer than a duration (KIP-994). v2 ids that match a pattern of RE2 (KIP-1152), or
    INVALID_REGULAR_EXPRESSION.
Not done
    Nothing.
Source: TransactionStateManager.listTransactionStates; KIP-664.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: ListTransactionsRequest,
) -> ListTransactionsResponse | Future[ListTransactionsResponse]:
    """List the ids that pass the filters; while many are looked at, others get their turn."""
    return in_slices(_list(broker, request))


def _list(broker: Services, request: ListTransactionsRequest) -> Pausing[ListTransactionsResponse]:
    from pybroker.coordinator.transaction.listing import NAMES, Filters, split_states  # noqa: PLC0415  loaded with the coordinator

    states, unknown_states = split_states(request.state_filters)
    filters = Filters(
        states=states,
        producer_ids=frozenset(request.producer_id_filters),
        duration_ms=request.duration_filter,
        pattern=request.transactional_id_pattern,
    )
    found = yield from broker.transactions.list_ids(filters)
    if isinstance(found, ErrorCode):
        return ListTransactionsResponse(error_code=found)
    response = ListTransactionsResponse(error_code=ErrorCode.NONE, unknown_state_filters=unknown_states)
    for transactional_id, one in found:
        response.transaction_states.append(
            TransactionState(transactional_id=transactional_id, producer_id=one.producer_id, transaction_state=NAMES[one.state])
        )
        yield
    return response
