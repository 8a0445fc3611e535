"""OffsetForLeaderEpoch (key 23): where a leader epoch ended, to find where logs diverged. v0 and v1 are Kafka 3.9's."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32, Int64


class OffsetForLeaderPartition(Struct):
    """A partition and the epoch to look up."""

    partition: Int32 = field()
    current_leader_epoch: Int32 = field("2+", default=-1, ignorable=True)  # as the sender knows it; -1: not checked
    leader_epoch: Int32 = field()


class OffsetForLeaderTopic(Struct):
    """Partitions of one topic."""

    topic: str = field()
    partitions: list[OffsetForLeaderPartition] = field()


class OffsetForLeaderEpochRequest(Request, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    """A request from a follower or, with KIP-320, from a consumer."""

    replica_id: Int32 = field("3+", default=-2, ignorable=True)  # -1: a consumer, -2: unknown
    topics: list[OffsetForLeaderTopic] = field()


class EpochEndOffset(Struct):
    """The largest epoch that is not above the requested epoch, and where it ended."""

    error_code: Int16 = field()
    partition: Int32 = field()
    leader_epoch: Int32 = field("1+", default=-1, ignorable=True)  # -1: none
    end_offset: Int64 = field(default=-1)  # the offset after its last record


class OffsetForLeaderTopicResult(Struct):
    """The partitions of one topic."""

    topic: str = field()
    partitions: list[EpochEndOffset] = field()


class OffsetForLeaderEpochResponse(Response, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="0-4", flexible="4+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field()
