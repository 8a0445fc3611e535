"""AlterReplicaLogDirs (key 34), v0-2: move partitions between the data directories of this broker.

Behaviour
    The handler begins the move, which continues after the response while the partition is written and read:
    `log/manager/directory_moves.py`. DescribeLogDirs reports its progress. A partition that already lies in the directory
    stays there, and a move of it that is under way is given up. LOG_DIR_NOT_FOUND for a path that is none of the broker's data
    directories, KAFKA_STORAGE_ERROR for a directory that failed, REPLICA_NOT_AVAILABLE for a partition that another broker has,
    INVALID_TOPIC_EXCEPTION for a topic whose name has more than 212 characters, because the mark of a move must fit behind it.
Versions
    v1 throttle time. v2 flexible.
Not done
    Limits of the speed (replica.alter.log.dirs.io.max.bytes.per.second).
Source: ReplicaManager.alterReplicaLogDirs; KIP-113.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse | Future[AlterReplicaLogDirsResponse]:
    """Begin the moves, each of which makes a log; in between others get their turn."""
    return in_slices(_begin(broker, request))


def _begin(broker: Services, request: AlterReplicaLogDirsRequest) -> Pausing[AlterReplicaLogDirsResponse]:
    results: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                code = _outcome(broker, directory.path, TopicPartition(topic.name, number))
                results[topic.name].append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
                yield
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in results.items()]
    )


def _outcome(broker: Services, path: str, topic_partition: TopicPartition) -> ErrorCode:
    directory = next((one for one in broker.replica_manager.log_directories if one.absolute_path == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    found = broker.replica_manager.partition(topic_partition)
    if isinstance(found, ErrorCode):
        return ErrorCode.REPLICA_NOT_AVAILABLE if found is ErrorCode.NOT_LEADER_OR_FOLLOWER else found
    try:
        broker.replica_manager.moves.start(topic_partition, directory)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
