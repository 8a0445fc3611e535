"""What loading means for groups: how the records of a batch become state, and what is to be done when all are replayed.

Source: GroupMetadataManager.onLoaded, GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pybroker.coordinator.classic import rebalance
from pybroker.coordinator.classic.group import GroupState
from pybroker.coordinator.offsets import forget_topics
from pybroker.coordinator.records import OFFSET_PREFIX, from_bytes, offset_from_bytes, offset_key_from_bytes
from pybroker.model import GroupId
from pybroker.records.entries import entries

if TYPE_CHECKING:
    from collections import Counter

    from pybroker.coordinator.runtime.result import CoordinatorResult
    from pybroker.coordinator.shard import GroupShard
    from pybroker.records.batch import BatchView


def replay_batch(shard: GroupShard, batch: BatchView, skipped: Counter[int]) -> None:
    """Replay a batch; types that mean nothing here are counted in `skipped`."""
    names: bytes | None = None
    group_id, topic = GroupId(""), ""
    for key, value in entries(batch):
        if key is None:
            continue
        if key.startswith(OFFSET_PREFIX) and value is not None:  # nearly all there is
            if key[:-4] != names:  # those that were committed together have the same names
                group_id, topic, _ = offset_key_from_bytes(key)
                names = key[:-4]
            shard.replay_offset(group_id, topic, int.from_bytes(key[-4:], signed=True), offset_from_bytes(value))
            continue
        record = from_bytes(key, value)
        if record is None or not shard.replay(record):
            skipped[int.from_bytes(key[:2])] += 1


def first_operation(shard: GroupShard, partitions_of: Callable[[str], int], now_ms: int) -> CoordinatorResult:
    """After loading: members get their sessions, groups that are too large a rebalance, and offsets of topics that were deleted
    when nobody could take notice go. `partitions_of` tells how many partitions a topic has, 0 if it is not there.
    """
    topics = {topic for offsets_by_topic in shard.offsets.values() for topic in offsets_by_topic}
    result = forget_topics(shard, {topic: partitions_of(topic) for topic in topics}, now_ms)
    for group in shard.classic_groups.values():
        for member in group.members.values():
            rebalance.restart_session(result, group, member)
        if group.state is GroupState.STABLE and len(group.members) > shard.settings.max_size:
            rebalance.prepare(shard, result, group, now_ms)
    return result
