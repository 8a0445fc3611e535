"""Reads the partitions of a fetch one after the other, natively if that was built and a partition is usual.

`pybroker/native.py` chooses; the contract of the native functions is in `_reading_python.py`. Call them through this
module (`reading.read_all_usual(...)`), so that the tests can run on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.native import choose
from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication import _reading_python
from pybroker.replication._reading_python import read_all_usual, read_usual, wanted_partitions
from pybroker.replication.fetch_data import FetchIsolation
from pybroker.replication.partition_data import ResponseLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pybroker.model import TopicPartition
    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchPartitionData, FetchResults
    from pybroker.replication.partition import Partition

__all__ = ["IS_NATIVE", "read_all_usual", "read_partitions", "read_usual", "readable", "wanted_partitions"]

IS_NATIVE: Final = choose(_reading_python, globals())

_LOG_END: Final = FetchIsolation.LOG_END
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MORE_THAN_WANTED: Final = 1 << 32


def read_partitions(
    partitions: Mapping[TopicPartition, Partition],
    params: FetchParams,
    wanted_partitions: Sequence[FetchPartition],
    read_one: Callable[[FetchParams, FetchPartition, int, bool], FetchPartitionData],
) -> FetchResults:
    """Read one partition after the other within the limits of `params`; `read_one` handles every case."""
    isolation = params.isolation
    limit = ResponseLimit(params.max_bytes, not params.hard_max_bytes_limit and not params.is_continued)
    results: FetchResults = []
    for wanted in wanted_partitions:
        data = None
        if isolation is not _LOG_END:
            data = read_usual(partitions.get(wanted.topic_partition), wanted, isolation, limit)
        if data is None:
            data = read_one(params, wanted, limit.bytes_max(wanted), limit.min_one_batch)
        results.append((wanted, data))
        records = data.records
        if records is not None:
            limit.take(records.size)
    return results


def readable(results: FetchResults) -> tuple[int, int]:
    """Return the bytes that were read, and how many partitions the cluster does not have. A result on which the client must act
    counts as more bytes than any client waits for.
    """
    bytes_readable = unknown_count = 0
    for _, data in results:
        if data.records is not None:
            bytes_readable += data.records.size
        elif data.error_code is _UNKNOWN:
            unknown_count += 1
        elif data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
            bytes_readable += _MORE_THAN_WANTED
    return bytes_readable, unknown_count
