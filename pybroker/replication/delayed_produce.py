"""A produce request that waits until its records are replicated (acks=all), or durable if the topic requires it (acks 1
too).

It is complete when each of its partitions is settled:

    Case A: this broker no longer has the replica, or its directory failed, perhaps in the fsync that the request
    waited for:
            that error is the partition's response.
    Case B: this broker no longer leads the partition: NOT_LEADER_OR_FOLLOWER.
    Case C: acks=all, and the high watermark, which does not pass records that must become durable first, has passed
    the last
            record:
        C.1: but by now fewer replicas are in sync than the topic requires: NOT_ENOUGH_REPLICAS_AFTER_APPEND;
        C.2: success.
    Case D: acks=1, and the last record lies below the records that wait for the disk: success.

If its time is over first, the unsettled partitions get REQUEST_TIMED_OUT; their records stay in the log.

Everything that changes a partition wakes the requests that wait for it (`ReplicaManager.wake`). So after an event the request
looks at the partition of the event, and at no other: it remembers what is settled.

Source: kafka.server.DelayedProduce.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from pybroker.protocol.error_codes import ErrorCode
from pybroker.purgatory.purgatory import DelayedOperation
from pybroker.replication.leading import ACKS_ALL

if TYPE_CHECKING:
    from pybroker.model import TopicPartition
    from pybroker.replication.produce_data import ProduceResults, Unsettled
    from pybroker.replication.replica_manager import ReplicaManager


class DelayedProduce(DelayedOperation):
    """A produce request that waits under its partitions. `unsettled` has the offset (exclusive) that each must reach.

    At the end the results go to `on_complete`. Without it, the operation is a `Wait` (`sharing/work.py`): `add_done_callback`
    names what to call.
    """

    __slots__ = ("_acks", "_on_complete", "_replicas", "_results", "_unsettled")

    def __init__(
        self,
        replicas: ReplicaManager,
        acks: int,
        results: ProduceResults,
        unsettled: Unsettled,
        on_complete: Callable[[ProduceResults], object] | None,
    ) -> None:
        super().__init__()
        self._replicas = replicas
        self._acks = acks
        self._results = results
        self._unsettled = unsettled
        self._on_complete = on_complete

    def add_done_callback(self, callback: Callable[[ProduceResults], object]) -> None:
        """Call `callback` when all is settled or the time is over."""
        self._on_complete = callback

    def try_complete(self) -> bool:
        """Settle the partitions for which one of the module's cases holds."""
        for topic_partition in list(self._unsettled):
            self._look_at(topic_partition)
        return not self._unsettled and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Settle the partition `key` if one of the module's cases holds for it."""
        self._look_at(key)  # type: ignore[arg-type]  # the keys are partitions
        return not self._unsettled and self.force_complete()

    def _look_at(self, topic_partition: TopicPartition) -> None:
        required_offset = self._unsettled.get(topic_partition)
        if required_offset is None:
            return
        partition = self._replicas.partition(topic_partition)
        code: ErrorCode | None
        if isinstance(partition, ErrorCode):
            code = partition  # Case A
        elif self._acks == ACKS_ALL:
            code = partition.check_replicated(required_offset)  # Case B, C.1, C.2
        else:
            code = partition.check_settled(required_offset)  # Case B, D
        if code is not None:
            self._results[topic_partition] = self._results[topic_partition]._replace(error_code=code)
            del self._unsettled[topic_partition]

    def on_complete(self) -> None:
        """Send the results, with REQUEST_TIMED_OUT for unsettled partitions."""
        for topic_partition in self._unsettled:
            timed_out = self._results[topic_partition]._replace(error_code=ErrorCode.REQUEST_TIMED_OUT)
            self._results[topic_partition] = timed_out
        if self._on_complete is not None:
            self._on_complete(self._results)

    def on_expiration(self) -> None:
        """Count the partitions that were not settled in time."""
        self._replicas.produce_expirations += len(self._unsettled)
