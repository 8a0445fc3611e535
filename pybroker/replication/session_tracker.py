"""The changes of partitions in a follower's fetch session, so that a request of the follower costs what has changed.

A follower names its partitions once and then fetches again and again, at least every `replica.fetch.wait.max.ms`, however many
they are. A partition is quiet when a response about it would have nothing new: the follower is in sync, has all of the log, and
knows the high watermark and the log's start. Whatever changes a partition wakes the requests that wait for it
(`LeaderAppends.wake`), and so the tracker learns that it is quiet no more. The other partitions are not looked at. A session is
looked through every LOOK_AGAIN_MS, because the start of a log moves without a wake-up.

A quiet partition does not note the fetches of its follower, which is in sync: how far it is does not change. When the log grows,
the follower gets the time of the session's last fetch, at which it had all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pybroker.purgatory.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.model import BrokerId, TopicPartition
    from pybroker.replication.fetch_data import FetchResults, SessionKey
    from pybroker.replication.partition import Partition
    from pybroker.replication.partition_data import CachedPartition
    from pybroker.replication.replica_manager import ReplicaManager

LOOK_AGAIN_MS: Final = 5_000
TRACKED_MAX: Final = 200
"""A session with more partitions that are not quiet is read in slices, as any other."""


class SessionTracker:
    """The partitions of one session of the follower `replica_id` that are not quiet. Belongs to the loop. Close it."""

    __slots__ = ("_changed", "_look_again_ms", "_partitions", "_replica_id", "_replicas", "_wait", "fetched_ms")

    def __init__(self, replicas: ReplicaManager, replica_id: BrokerId, partitions: dict[SessionKey, CachedPartition]) -> None:
        """Track the partitions of a session, to which none may be added."""
        self._replicas, self._replica_id, self._partitions = replicas, replica_id, partitions
        self.fetched_ms = now_ms = replicas.clock.monotonic_ms()
        self._wait: FollowerWait | None = None
        self._changed: dict[SessionKey, None] = {}
        self._look_again_ms = 0
        self.look_through(now_ms)
        for key, one in partitions.items():
            replicas.tracked.setdefault(one.topic_partition, {})[self] = key

    @property
    def is_usual(self) -> bool:
        """Whether few partitions are not quiet, and no other request waits."""
        return self._wait is None and len(self._changed) <= TRACKED_MAX

    def close(self) -> None:
        """Track nothing any more; a request that waits is responded to."""
        tracked = self._replicas.tracked
        for one in self._partitions.values():
            found = tracked.get(one.topic_partition)
            if found is not None:
                found.pop(self, None)
                if not found:
                    del tracked[one.topic_partition]
        if self._wait is not None:
            self._wait.force_complete()

    def look_through(self, now_ms: int) -> None:
        """Find the partitions that are not quiet, if it is time."""
        if now_ms >= self._look_again_ms:
            self._look_again_ms = now_ms + LOOK_AGAIN_MS
            self._changed.update((key, None) for key, one in self._partitions.items() if not self._is_quiet(one))

    def named(self, key: SessionKey) -> None:
        """Note that a request names a partition, which becomes the last in the order of reading."""
        self._changed.pop(key, None)
        self._changed[key] = None

    def not_quiet(self) -> list[CachedPartition]:
        """Return the partitions to read, in their order."""
        partitions = self._partitions
        return [partitions[key] for key in self._changed]

    def responded(self, results: FetchResults) -> FetchResults:
        """Return what a response to the request must name, and forget the partitions that are quiet with it."""
        changed: FetchResults = []
        for result in results:
            one, data = result
            if one.remember_response(data):  # type: ignore[attr-defined]  # these are the session's partitions
                changed.append(result)
            if data.records is None and self._is_quiet(one):  # type: ignore[arg-type]  # as above
                self._changed.pop(one.session_key, None)
        return changed

    def wait(self, on_due: Callable[[], object], max_wait_ms: int) -> None:
        """Call `on_due` once there may be something to read, at the latest after `max_wait_ms`."""
        self._wait = wait = FollowerWait(self, on_due)
        self._replicas.fetch_purgatory.try_complete_else_watch(wait, (self,), max_wait_ms)
        if self._is_any_due():  # what the fetch itself has let others do
            self._end_soon(wait)

    def ended(self, wait: FollowerWait, *, is_expired: bool) -> None:
        """Note the end of the wait."""
        if self._wait is wait:
            self._wait = None
        if is_expired:
            self._replicas.follower_fetch_expirations += 1

    def wake(self, key: SessionKey, topic_partition: TopicPartition) -> None:
        """Note a change of a partition, as `ReplicaManager.wake`."""
        partition = self._replicas.partitions.get(topic_partition)
        if key not in self._changed:
            self._changed[key] = None
            if partition is not None and partition.followers is not None:
                partition.followers.was_caught_up(self._replica_id, self.fetched_ms)
        wait = self._wait
        if wait is not None and not wait.is_due and self._is_due(self._partitions[key], partition):
            self._end_soon(wait)

    def _end_soon(self, wait: FollowerWait) -> None:
        """End a wait after the appends of this round of the loop and of the next one, which then come in one response: a
        producer that has got several responses at once sends its next requests one after the other.
        """
        wait.is_due = True
        soon = self._replicas.fetch_purgatory.soon
        soon(lambda: soon(wait.complete))

    def _is_any_due(self) -> bool:
        return any(self._is_due(one, self._replicas.partitions.get(one.topic_partition)) for one in self.not_quiet())

    def _is_quiet(self, one: CachedPartition) -> bool:
        partition = self._replicas.partitions.get(one.topic_partition)
        if partition is None or not partition.is_leader or partition.followers is None:
            return False
        log, end = partition.log, one.fetch_offset
        return (
            log.log_end_offset == end
            and partition.high_watermark == one.sent_high_watermark
            and log.log_start_offset == one.sent_log_start_offset
            and partition.leader_epoch == one.current_leader_epoch
            and log.topic_id == one.topic_id
            and partition.followers.is_settled_at(self._replica_id, end)
        )

    @staticmethod
    def _is_due(one: CachedPartition, partition: Partition | None) -> bool:
        """Return whether a request does not wait any longer for this partition: cases A to H of `delayed_fetch`."""
        if partition is None or not partition.is_leader or partition.leader_epoch != one.current_leader_epoch:
            return True
        log = partition.log
        return log.settled_end_offset > one.fetch_offset or log.log_end_offset < one.fetch_offset


class FollowerWait(DelayedOperation):
    """A request of a follower that waits for its whole session."""

    __slots__ = ("_on_due", "_tracker", "is_due")

    def __init__(self, tracker: SessionTracker, on_due: Callable[[], object]) -> None:
        super().__init__()
        self._tracker, self._on_due = tracker, on_due
        self.is_due = False

    def try_complete(self) -> bool:
        """Wait: the request has been found to have nothing to read, and `SessionTracker.wake` learns of all that comes."""
        return False

    def complete(self) -> None:
        """End the wait, unless it is over."""
        self.force_complete()

    def on_complete(self) -> None:
        """Read, and respond."""
        on_due, self._on_due = self._on_due, _ignore  # the purgatory may keep this object for a while
        self._tracker.ended(self, is_expired=False)
        on_due()

    def on_expiration(self) -> None:
        """Count the expired fetch."""
        self._tracker.ended(self, is_expired=True)


def _ignore() -> None:
    """Do nothing."""


def wake_trackers(
    tracked: dict[TopicPartition, dict[SessionTracker, SessionKey]], topic_partitions: Iterable[TopicPartition]
) -> None:
    """Wake the trackers of partitions."""
    for topic_partition in topic_partitions:
        for tracker, key in tuple(tracked.get(topic_partition, {}).items()):
            tracker.wake(key, topic_partition)
