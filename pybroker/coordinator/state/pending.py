"""The offsets of open transactions in one partition of `__consumer_offsets`, which count from the marker of their commit on.

    a transaction writes an offset    it is pending; a fetch of stable offsets gets UNSTABLE_OFFSET_COMMIT
    another commit of that offset     what is pending is superseded: it is older, so the marker does not bring it back
    a tombstone                       what is pending is gone
    the marker                        the pending offsets of that producer count, or are gone

An offset that is superseded remains unstable until the marker, as in Kafka, which compares the offsets of the records when the
marker comes. Here the order in which they were written decides, which is the same and needs no number in each committed offset.

Source: OffsetMetadataManager.pendingTransactionalOffsets, openTransactionsByGroup, replayEndTransactionMarker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from pybroker.coordinator.committed import OffsetKey
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.coordinator.committed import CommittedOffset
    from pybroker.model import GroupId, ProducerId


class PendingOffsets:
    """The pending offsets of a shard; only a replay changes them.

    `by_key` has, for each offset that is not stable, what each producer has written, in the order of their writing; None once it
    is superseded.
    """

    __slots__ = ("_by_group", "_by_producer", "by_key")

    def __init__(self) -> None:
        self.by_key: dict[OffsetKey, dict[ProducerId, CommittedOffset | None]] = {}
        self._by_producer: dict[ProducerId, dict[OffsetKey, None]] = {}
        self._by_group: dict[GroupId, dict[OffsetKey, None]] = {}

    # --- questions of requests ---

    def keys_of(self, group_id: GroupId) -> Collection[OffsetKey]:
        """Return the offsets of the group that are pending."""
        return self._by_group.get(group_id, {}).keys()

    def keys(self) -> Iterator[OffsetKey]:
        """Return the offsets that are pending."""
        return iter(self.by_key)

    def producers(self) -> list[ProducerId]:
        """Return the producers whose transactions are open."""
        return list(self._by_producer)

    # Changes; by replay alone

    def put(self, producer_id: ProducerId, group: GroupId, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Note what the transaction of a producer has written for partitions of a topic, of which there is at least one."""
        by_key = self.by_key
        if (of_producer := self._by_producer.get(producer_id)) is None:
            of_producer = self._by_producer[producer_id] = {}
        if (of_group := self._by_group.get(group)) is None:
            of_group = self._by_group[group] = {}
        for partition, committed in offsets.items():
            key = OffsetKey(group, topic, partition)
            written = by_key.get(key)
            if written is None:
                by_key[key] = {producer_id: committed}
            else:
                written.pop(producer_id, None)  # so that it is the last one
                written[producer_id] = committed
            of_producer[key] = of_group[key] = None

    def supersede(self, key: OffsetKey) -> None:
        """Note that an offset was written outside of transactions, which is younger than what is pending."""
        written = self.by_key.get(key)
        if written is not None:
            for producer_id in written:
                written[producer_id] = None

    def remove(self, key: OffsetKey) -> None:
        """Forget what is pending for a partition, because the log has a tombstone."""
        for producer_id in tuple(self.by_key.get(key, ())):
            self._forget(producer_id, key)

    def end(self, producer_id: ProducerId, *, is_commit: bool) -> Iterator[list[tuple[OffsetKey, CommittedOffset]]]:
        """End the transaction of a producer, some offsets at a time, and yield those of each time that count from now on."""
        for some in portions(tuple(self._by_producer.get(producer_id, ()))):
            counting: list[tuple[OffsetKey, CommittedOffset]] = []
            for key in some:
                written = self.by_key[key]
                committed = written[producer_id] if is_commit else None
                if committed is not None:
                    for other in written:
                        if other == producer_id:
                            break
                        written[other] = None
                    counting.append((key, committed))
                self._forget(producer_id, key)
            yield counting

    def _forget(self, producer_id: ProducerId, key: OffsetKey) -> None:
        written = self.by_key[key]
        del written[producer_id]
        keys = self._by_producer[producer_id]
        del keys[key]
        if not keys:
            del self._by_producer[producer_id]
        if not written:
            del self.by_key[key]
            keys = self._by_group[key.group]
            del keys[key]
            if not keys:
                del self._by_group[key.group]
