"""AlterReplicaLogDirs (key 34): move partitions to another data directory of this broker. v0 is Kafka 3.9's."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import Request, Response, Struct, field
from pybroker.protocol.wire import Int16, Int32


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str = field()
    partitions: list[Int32] = field()


class AlterReplicaLogDir(Struct):
    """A directory and the partitions to move into it."""

    path: str = field()  # absolute
    topics: list[AlterReplicaLogDirTopic] = field()


class AlterReplicaLogDirsRequest(Request, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    """Partitions to move, each on its own: some may fail."""

    dirs: list[AlterReplicaLogDir] = field()


class AlterReplicaLogDirPartitionResult(Struct):
    """Whether the move of one partition began."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


class AlterReplicaLogDirTopicResult(Struct):
    """The partitions of one topic."""

    topic_name: str = field()
    partitions: list[AlterReplicaLogDirPartitionResult] = field()


class AlterReplicaLogDirsResponse(Response, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+"):
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    results: list[AlterReplicaLogDirTopicResult] = field()
