"""Which partition of its topic holds the state of a group or of a transactional id: a hash of the name decides.

Source: Utils.abs, String.hashCode; GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.coordinator import offset_loops

if TYPE_CHECKING:
    from pybroker.model import GroupId


def positive_hash(text: str) -> int:
    """Return the hash of `java_hash` without its sign; the smallest hash, which has no positive one in Java, is 0."""
    value = offset_loops.java_hash(text)
    return 0 if value == -(1 << 31) else abs(value)


def partition_of(group_id: GroupId, partition_count: int) -> int:
    """Return the group's partition of `__consumer_offsets`."""
    return positive_hash(group_id) % partition_count
