"""A produce request that waits until its records are replicated (acks=all), or durable if the topic requires it (acks 1
too), and the queues in which such requests wait.

A request is complete when each of its partitions is settled:

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

Queues
    A partition has one queue for acks=all and one for acks=1, each in the order of the offsets that its waits must reach. A case
    that holds for a wait holds for all before it. So an event at a partition (`ReplicaManager.wake`) settles waits from the
    front, and looks at one more: not at every request that waits. The usual wait goes to the end of its queue. One for a batch
    that its producer has sent twice may belong further in front.

Source: kafka.server.DelayedProduce, for the cases.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Final

from pybroker.protocol.error_codes import ErrorCode
from pybroker.purgatory.timer import TimerTask
from pybroker.replication.leading import ACKS_ALL

if TYPE_CHECKING:
    from pybroker.model import Offset, TopicPartition
    from pybroker.purgatory.timer import PurgatoryTimer
    from pybroker.replication.produce_data import ProduceResults, Unsettled
    from pybroker.replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

SETTLED_PER_LOOK: Final = 16

_Entry = tuple["Offset", int, "DelayedProduce"]
"""The offset (exclusive) that a partition must reach, the number of the request, and the request."""


class DelayedProduce(TimerTask):
    """A produce request that waits. `unsettled` has the offset (exclusive) that each of its partitions must reach.

    At the end the results go to `on_complete`. Without it, the operation is a `Wait` (`sharing/work.py`): `add_done_callback`
    names what to call.
    """

    __slots__ = ("_on_complete", "_purgatory", "_results", "is_completed", "is_replicated", "number", "unsettled")

    def __init__(
        self,
        purgatory: ProducePurgatory,
        number: int,
        results: ProduceResults,
        unsettled: Unsettled,
        on_complete: Callable[[ProduceResults], object] | None,
        *,
        is_replicated: bool,
    ) -> None:
        super().__init__()
        self._purgatory = purgatory
        self.number = number
        self.is_replicated = is_replicated
        self._results = results
        self.unsettled = unsettled
        self._on_complete = on_complete
        self.is_completed = False

    def add_done_callback(self, callback: Callable[[ProduceResults], object]) -> None:
        """Call `callback` when all is settled or the time is over."""
        self._on_complete = callback

    def settle(self, topic_partition: TopicPartition, code: ErrorCode) -> None:
        """Take the result of a partition, and complete the request if it is the last."""
        unsettled = self.unsettled
        del unsettled[topic_partition]
        if code:
            self._results[topic_partition] = self._results[topic_partition]._replace(error_code=code)
        if not unsettled:
            self._complete()

    def expire(self) -> None:
        """Complete the request with REQUEST_TIMED_OUT for what is not settled; called by the timer."""
        purgatory, results, unsettled = self._purgatory, self._results, self.unsettled
        for topic_partition, required_offset in unsettled.items():
            purgatory.forget(topic_partition, (required_offset, self.number, self))
            results[topic_partition] = results[topic_partition]._replace(error_code=ErrorCode.REQUEST_TIMED_OUT)
        purgatory.expirations += len(unsettled)
        unsettled.clear()
        self._complete()

    def _complete(self) -> None:
        self.is_completed = True
        self.cancel()
        self._purgatory.delayed -= 1
        if self._on_complete is not None:
            self._on_complete(self._results)


class ProducePurgatory:
    """The produce requests that wait. Belongs to the loop.

    Attributes:
        delayed: the number of requests that wait.
        expirations: the number of partitions that were not settled in time so far.
        watchers: the queues of each partition that requests wait for, that of acks=all first. It is public so that an event that
            no request waits for costs no call.
    """

    __slots__ = ("_events", "_is_settling", "_number", "_replicas", "_timer", "delayed", "expirations", "watchers")

    def __init__(self, replicas: ReplicaManager, timer: PurgatoryTimer) -> None:
        self._replicas = replicas
        self._timer = timer
        self._number = 0
        self._events: OrderedDict[TopicPartition, None] = OrderedDict()
        self._is_settling = False
        self.delayed = 0
        self.expirations = 0
        self.watchers: dict[TopicPartition, tuple[list[_Entry], list[_Entry]]] = {}

    @property
    def watched(self) -> int:
        """The partitions that are waited for, each as often as requests wait for it."""
        return sum(len(queue) for queues in self.watchers.values() for queue in queues)

    def wait(
        self,
        acks: int,
        results: ProduceResults,
        unsettled: Unsettled,
        timeout_ms: int,
        on_complete: Callable[[ProduceResults], object] | None,
    ) -> DelayedProduce:
        """Return a request that waits from now on, at most `timeout_ms`; it may be complete already."""
        assert unsettled, "a request without partitions has no event to wait for"
        self._number = number = self._number + 1
        operation = DelayedProduce(self, number, results, unsettled, on_complete, is_replicated=acks == ACKS_ALL)
        self.delayed += 1
        for topic_partition, required_offset in tuple(unsettled.items()):
            code = self._code(topic_partition, required_offset, operation.is_replicated)
            if code is not None:
                operation.settle(topic_partition, code)
                continue
            queues = self.watchers.get(topic_partition)
            if queues is None:
                queues = self.watchers[topic_partition] = ([], [])
            insort(queues[0 if operation.is_replicated else 1], (required_offset, number, operation))
        if not operation.is_completed:
            self._timer.add(operation, timeout_ms)
        return operation

    def _code(self, topic_partition: TopicPartition, required_offset: Offset, is_replicated: bool) -> ErrorCode | None:
        """Return the result of one of the module's cases; None if none of them holds."""
        partition = self._replicas.partition(topic_partition)
        if isinstance(partition, ErrorCode):
            return partition  # Case A
        if is_replicated:
            return partition.check_replicated(required_offset)  # Case B, C.1, C.2
        return partition.check_settled(required_offset)  # Case B, D

    def check_and_complete(self, topic_partition: TopicPartition) -> None:
        """Settle what can be, after an event at a partition.

        Thousands may wait for the same event: those that are not settled within the timer's `slice_s` are looked at in the next
        turns of the loop, and may see a later state. An event that completing a request causes is looked at after the one in
        hand: a completion within another one, thousands deep, would exceed the stack.
        """
        self.check_all((topic_partition,))

    def check_all(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Do what `check_and_complete` does for each partition."""
        watchers, events = self.watchers, self._events
        for topic_partition in topic_partitions:
            if topic_partition in watchers:
                events[topic_partition] = None
        if events and not self._is_settling:
            self._settle()

    def _settle(self) -> None:
        """Look at the partitions with events for a slice, and at the others in the next turn."""
        events = self._events
        end, settled = perf_counter() + self._timer.slice_s, 0
        self._is_settling = True
        try:
            while events:
                topic_partition, _ = events.popitem(last=False)
                while self._settle_first(topic_partition):
                    settled += 1
                    if settled % SETTLED_PER_LOOK == 0 and perf_counter() >= end:
                        events[topic_partition] = None
                        self._timer.soon(self._settle)
                        return
        finally:
            self._is_settling = False

    def _settle_first(self, topic_partition: TopicPartition) -> bool:
        """Settle the first wait of a queue of a partition, if one of the cases holds for it. Returns whether it did."""
        queues = self.watchers.get(topic_partition)
        if queues is None:
            return False
        for queue in queues:
            if queue:
                required_offset, _, operation = queue[0]
                code = self._code(topic_partition, required_offset, operation.is_replicated)
                if code is not None:
                    self.forget(topic_partition, queue[0])
                    try:
                        operation.settle(topic_partition, code)
                    except Exception:  # the cause of the event must not suffer
                        logger.exception("A produce request to %s failed at its end, which is a bug", topic_partition)
                    return True
        return False

    def forget(self, topic_partition: TopicPartition, entry: _Entry) -> None:
        """Take a wait out of its queue."""
        queues = self.watchers[topic_partition]
        queue = queues[0 if entry[2].is_replicated else 1]
        del queue[bisect_left(queue, entry)]
        if not queues[0] and not queues[1]:
            del self.watchers[topic_partition]

    def complete_all(self) -> None:
        """Complete every request that waits, as if its time were over; for the end of a broker."""
        waiting = {entry[2]: None for queues in self.watchers.values() for queue in queues for entry in queue}
        for operation in waiting:
            if not operation.is_completed:
                try:
                    operation.expire()
                except Exception:  # the other requests must be completed nevertheless
                    logger.exception("A produce request failed at the end of the broker, which is a bug")
