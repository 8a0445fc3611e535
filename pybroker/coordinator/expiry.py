"""The removal of offsets that have expired, and of groups that have no offset and no member left.

The age of an offset, which `offsets.retention.minutes` limits, counts like this:

    the commit named its own expiry (v2 to v4)     that time decides
    a simple group: consumers without membership   since the commit
    a group of KIP-848                             since the commit, and only for topics that no member subscribes to
    an Empty group                                 since it became Empty; since the commit if that is not known
    a Stable group of consumers                    since the commit, and only for topics that no member subscribes to
    any other group                                never

An Empty group is removed with its last offset; a group that never had an offset is removed at the next clean-up. An offset that
an open transaction has written does not expire, and its group is not removed.

Source: OffsetMetadataManager.cleanupExpiredOffsets, ClassicGroup.offsetExpirationCondition; KIP-211.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator.records import NO_TIMESTAMP, OffsetKey, offset_tombstone
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult

if TYPE_CHECKING:
    from pybroker.coordinator.group import Group
    from pybroker.coordinator.shard import GroupShard


def clean_up(shard: GroupShard, now_ms: int) -> CoordinatorResult:
    """Write a tombstone for each offset that has expired, and the tombstones of groups that have nothing left."""
    result = CoordinatorResult(is_atomic=False)
    for group in shard.all_groups():
        kept_count = _expire_offsets(shard, group, result.records, now_ms)
        if not kept_count and group.is_unused and not shard.pending.keys_of(group.group_id):
            result.records += group.tombstones()
    return result


def _expire_offsets(shard: GroupShard, group: Group, records: list[CoordinatorRecord], now_ms: int) -> int:
    """Add a tombstone for each expired offset to `records`. Returns the number of offsets that remain."""
    topics = shard.offsets.get(group.group_id)
    if topics is None:
        return 0
    is_counted, since_ms = group.offset_age
    newest_expired_ms = now_ms - shard.settings.offsets_retention_ms
    kept_count = 0
    for topic, partitions in topics.items():
        if not is_counted or group.is_subscribed_to(topic):
            kept_count += len(partitions)
            continue
        for partition, committed in partitions.items():
            if committed.expire_ms != NO_TIMESTAMP:
                is_expired = now_ms >= committed.expire_ms
            else:
                is_expired = (committed.commit_ms if since_ms is None else since_ms) <= newest_expired_ms
            if is_expired and OffsetKey(group.group_id, topic, partition) not in shard.pending.by_key:
                records.append(offset_tombstone(group.group_id, topic, partition))
            else:
                kept_count += 1
    return kept_count
