"""DescribeTransactions (key 65): the state of transactional ids (KIP-664)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class DescribeTransactionsRequest(Request, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    """The transactional ids to describe."""

    transactional_ids: list[str] = field()


class TopicData(Struct):
    """Partitions of one topic that belong to the transaction; while it ends, those that have no marker yet."""

    topic: str = field()
    partitions: list[Int32] = field()


class TransactionState(Struct):
    """The state of one transactional id. Times in ms."""

    error_code: Int16 = field()
    transactional_id: str = field()
    transaction_state: str = field()
    transaction_timeout_ms: Int32 = field()
    transaction_start_time_ms: Int64 = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    topics: list[TopicData] = field()


class DescribeTransactionsResponse(Response, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+"):
    """One state per id."""

    throttle_time_ms: Int32 = field()
    transaction_states: list[TransactionState] = field()
