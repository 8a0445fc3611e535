"""DescribeLogDirs (key 35): the data directories of this broker and the partitions in them. v0 is Kafka 3.9's."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Bool, Int16, Int32, Int64


class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = field()
    partitions: list[Int32] = field()


class DescribeLogDirsRequest(Request, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    """Some partitions, or all of them."""

    topics: list[DescribableLogDirTopic] | None = field()  # null: all


class DescribeLogDirsPartition(Struct):
    """A partition's log."""

    partition_index: Int32 = field()
    partition_size: Int64 = field()  # bytes
    offset_lag: Int64 = field()  # how far its end is behind the high watermark or, for a future log, behind the current log
    is_future_key: Bool = field()  # AlterReplicaLogDirs is copying it


class DescribeLogDirsTopic(Struct):
    """The partitions of one topic."""

    name: str = field()
    partitions: list[DescribeLogDirsPartition] = field()


class DescribeLogDirsResult(Struct):
    """A data directory."""

    error_code: Int16 = field()
    log_dir: str = field()  # its absolute path
    topics: list[DescribeLogDirsTopic] = field()
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)  # of the volume
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", ignorable=True)  # gets no new partitions (KIP-1066)


class DescribeLogDirsResponse(Response, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions="0-5", flexible="2+"):
    """One result per directory."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field()
