"""Commits the changes of ISRs that this broker's partitions request, those of one round of the loop together.

A change is compared with the entry that it was computed from, and each replica that comes in with the life that it had in the
fetch that showed that it is in sync. So a broker that has lost the leadership, or a follower that has started again, changes
nothing.

A commit whose outcome is not known is tried again: if the first attempt came through, the second one finds another entry, and the
image shows whose it is. The leader hears nothing before that, and counts both sets of replicas meanwhile.

Source: KIP-497, KIP-841, KIP-903; DefaultAlterPartitionManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.elections import eligible_beside, min_isr_of
from pybroker.metadata.entries import encode_partition, partition_key
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.store.base import Conflict, OutcomeUnknownError, StoreError

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import PartitionImage
    from pybroker.metadata.isr_changes import IsrChange

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.2
"""The time between two attempts, and before a change that the store could not take fails."""


class _Requested(NamedTuple):
    change: IsrChange
    done: Callable[[bool], object]


class IsrCommits:
    """The changes of ISRs that are under way. `is_member` returns whether this broker's session lasts."""

    def __init__(self, controller: Controller, operations_max: int, is_member: Callable[[], bool]) -> None:
        self._controller, self._operations_max, self._is_member = controller, operations_max, is_member
        self.level = logging.WARNING
        """The level of the line about a change that the store could not take."""
        self._requested: list[_Requested] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def alter_isr(self, change: IsrChange, done: Callable[[bool], object]) -> None:
        """Change an ISR, as `AlterIsr` describes."""
        if not self._requested:
            asyncio.get_running_loop().call_soon(self._begin)
        self._requested.append(_Requested(change, done))

    def _begin(self) -> None:
        requested, self._requested = self._requested, []
        some: list[_Requested] = []
        count = 0
        for one in requested:
            count += 1 + len(one.change.added)
            if some and count > self._operations_max:
                self._start(some)
                some, count = [], 1 + len(one.change.added)
            some.append(one)
        self._start(some)

    def _start(self, some: list[_Requested]) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(some))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, left: list[_Requested]) -> None:
        while left:
            refused = [one for one in left if self._after(one.change) is None]
            left = [one for one in left if one not in refused]
            for one in refused:
                one.done(self._is_done(one.change))
            if not left:
                return
            try:
                outcome = await self._commit([one.change for one in left])
            except OutcomeUnknownError:
                await asyncio.sleep(PAUSE_S)
                if self._is_member():
                    continue
                outcome = None
            except StoreError as error:
                line = "The in-sync replicas of %d partitions remain as they are, because the change could not be written: %s"
                logger.log(self.level, line, len(left), error)
                await asyncio.sleep(PAUSE_S)
                outcome = None
            if isinstance(outcome, Conflict):
                left = self._without(left, outcome.key)
            else:
                for one in left:
                    one.done(outcome is not None)
                return

    def _without(self, requested: list[_Requested], key: str) -> list[_Requested]:
        """Refuse the changes that a conflict at `key` is about, and return the others."""
        left = []
        for one in requested:
            if key in self._compared(one.change):
                one.done(self._is_done(one.change))
            else:
                left.append(one)
        return left

    async def _commit(self, changes: Sequence[IsrChange]) -> int | Conflict:
        puts: dict[str, bytes] = {}
        compare: dict[str, int] = {}
        for change in changes:
            after = self._after(change)
            assert after is not None, "it was looked at in this step"
            puts[partition_key(change.topic_id, change.topic_partition.partition)] = encode_partition(after)
            compare |= self._compared(change)
        return await self._controller.commit(puts=puts, compare=compare)

    def _compared(self, change: IsrChange) -> dict[str, int]:
        partition = self._partition(change)
        key = partition_key(change.topic_id, change.topic_partition.partition)
        own = {} if partition is None else {key: partition.revision}
        return own | {session_key(broker_id): epoch for broker_id, epoch in change.added}

    def _partition(self, change: IsrChange) -> PartitionImage | None:
        topic, number = self._controller.image.topics_by_id.get(change.topic_id), change.topic_partition.partition
        return None if topic is None or number >= len(topic.partitions) else topic.partitions[number]

    def _after(self, change: IsrChange) -> PartitionImage | None:
        """Return the partition with the other ISR; None if it is not as the change knows it, or a replica cannot come in."""
        partition, members = self._partition(change), self._controller.image.members.live
        if (
            partition is None
            or (partition.leader, partition.leader_epoch) != (self._controller.broker_id, change.leader_epoch)
            or partition.partition_epoch != change.partition_epoch
            or partition.leader not in change.isr
            or not {*change.isr}.difference(partition.isr) <= {one for one, _ in change.added}
            or not {*change.isr} <= {*partition.replicas}
            or any(one not in members or members[one].is_stopping or members[one].epoch != epoch for one, epoch in change.added)
        ):
            return None
        min_isr = min_isr_of(self._controller.image.topics_by_id[change.topic_id], self._controller.config)
        elr = eligible_beside(change.isr, partition, min_isr)
        return replace(partition, isr=change.isr, elr=elr, partition_epoch=partition.partition_epoch + 1)

    def _is_done(self, change: IsrChange) -> bool:
        """Return whether the image has the change: an attempt whose outcome was not known came through."""
        partition = self._partition(change)
        return partition is not None and (partition.leader_epoch, partition.partition_epoch, partition.isr) == (
            change.leader_epoch,
            change.partition_epoch + 1,
            change.isr,
        )
