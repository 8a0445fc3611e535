"""AlterReplicaLogDirs (key 34): move partitions to another data directory of this broker. v0 is Kafka 3.9's."""

from __future__ import annotations

from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.schema import field, request, response, struct
from pybroker.protocol.wire import Int16, Int32


@struct
class AlterReplicaLogDirTopic:
    """Partitions of one topic."""

    name: str = field()
    partitions: list[Int32] = field()


@struct
class AlterReplicaLogDir:
    """A directory and the partitions to move into it."""

    path: str = field()  # absolute
    topics: list[AlterReplicaLogDirTopic] = field()


@request(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Partitions to move, each on its own: some may fail."""

    dirs: list[AlterReplicaLogDir] = field()


@struct
class AlterReplicaLogDirPartitionResult:
    """Whether the move of one partition began."""

    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class AlterReplicaLogDirTopicResult:
    """The partitions of one topic."""

    topic_name: str = field()
    partitions: list[AlterReplicaLogDirPartitionResult] = field()


@response(api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """One result per partition."""

    throttle_time_ms: Int32 = field()
    results: list[AlterReplicaLogDirTopicResult] = field()
