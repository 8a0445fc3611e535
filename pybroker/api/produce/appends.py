"""The appends of one produce request: partition after partition, with pauses wherever its owner wants them.

`run` appends until all is done, until its time is over, or until a batch takes too long for the loop. Then the owner gives
others their turn, or has the batch checked in a thread, and calls `run` again. Between two calls, others see that the partitions
that are done have their records. Requests that wait for these are woken, in the next turns if they are many. The other
partitions have nothing yet.

A batch that is checked in a thread gets its offsets after that. So records that others append meanwhile come first, and the
rules of idempotent producers use the state after the check. If the partition was removed or remade meanwhile, the records are
refused with NOT_LEADER_OR_FOLLOWER; the topic's settings are those from when the check began.

Source: kafka.server.ReplicaManager.appendRecordsToLeader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from pybroker.log.results import AppendOrigin
from pybroker.protocol.error_codes import ErrorCode
from pybroker.records.work import LongWorkError
from pybroker.replication.produce_data import REFUSED, PartitionProduceResult, ProduceResults, Unsettled

if TYPE_CHECKING:
    from pybroker.model import TopicPartition
    from pybroker.records.validate import Checked
    from pybroker.records.work import LongCheck, Work
    from pybroker.replication.partition import Partition
    from pybroker.replication.replica_manager import ReplicaManager


class Appends:
    """The appends of one request to the leaders on this broker. Belongs to the loop.

    Attributes:
        results: one for each partition that is done.
        unsettled: the partitions whose result is not valid yet, with the offset (exclusive) that each must reach.
        check: what a thread must do with `records` before `run` may continue; None if nothing. `checked` takes the outcome.
    """

    __slots__ = (
        "_acks",
        "_entries",
        "_guard",
        "_is_internal_allowed",
        "_manager",
        "_next",
        "_origin",
        "_partition",
        "_request_version",
        "_rest",
        "_work",
        "check",
        "results",
        "unsettled",
    )

    def __init__(
        self,
        manager: ReplicaManager,
        acks: int,
        entries: dict[TopicPartition, memoryview],
        *,
        request_version: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        is_internal_allowed: bool = False,
        work: Work | None = None,
        check: LongCheck | None = None,
        guard: Callable[[TopicPartition], ErrorCode] | None = None,
    ) -> None:
        """Prepare the appends of `entries`, whose records may be replaced by copies between two calls.

        `work` is the request's; without it nothing is too long for the loop. `check` is what a thread must do first with the only
        entry. `guard` is asked right before each append, and refuses it with an error.
        """
        self._manager = manager
        self._acks = acks
        self._entries = entries
        self._rest: Iterator[TopicPartition] = iter(entries)
        self._next = next(self._rest, None)
        self._request_version = request_version
        self._origin = origin
        self._is_internal_allowed = is_internal_allowed
        self._work = work
        self._guard = guard
        self._partition: Partition | None = None  # the one that `check` belongs to
        self.results: ProduceResults = {}
        self.unsettled: Unsettled = {}
        self.check = check
        if not -1 <= acks <= 1:
            self._guard = _refuse_acks
        elif check is not None:
            (topic_partition,) = entries
            self._partition = manager.partitions[topic_partition]

    @property
    def records(self) -> memoryview:
        """The next records."""
        assert self._next is not None
        return self._entries[self._next]

    def run(self, seconds_max: float | None = None) -> bool:
        """Append until all is done: True; or until the time is over, after one partition at least, or there is a `check`."""
        assert self.check is None, "the outcome of the check is missing"
        end = None if seconds_max is None else perf_counter() + seconds_max
        now_ms, appended = self._manager.clock.time_ms(), []
        while self._next is not None:
            topic_partition = self._next
            try:
                is_appended = self._append(topic_partition, self._entries[topic_partition], now_ms, self._origin)
            except LongWorkError as long:
                self.check, self._partition = long.check, self._manager.partitions[topic_partition]
                break
            self._next = next(self._rest, None)
            if is_appended:
                appended.append(topic_partition)
            if end is not None and perf_counter() >= end:
                break
        self._manager.wake_all(appended)
        return self._next is None

    def checked(self, outcome: Checked | Exception) -> None:
        """Append what a thread has checked, or refuse it with the error of the check."""
        assert self._next is not None
        topic_partition, records = self._next, self.records
        self._next = next(self._rest, None)
        manager, partition, self._partition, self.check = self._manager, self._partition, None, None
        present = manager.partition(topic_partition)
        if isinstance(present, ErrorCode):
            self.results[topic_partition] = PartitionProduceResult(present)
        elif present is not partition:
            self.results[topic_partition] = PartitionProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif isinstance(outcome, Exception):
            self.results[topic_partition] = manager.failed_append(partition, records, outcome)
        elif self._append(topic_partition, outcome, manager.clock.time_ms(), AppendOrigin.CHECKED):
            manager.wake(topic_partition)

    def _append(self, topic_partition: TopicPartition, records: memoryview | Checked, now_ms: int, origin: AppendOrigin) -> bool:
        """Append to one partition; return whether `wake` must follow."""
        if self._guard is not None and (code := self._guard(topic_partition)):
            self.results[topic_partition] = PartitionProduceResult(code)
            return False
        self.results[topic_partition], required_offset = self._manager.append_one(
            topic_partition, records, self._acks, now_ms, self._request_version, origin, self._is_internal_allowed, self._work
        )
        if required_offset >= 0:
            self.unsettled[topic_partition] = required_offset
        return required_offset != REFUSED


def _refuse_acks(_: TopicPartition) -> ErrorCode:
    return ErrorCode.INVALID_REQUIRED_ACKS
