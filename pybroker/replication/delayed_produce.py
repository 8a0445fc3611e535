"""A produce request with acks=all that waits until its records are replicated.

It is complete when each of its partitions is settled:

    Case A: this broker no longer has the replica, or its directory failed: that error is the partition's answer.
    Case B: this broker no longer leads the partition: NOT_LEADER_OR_FOLLOWER.
    Case C: the high watermark has passed the last record of the request:
        C.1: but by now fewer replicas are in sync than the topic requires: NOT_ENOUGH_REPLICAS_AFTER_APPEND;
        C.2: success.

When its time comes first, the unsettled partitions are answered REQUEST_TIMED_OUT; their records stay in the log.

Source: kafka.server.DelayedProduce.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.purgatory.delayed_operation import DelayedOperation

if TYPE_CHECKING:
    from pybroker.replication.fetch_data import ProduceResults, Unsettled
    from pybroker.replication.replica_manager import ReplicaManager


class DelayedProduce(DelayedOperation):
    """Waits under each of its partitions. `unsettled` has the offset that each must be replicated up to (exclusive)."""

    __slots__ = ("_on_complete", "_replicas", "_results", "_unsettled")

    def __init__(
        self,
        replicas: ReplicaManager,
        results: ProduceResults,
        unsettled: Unsettled,
        on_complete: Callable[[ProduceResults], None],
    ) -> None:
        super().__init__()
        self._replicas = replicas
        self._results = results
        self._unsettled = unsettled
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        """Settle what can be settled; see the module's cases."""
        for topic_partition, required_offset in list(self._unsettled.items()):
            partition = self._replicas.partition(topic_partition)
            # Case A, or else Case B, C.1, C.2
            code = partition if isinstance(partition, ErrorCode) else partition.check_replicated(required_offset)
            if code is not None:
                self._results[topic_partition] = self._results[topic_partition]._replace(error_code=code)
                del self._unsettled[topic_partition]
        return not self._unsettled and self.force_complete()

    def on_complete(self) -> None:
        """Answer, the unsettled with REQUEST_TIMED_OUT."""
        for topic_partition in self._unsettled:
            timed_out = self._results[topic_partition]._replace(error_code=ErrorCode.REQUEST_TIMED_OUT)
            self._results[topic_partition] = timed_out
        self._on_complete(self._results)

    def on_expiration(self) -> None:
        """Count the partitions that were not replicated in time."""
        self._replicas.produce_expirations += len(self._unsettled)
