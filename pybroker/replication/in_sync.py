"""The followers of a partition's leader: how far each is, which of them are in sync, and which should be.

In sync
    A follower leaves the ISR when it has not had all of the leader's log for `replica.lag.time.max.ms`. It was caught up at the
    time of its previous fetch if it now fetches from where the log ended then: so a follower that always has a little to fetch
    does not fall out. It comes in when it has all below the high watermark, and all that this leader found when it began to
    lead. It must be live, not stopping, and have fetched in its present life: a fetch of a life before proves nothing about a log
    that a crash may have shortened.

One change at a time
    While the cluster decides about a change, the replicas of both ISRs count for the high watermark, because the decision may be
    known to others already. The next image ends the proposal, and so does its refusal.

Waiting for a follower that will be in sync
    The high watermark also waits for a follower outside the ISR that was caught up lately and may come in. Otherwise it would
    move with every append of a leader that is alone in the ISR, and a follower could never reach it.

A new leader takes every follower of the ISR as caught up at its first moment, so that it does not take them out before they could
fetch.

Source: kafka.cluster.Partition, Replica; KIP-497, KIP-841, KIP-903.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.clock import SystemClock
from pybroker.metadata.members import NO_BROKER_EPOCH

if TYPE_CHECKING:
    from pybroker.clock import Clock
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.metadata.image import PartitionImage
    from pybroker.metadata.isr_changes import AlterIsr
    from pybroker.metadata.members import BrokerRegistration
    from pybroker.model import BrokerId, Offset, TopicPartition

_NEVER_MS: Final = -(1 << 62)


@dataclass(slots=True)
class Cluster:
    """The knowledge of a broker about the others, which its partitions share. `brokers` are the live ones.

    `alter_isr` is None for a broker that is alone. `wake` checks again the requests that wait for a partition.
    `give_up` has other brokers lead partitions whose logs cannot be used here. While this broker `is_away`, because its session
    has ended, it leads no partition with several replicas, whatever images it gets: they may be older than the end.
    """

    clock: Clock = field(default_factory=SystemClock)
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=lambda: MappingProxyType({}))
    alter_isr: AlterIsr | None = None
    wake: Callable[[TopicPartition], object] = lambda _: None
    give_up: Callable[[Collection[TopicPartition]], object] = lambda _: None
    is_away: bool = False
    lag_ms_max: int = 30_000
    shrinks: int = 0
    expands: int = 0

    def may_join(self, replica_id: BrokerId, broker_epoch: int) -> bool:
        """Return whether a replica that fetched in this life may come into an ISR."""
        broker = self.brokers.get(replica_id)
        return broker is not None and not broker.is_stopping and broker_epoch in (broker.epoch, NO_BROKER_EPOCH)


ALONE: Final = Cluster()
"""The cluster of a broker that knows no other one."""


class Isr(NamedTuple):
    """A proposed ISR; `added` are the replicas that come in, with the broker epochs of their fetches."""

    replicas: tuple[BrokerId, ...]
    added: tuple[tuple[BrokerId, int], ...] = ()


class Follower:
    """The state of one follower. `end` is where its log ends, None until it has fetched from this leader."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end", "fetched_ms", "leader_end_at_fetch")

    def __init__(self, caught_up_ms: int) -> None:
        self.end: LogOffsetMetadata | None = None
        self.caught_up_ms = caught_up_ms
        self.fetched_ms, self.leader_end_at_fetch = _NEVER_MS, -1
        self.broker_epoch = NO_BROKER_EPOCH

    def lag_ms(self, leader_end: Offset, now_ms: int) -> int:
        """Return for how long the follower has not had all of the leader's log."""
        return 0 if self.end is not None and self.end.offset >= leader_end else now_ms - self.caught_up_ms


class Followers:
    """The followers of one partition in one leader epoch. Belongs to the loop."""

    __slots__ = ("_by_id", "_isr", "_leader", "proposed")

    def __init__(self, leader: BrokerId, image: PartitionImage, now_ms: int) -> None:
        self._leader = leader
        self._isr = image.isr
        self._by_id = {
            replica: Follower(now_ms if replica in image.isr else _NEVER_MS) for replica in image.replicas if replica != leader
        }
        self.proposed: Isr | None = None

    def apply_image(self, image: PartitionImage) -> None:
        """Follow a decision of the cluster in the same leader epoch."""
        before, old_isr, self._isr, self.proposed = self._by_id, self._isr, image.isr, None
        self._by_id = {
            replica: before.get(replica) or Follower(_NEVER_MS) for replica in image.replicas if replica != self._leader
        }
        for replica, follower in self._by_id.items():
            if replica in old_isr and replica not in image.isr:  # as one whose disk takes no records: nothing waits for it
                follower.caught_up_ms = _NEVER_MS

    def __getitem__(self, replica_id: BrokerId) -> Follower:
        return self._by_id[replica_id]

    def fetched(self, replica_id: BrokerId, end: LogOffsetMetadata, broker_epoch: int, leader_end: Offset, now_ms: int) -> bool:
        """Note a fetch. Returns whether it counts: it does not if it comes from no replica, or from a life that is over."""
        follower = self._by_id.get(replica_id)
        if follower is None or broker_epoch < follower.broker_epoch:
            return False
        if end.offset >= leader_end:
            follower.caught_up_ms = now_ms
        elif end.offset >= follower.leader_end_at_fetch >= 0:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.end, follower.broker_epoch = end, broker_epoch
        follower.fetched_ms, follower.leader_end_at_fetch = now_ms, leader_end
        return True

    def was_caught_up(self, replica_id: BrokerId, fetched_ms: int) -> None:
        """Note that a follower that is settled had all of the log when it last fetched."""
        follower = self._by_id.get(replica_id)
        if follower is not None and follower.end is not None:
            follower.caught_up_ms = max(follower.caught_up_ms, fetched_ms)
            follower.fetched_ms, follower.leader_end_at_fetch = follower.caught_up_ms, follower.end.offset

    def is_settled_at(self, replica_id: BrokerId, end: Offset) -> bool:
        """Return whether a follower is in sync and has fetched from `end`, so that another fetch from there changes nothing."""
        follower = self._by_id.get(replica_id)
        return (
            follower is not None
            and follower.end is not None
            and follower.end.offset == end
            and self.proposed is None
            and replica_id in self._isr
        )

    def slowest(self, leader_end: LogOffsetMetadata, cluster: Cluster) -> LogOffsetMetadata | None:
        """Return the end of the replica that is the farthest behind, of those for which the high watermark waits; None if one of
        the ISR has not fetched yet.
        """
        now_ms, found = cluster.clock.monotonic_ms(), leader_end
        maximal = self._isr if self.proposed is None else (*self._isr, *self.proposed.replicas)
        for replica_id, follower in self._by_id.items():
            if replica_id in maximal:
                if follower.end is None:
                    return None
            elif (
                follower.end is None
                or follower.lag_ms(leader_end.offset, now_ms) > cluster.lag_ms_max
                or not cluster.may_join(replica_id, follower.broker_epoch)
            ):
                continue
            if follower.end.offset < found.offset:
                found = follower.end
        return found

    def expanded(
        self, replica_id: BrokerId, cluster: Cluster, *, high_watermark: Offset, epoch_start_offset: Offset
    ) -> Isr | None:
        """Return the ISR with a follower that has just fetched, if it should come in."""
        follower = self._by_id[replica_id]
        if self.proposed is not None or replica_id in self._isr or follower.end is None:
            return None
        end = follower.end.offset
        if end < high_watermark or end < epoch_start_offset or not cluster.may_join(replica_id, follower.broker_epoch):
            return None
        return Isr((*self._isr, replica_id), ((replica_id, follower.broker_epoch),))

    def shrunk(self, leader_end: Offset, *, now_ms: int, lag_ms_max: int) -> Isr | None:
        """Return the ISR without the followers that are too far behind, if there are any."""
        if self.proposed is not None:
            return None
        kept = tuple(one for one in self._isr if one == self._leader or self._by_id[one].lag_ms(leader_end, now_ms) <= lag_ms_max)
        return None if len(kept) == len(self._isr) else Isr(kept)
