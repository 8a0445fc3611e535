"""OffsetCommit (key 8): store how far a group has read. v0 and v1 are Kafka 3.9's; v0 once meant ZooKeeper."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64, Uuid


class OffsetCommitRequestPartition(Struct):
    """The next offset to read of one partition."""

    partition_index: Int32 = field()
    committed_offset: Int64 = field()
    committed_leader_epoch: Int32 = field("6+", default=-1, ignorable=True)  # of the last record read; -1: unknown
    commit_timestamp: Int64 = field("1", default=-1)  # ms; -1: the broker's time
    committed_metadata: str | None = field()


class OffsetCommitRequestTopic(Struct):
    """A topic, by name up to v9, then by id."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field()


class OffsetCommitRequest(Request, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """Offsets of one group, from a member of it or, with generation -1 and no member id, from outside."""

    group_id: str = field()
    generation_id_or_member_epoch: Int32 = field("1+", default=-1, ignorable=True)  # an epoch from members of KIP-848
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)  # -1: the broker's setting
    topics: list[OffsetCommitRequestTopic] = field()


class OffsetCommitResponsePartition(Struct):
    """The result for one partition's offset."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


class OffsetCommitResponseTopic(Struct):
    """A topic, named as in the request."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field()


class OffsetCommitResponse(Response, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field()
