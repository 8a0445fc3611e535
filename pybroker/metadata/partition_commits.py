"""Commits new states of partitions, which were planned from the image, and plans again where another broker was faster.

A commit compares the partitions, and the lives of the leaders and in-sync replicas that it names: in an image that is behind, a
broker that has died since still looks live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pybroker.metadata.entries import LEADER_EPOCH_KEY, encode_leader_epoch, encode_partition, partition_key
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.store.base import Conflict
from pybroker.model import NO_LEADER_EPOCH
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, PartitionChange, PartitionImage
    from pybroker.model import LeaderEpoch, TopicId
    from pybroker.sharing.work import Pausing

COMMIT_MAX: Final = 1_000
"""Partitions of one commit, where the store would take more: the loop serves others between commits."""

PlanChanges = Callable[["ClusterImage", "LeaderEpoch"], "Pausing[Sequence[PartitionChange]]"]
"""A function that plans changes from an image, in which new leaders get the leader epoch."""


async def carry_out(controller: Controller, operations_max: int, plan: PlanChanges) -> int:
    """Commit what `plan` makes of the present image, until it makes nothing. Returns how many changes there were.

    Raises StoreError; the changes that were committed before that stay.
    """
    count = 0
    while True:
        image = controller.image
        lives_max = len(image.registered.keys() | image.brokers.keys())  # more brokers may be live when it is committed
        count_max = max(1, min(operations_max - 1 - lives_max, COMMIT_MAX))  # without the counter and the lives
        changes = await complete(plan(image, image.leader_epochs.next_after(NO_LEADER_EPOCH)))
        if not changes:
            return count
        for start in range(0, len(changes), count_max):
            count += await _commit(controller, image, changes[start : start + count_max])


async def _commit(controller: Controller, planned_from: ClusterImage, changes: Sequence[PartitionChange]) -> int:
    """Commit those of `changes` whose partitions are as they were, in one commit. Returns their number, 0 after a conflict."""
    image = controller.image
    epoch, has_new_leader = image.leader_epochs.next_after(NO_LEADER_EPOCH), False
    puts: dict[str, bytes] = {}
    compare: dict[str, int] = {}
    for topic_id, number, partition in changes:
        before = _partition(planned_from, topic_id, number)
        if partition is None or before is None or _partition(image, topic_id, number) != before:
            continue
        key, after = partition_key(topic_id, number), partition
        if after.leader != before.leader:
            after, has_new_leader = replace(after, leader_epoch=epoch), True
        puts[key], compare[key] = encode_partition(after), before.revision
        for replica in (after.leader, *after.isr):
            life = image.members.sessions.get(replica)
            if life is not None:
                compare[session_key(replica)] = life.epoch
    count = len(puts)
    if has_new_leader:
        puts[LEADER_EPOCH_KEY], compare[LEADER_EPOCH_KEY] = encode_leader_epoch(epoch), image.leader_epochs.revision
    if not count or isinstance(await controller.commit(puts=puts, compare=compare), Conflict):
        return 0
    return count


def _partition(image: ClusterImage, topic_id: TopicId, number: int) -> PartitionImage | None:
    topic = image.topics_by_id.get(topic_id)
    return None if topic is None or number >= len(topic.partitions) else topic.partitions[number]
