"""TxnOffsetCommit (key 28): a group's offsets, which count when their transaction is committed."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64, Uuid


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read of one partition."""

    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)  # of the last record read; -1: unknown
    committed_metadata: str | None = field()


class TxnOffsetCommitRequestTopic(Struct):
    """A topic, by name up to v5, then by id."""

    name: str = field("0-5", ignorable=True)
    topic_id: Uuid = field("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field()


class TxnOffsetCommitRequest(Request, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """Offsets of one group within a transaction; from v3 on with the member of the group that has read them."""

    transactional_id: str = field()
    group_id: str = field()
    producer_id: Int64 = field()
    producer_epoch: Int16 = field()
    generation_id_or_member_epoch: Int32 = field("3+", default=-1)  # an epoch from members of KIP-848
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field()


class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition's offset."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


class TxnOffsetCommitResponseTopic(Struct):
    """A topic, named as in the request."""

    name: str = field("0-5", ignorable=True)
    topic_id: Uuid = field("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field()


class TxnOffsetCommitResponse(Response, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    topics: list[TxnOffsetCommitResponseTopic] = field()
