"""One fetch: what can be read is read, and read again once there is enough of it.

It is work in slices (`sharing/work.py`), which yields after every few partitions. Each partition is read at a time of
its own, as each request thread of Kafka does while others append. The limits of the response, and the order of the partitions,
are those of the whole request.

Source: ReplicaManager.fetchMessages, readFromLog; KIP-74.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.replication.cold_lookups import ColdLookups
from pybroker.replication.fetch_data import FetchIsolation
from pybroker.replication.partition_data import ResponseLimit
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pybroker.replication.fetch_data import FetchParams, FetchPartition, FetchResults
    from pybroker.replication.replica_manager import ReplicaManager
    from pybroker.sharing.work import Work

_LOG_END: Final = FetchIsolation.LOG_END
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MORE_THAN_WANTED: Final = 1 << 32


def fetch(replicas: ReplicaManager, params: FetchParams, partitions: Sequence[FetchPartition]) -> Work[FetchResults]:
    """Return a result for each partition, in their order."""
    results = yield from _read(replicas, params, partitions)
    if params.isolation is _LOG_END:
        replicas.note_follower(params, results)
    if is_enough(params, results):
        return results
    operation = replicas.wait_for_more(params, results)
    del results  # a fetch that waits keeps no slice of a file
    if not operation.is_completed:
        try:
            yield operation
        finally:
            operation.give_up()
    return (yield from _read(replicas, params, partitions))


def _read(replicas: ReplicaManager, params: FetchParams, partitions: Sequence[FetchPartition]) -> Work[FetchResults]:
    """Read whatever is available, within the limits. A thread looks up what the page cache lacks."""
    results: FetchResults = []
    limit, cold = params.limit(), ColdLookups()
    for some in portions(partitions):
        bytes_left, min_one_batch = limit.bytes_left, limit.min_one_batch
        read = replicas.read(params, some, limit, cold)
        while cold:
            yield cold.take()
            limit = ResponseLimit(bytes_left, min_one_batch)
            read = replicas.read(params, some, limit, cold)
        results += read
        yield None
    return results


def is_enough(params: FetchParams, results: FetchResults) -> bool:
    """Return whether the response can be sent now.

    The response is due if the client does not want to wait, if `min_bytes` is reached, or if the client must act on the result
    of a partition: an error, a diverging epoch or a preferred replica. A partition that the cluster does not have ends the wait
    only if there is no other to wait for. A client that continues to fetch from a deleted topic would otherwise send requests
    without a pause.
    """
    if params.max_wait_ms <= 0 or not results:
        return True
    bytes_readable = unknown_count = 0
    for _, data in results:
        if data.records is not None:
            bytes_readable += data.records.size
        elif data.error_code is _UNKNOWN:
            unknown_count += 1
        elif data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
            bytes_readable += _MORE_THAN_WANTED
    return bytes_readable >= params.min_bytes or unknown_count == len(results)
