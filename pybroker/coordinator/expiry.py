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

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pybroker.coordinator.committed import NO_TIMESTAMP, OffsetKey
from pybroker.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from pybroker.coordinator.state.records import offset_tombstone
from pybroker.sharing.work import portions

if TYPE_CHECKING:
    from pybroker.coordinator.state.group import Group
    from pybroker.coordinator.state.shard import GroupShard
    from pybroker.model import GroupId
    from pybroker.sharing.work import Pausing

OFFSETS_MAX: Final = 1000
"""A clean-up pauses after the topic with which it has looked at this many offsets and groups.

An offset that expires takes about 5 us.
"""

Places = Iterator[tuple["Group", str | None]]
"""Where a clean-up still has to look: the topics of a group, then the group itself, with None."""


def places(shard: GroupShard) -> Places:
    """Return the places of all groups that are there now."""
    for group in tuple(shard.all_groups()):
        for topic in tuple(shard.offsets.get(group.group_id, ())):
            yield group, topic
        yield group, None


def clean_up(shard: GroupShard, rest: Places, now_ms: int) -> Pausing[tuple[CoordinatorResult, bool]]:
    """Write a tombstone for each offset that has expired, and the tombstones of groups that have nothing left.

    Looks at some of the places `rest`; the second value is whether it has seen the last of them. Offsets that clients
    commit between two calls count: a group is removed only if nothing but what this call expires is left of its offsets.
    """
    result = CoordinatorResult(is_atomic=False)
    expired: Counter[GroupId] = Counter()
    count = 0
    for group, topic in rest:
        if shard.find_group(group.group_id) is not group:
            continue  # it was removed since, or is of another kind now
        offsets = shard.offsets.get(group.group_id, {})
        if topic is None:
            count += 1
            kept_count = sum(map(len, offsets.values())) - expired[group.group_id]
            if not kept_count and group.is_unused and not shard.pending.keys_of(group.group_id):
                result.records += group.tombstones()
        elif topic in offsets:
            count += len(offsets[topic])
            tombstones = yield from _expired(shard, group, topic, now_ms)
            expired[group.group_id] += len(tombstones)
            result.records += tombstones
        if count >= OFFSETS_MAX:
            return result, False
    return result, True


def _expired(shard: GroupShard, group: Group, topic: str, now_ms: int) -> Pausing[list[CoordinatorRecord]]:
    """Return a tombstone for each offset of the topic that has expired."""
    is_counted, since_ms = group.offset_age
    if not is_counted or group.is_subscribed_to(topic):
        return []
    newest_expired_ms = now_ms - shard.settings.offsets_retention_ms
    tombstones: list[CoordinatorRecord] = []
    for some in portions(tuple(shard.offsets[group.group_id][topic].items())):
        for partition, committed in some:
            if committed.expire_ms != NO_TIMESTAMP:
                is_expired = now_ms >= committed.expire_ms
            else:
                is_expired = (committed.commit_ms if since_ms is None else since_ms) <= newest_expired_ms
            if is_expired and OffsetKey(group.group_id, topic, partition) not in shard.pending.by_key:
                tombstones.append(offset_tombstone(group.group_id, topic, partition))
        yield
    return tombstones
