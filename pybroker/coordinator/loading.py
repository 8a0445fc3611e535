"""The part of loading that knows groups: it replays the records of a batch, and it finishes a shard that has replayed all of
them.

Source: GroupMetadataManager.onLoaded, GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pybroker.coordinator.offsets import forget_topics
from pybroker.coordinator.records import (
    OFFSET_PREFIX,
    from_bytes,
    offset_from_bytes,
    offset_key_from_bytes,
)
from pybroker.model import GroupId

if TYPE_CHECKING:
    from collections import Counter

    from pybroker.coordinator.runtime.result import CoordinatorResult
    from pybroker.coordinator.shard import GroupShard
    from pybroker.model import ProducerId
    from pybroker.records.batch import BatchView
    from pybroker.records.entries import Entry


def replay_batch(shard: GroupShard, batch: BatchView, some: Iterable[Entry], skipped: Counter[int]) -> None:
    """Replay some records of a batch, and count those of types that mean nothing here in `skipped`."""
    names: bytes | None = None
    group_id, topic = GroupId(""), ""
    for key, value in some:
        if key is None:
            continue
        if key.startswith(OFFSET_PREFIX) and value is not None:  # nearly every record
            if key[:-4] != names:  # offsets that were committed together have the same names
                group_id, topic, _ = offset_key_from_bytes(key)
                names = key[:-4]
            partition, committed = int.from_bytes(key[-4:], signed=True), offset_from_bytes(value)
            if batch.is_transactional:
                shard.replay_pending(batch.producer_id, group_id, topic, {partition: committed})
            else:
                shard.replay_offset(group_id, topic, partition, committed)
            continue
        record = from_bytes(key, value)
        if record is None or not shard.replay(record):
            skipped[int.from_bytes(key[:2])] += 1


def replay_marker(shard: GroupShard, producer_id: ProducerId, is_commit: bool) -> None:
    """Replay the marker of a transaction."""
    shard.replay_marker(producer_id, is_commit=is_commit)


def first_operation(shard: GroupShard, partitions_of: Callable[[str], int], now_ms: int) -> CoordinatorResult:
    """Delete the offsets of topics that were deleted while no broker led this partition, after the loading.

    `partitions_of` returns the number of partitions of a topic, 0 if the topic does not exist.
    """
    topics = {topic for offsets_by_topic in shard.offsets.values() for topic in offsets_by_topic}
    topics |= {key.topic for key in shard.pending.by_key}
    return forget_topics(shard, {topic: partitions_of(topic) for topic in topics}, now_ms)
