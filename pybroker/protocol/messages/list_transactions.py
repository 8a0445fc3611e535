"""ListTransactions (key 66): the transactional ids that a broker coordinates (KIP-664)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class ListTransactionsRequest(Request, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    """The filters, all of which a listed id passes; an empty filter lets all pass."""

    state_filters: list[str] = field()
    producer_id_filters: list[Int64] = field()
    duration_filter: Int64 = field("1+", default=-1)  # ms; negative: any
    transactional_id_pattern: str | None = field("2+", default=None)  # a regular expression of RE2


class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = field()
    producer_id: Int64 = field()
    transaction_state: str = field()


class ListTransactionsResponse(Response, api_key=ApiKey.LIST_TRANSACTIONS, versions="0-2", flexible="0+"):
    """The ids, and the states in the request's filter that do not exist."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    unknown_state_filters: list[str] = field()
    transaction_states: list[TransactionState] = field()
