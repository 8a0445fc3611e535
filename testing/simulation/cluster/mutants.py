"""Faults that are planted in the broker, one function each, to show that histories find them.

with planted("elects outside of the ISR"):
    History(seed).run()          raises FailedHistoryError for some seed
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from pybroker.metadata import partition_commits
from pybroker.metadata.elections import Election
from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.store import EtcdStore, _Outcome
from pybroker.model import LeaderEpoch, Offset
from pybroker.replication import following
from pybroker.replication.fetcher.fetcher import Followed, ReplicaFetcher
from pybroker.replication.in_sync import Cluster, Followers, Isr
from pybroker.replication.partition import Partition

if TYPE_CHECKING:
    from pybroker.log.results import LogOffsetMetadata
    from pybroker.metadata.image import PartitionImage
    from pybroker.model import BrokerId, TopicPartition
    from pybroker.replication.fetcher.fetcher import Request
    from pybroker.sharing.work import Work

Mutant = Callable[[], contextlib.AbstractContextManager[Any]]


def _elects_outside_of_the_isr() -> contextlib.AbstractContextManager[Any]:
    def after(self: Election, partition: PartitionImage, **_: object) -> PartitionImage | None:
        if len(partition.replicas) == 1 or partition.leader in self.among.present:
            return None
        leader = next((one for one in partition.replicas if one in self.among.electable), partition.leader)
        isr = tuple(one for one in partition.replicas if one in self.among.present)
        return None if leader == partition.leader else self._changed(partition, leader, isr, ())

    return mock.patch.object(Election, "after", after)


def _elects_in_an_old_epoch() -> contextlib.AbstractContextManager[Any]:
    def with_epoch_before(image: PartitionImage, *, leader_epoch: int) -> PartitionImage:
        return replace(image, leader_epoch=LeaderEpoch(leader_epoch - 1))

    return mock.patch.object(partition_commits, "replace", with_epoch_before)


def _repeats_commits_blindly() -> contextlib.AbstractContextManager[Any]:
    async def carry_out(self: EtcdStore, commit: Any, _done: bytes, _refused: bytes) -> _Outcome:
        response = await self._patient(partial(self._gateway.call, messages.TXN, commit))
        return _Outcome(messages.succeeded(response), messages.revision_of(response))

    return mock.patch.object(EtcdStore, "_carry_out", carry_out)


def _truncates_by_the_high_watermark() -> contextlib.AbstractContextManager[Any]:
    add = ReplicaFetcher.add

    def add_truncated(self: ReplicaFetcher, topic_partition: TopicPartition, followed: Followed) -> None:
        followed.partition.log.truncate_to(Offset(followed.partition.high_watermark))
        add(self, topic_partition, followed)

    return mock.patch.object(ReplicaFetcher, "add", add_truncated)


def _never_truncates() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(following, "last_epoch", return_value=LeaderEpoch(-1))


def _counts_only_the_leader() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(Followers, "slowest", lambda _self, leader_end, _cluster: leader_end)


def _counts_the_committed_isr() -> contextlib.AbstractContextManager[Any]:
    def slowest(self: Followers, leader_end: LogOffsetMetadata, _cluster: Cluster) -> LogOffsetMetadata | None:
        found = leader_end
        kept = self._isr if self.proposed is None else [one for one in self._isr if one in self.proposed.replicas]
        for replica_id, follower in self._by_id.items():
            if replica_id in kept:
                if follower.end is None:
                    return None
                found = min(found, follower.end, key=lambda end: end.offset)
        return found

    return mock.patch.object(Followers, "slowest", slowest)


def _takes_in_a_follower_that_is_behind() -> contextlib.AbstractContextManager[Any]:
    def expanded(self: Followers, replica_id: BrokerId, cluster: Cluster, **_: Offset) -> Isr | None:
        if self.proposed is not None or replica_id in self._isr or replica_id not in cluster.brokers:
            return None
        return Isr((*self._isr, replica_id), ((replica_id, cluster.brokers[replica_id].epoch),))

    return mock.patch.object(Followers, "expanded", expanded)


def _appends_what_an_older_leader_sent() -> contextlib.AbstractContextManager[Any]:
    def handle(self: ReplicaFetcher, request: Request, response: Any | None, now_ms: Callable[[], int]) -> Work[None]:
        ids = {(one.topic_id, key.partition): key for key, one in request.followed.items()}
        with (
            mock.patch.dict(self._followed, request.followed),
            mock.patch.dict(self._by_id, ids),
            mock.patch.object(Followed, "is_current", new=True),
        ):
            yield from handle_as_it_is(self, request, response, now_ms)

    handle_as_it_is = ReplicaFetcher.handle
    return mock.patch.object(ReplicaFetcher, "handle", handle)


def _leads_after_its_session() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(Partition, "step_down")


def _leads_by_an_election_before_the_end_of_its_session() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(Cluster, "is_away", property(lambda _: False, lambda _self, _value: None))


def _takes_every_log_as_complete() -> contextlib.AbstractContextManager[Any]:
    aside = Election.aside

    def aside_completely(self: Election, partition: PartitionImage, broker_id: BrokerId, **options: Any) -> PartitionImage | None:
        return aside(self, partition, broker_id, **{**options, "is_complete": True})

    return mock.patch.object(Election, "aside", aside_completely)


MUTANTS: Final[dict[str, Mutant]] = {
    "elects outside of the ISR": _elects_outside_of_the_isr,
    "elects in an old epoch": _elects_in_an_old_epoch,
    "truncates by the high watermark": _truncates_by_the_high_watermark,
    "never truncates": _never_truncates,
    "counts only the leader": _counts_only_the_leader,
    "counts the committed ISR": _counts_the_committed_isr,
    "takes in a follower that is behind": _takes_in_a_follower_that_is_behind,
    "appends what an older leader sent": _appends_what_an_older_leader_sent,
    "leads after its session": _leads_after_its_session,
    "leads by an election before the end of its session": _leads_by_an_election_before_the_end_of_its_session,
    "takes every log as complete": _takes_every_log_as_complete,
    "repeats commits blindly": _repeats_commits_blindly,
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant the fault of that name."""
    with MUTANTS[name]():
        yield
