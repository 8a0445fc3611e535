"""DescribeLogDirs (key 35), v0-5: the data directories, the logs in them and their sizes.

Behaviour
    The response lists every directory, with those requested partitions that lie in it; an unknown partition is in none. A
    directory that failed is KAFKA_STORAGE_ERROR, without partitions. A log that is being moved into a directory is listed there
    too, as a future log, with the number of offsets by which it is behind the present one.
Versions
    v1 throttle time. v2 flexible. v3 an error for the whole response, never set here. v4 size and free space of the volume
    (KIP-827). v5 directories that get no new partitions (KIP-1066), never any here.
Not done
    Nothing.
Source: ReplicaManager.describeLogDirs; KIP-113.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pybroker.log.retention.record_retention import reported_size
from pybroker.model import TopicPartition
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from pybroker.sharing.loop import in_slices

if TYPE_CHECKING:
    from asyncio import Future

    from pybroker.api.context import RequestContext, Services
    from pybroker.log.directories.directory import LogDirectory
    from pybroker.log.log import Log
    from pybroker.sharing.work import Pausing


def handle(
    broker: Services,
    context: RequestContext,  # noqa: ARG001
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse | Future[DescribeLogDirsResponse]:
    """Respond from the logs as they are; while many are looked at, others get their turn."""
    return in_slices(_describe(broker, request))


def _describe(broker: Services, request: DescribeLogDirsRequest) -> Pausing[DescribeLogDirsResponse]:
    known = broker.replica_manager.partitions
    if request.topics is None:
        wanted = dict.fromkeys(known)  # partitions may come and go between the slices
    else:
        wanted = {}
        for topic in request.topics:
            for number in topic.partitions:
                wanted[TopicPartition(topic.topic, number)] = None
                yield
    by_directory: defaultdict[str, list[tuple[Log, int, bool]]] = defaultdict(list)
    for topic_partition in wanted:
        if (partition := known.get(topic_partition)) is not None:
            log, future = partition.log, broker.replica_manager.moves.future(topic_partition)
            by_directory[log.log_directory.path].append((log, max(0, partition.high_watermark - log.log_end_offset), False))
            if future is not None:
                by_directory[future.log_directory.path].append((future, log.log_end_offset - future.log_end_offset, True))
        yield
    results = []
    for directory in broker.replica_manager.log_directories:
        result = yield from _result(directory, by_directory[directory.path])
        results.append(result)
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=results)


def _result(directory: LogDirectory, logs: list[tuple[Log, int, bool]]) -> Pausing[DescribeLogDirsResult]:
    """Describe a directory; `logs` has each log with the number of offsets that it is behind, and whether it is a future one."""
    path = directory.absolute_path
    try:
        if directory.is_offline:
            return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        total_bytes, usable_bytes = directory.volume_space()
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for log, lag, is_future in logs:
        topics[log.topic_partition.topic].append(
            DescribeLogDirsPartition(
                partition_index=log.topic_partition.partition,
                partition_size=reported_size(log),
                offset_lag=lag,
                is_future_key=is_future,
            )
        )
        yield
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
