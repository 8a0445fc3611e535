"""AddPartitionsToTxn (key 24): partitions that a transaction writes to; from v4 on sent by brokers, which may only verify."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partitions: list[Int32] = field()


class AddPartitionsToTxnTransaction(Struct):
    """One transaction and the partitions to add to it, or to verify."""

    transactional_id: str = field("4+")
    producer_id: Int64 = field("4+")
    producer_epoch: Int16 = field("4+")
    verify_only: Bool = field("4+")
    topics: list[AddPartitionsToTxnTopic] = field("4+")


class AddPartitionsToTxnRequest(Request, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    """One transaction of a client up to v3, several of another broker from v4."""

    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: str = field("0-3")
    v3_and_below_producer_id: Int64 = field("0-3")
    v3_and_below_producer_epoch: Int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition."""

    partition_index: Int32 = field()
    partition_error_code: Int16 = field()


class AddPartitionsToTxnTopicResult(Struct):
    """The results for the partitions of one topic."""

    name: str = field()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field()


class AddPartitionsToTxnResult(Struct):
    """The results for one transaction."""

    transactional_id: str = field("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field("4+")


class AddPartitionsToTxnResponse(Response, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions="0-5", flexible="3+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")
