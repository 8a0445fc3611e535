"""DescribeTransactions (key 65): the state of transactional ids (KIP-664)."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Int16, Int32, Int64


@request(api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """The transactional ids to describe."""

    transactional_ids: list[str] = field()


@struct
class TopicData:
    """Partitions of one topic that belong to the transaction; while it ends, those that have no marker yet."""

    topic: str = field()
    partitions: list[Int32] = field()


@struct
class TransactionState:
    """The state of one transactional id. Times in ms."""

    error_code: Int16 = field()
    transactional_id: str = field()
    transaction_state: str = field()
    transaction_timeout_ms: Int32 = field()
    transaction_start_time_ms: Int64 = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    topics: list[TopicData] = field()


@response(api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """One state per id."""

    throttle_time_ms: Int32 = field()
    transaction_states: list[TransactionState] = field()
