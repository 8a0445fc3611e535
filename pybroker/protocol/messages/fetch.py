"""Fetch (key 1): read record batches. v0-3 carry message sets of the old formats."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int8, Int16, Int32, Int64, Records, Uuid


class ReplicaState(Struct):
    """The follower's id and epoch, from v15 in place of `replica_id`."""

    replica_id: Int32 = field("15+", default=-1)  # -1: a consumer
    replica_epoch: Int64 = field("15+", default=-1)


class FetchPartition(Struct):
    """The offset to read from and the bytes to read of one partition."""

    partition: Int32 = field()
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)  # -1: unknown, not checked
    fetch_offset: Int64 = field()
    last_fetched_epoch: Int32 = field("12+", default=-1)  # -1: none
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)  # the follower's; -1 from consumers
    partition_max_bytes: Int32 = field()
    replica_directory_id: Uuid = field("17+", tag=0, ignorable=True)
    high_watermark: Int64 = field(
        "18+", default=0x7FFF_FFFF_FFFF_FFFF, tag=1, ignorable=True
    )  # the follower's; the default: not supported


class FetchTopic(Struct):
    """A topic, by name up to v12, then by id."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field()


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: str = field("7-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[Int32] = field("7+")


class FetchRequest(Request, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """A full or, from v7, an incremental fetch (KIP-227)."""

    cluster_id: str | None = field("12+", default=None, tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)  # -1: a consumer
    replica_state: ReplicaState = field("15+", tag=1)
    max_wait_ms: Int32 = field()  # how long to wait for `min_bytes`
    min_bytes: Int32 = field()
    max_bytes: Int32 = field("3+", default=0x7FFF_FFFF, ignorable=True)
    isolation_level: Int8 = field("4+", ignorable=True)  # 0: read uncommitted, 1: read committed
    session_id: Int32 = field("7+", ignorable=True)
    session_epoch: Int32 = field("7+", default=-1, ignorable=True)  # -1: no session, 0: a new one
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)


class EpochEndOffset(Struct):
    """The point where the follower's log diverged from the leader's."""

    epoch: Int32 = field("12+", default=-1)
    end_offset: Int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The partition's new leader."""

    leader_id: Int32 = field("12+", default=-1)
    leader_epoch: Int32 = field("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot to read instead, for the metadata log only."""

    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records the reader must drop."""

    producer_id: Int64 = field("4+")
    first_offset: Int64 = field("4+")


class PartitionData(Struct):
    """The records of one partition."""

    partition_index: Int32 = field()
    error_code: Int16 = field()
    high_watermark: Int64 = field()
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)  # every transaction below this offset has ended
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1)
    snapshot_id: SnapshotId = field("12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", ignorable=True)  # null unless read committed
    preferred_read_replica: Int32 = field("11+", default=-1)  # -1: this broker
    records: Records = field()


class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[PartitionData] = field()


class NodeEndpoint(Struct):
    """The address of a leader named in this response."""

    node_id: Int32 = field("16+")
    host: str = field("16+")
    port: Int32 = field("16+")
    rack: str | None = field("16+", default=None)


class FetchResponse(Response, api_key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """The records. An incremental fetch leaves out partitions in which nothing changed."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("7+", ignorable=True)
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)
