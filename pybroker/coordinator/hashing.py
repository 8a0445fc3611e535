"""Which partition of its topic holds the state of a group or of a transactional id: a hash of the name decides.

Source: Utils.abs, String.hashCode; GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybroker.model import GroupId


def java_hash(text: str) -> int:
    """Return what Java's String.hashCode returns: a hash over UTF-16 units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def positive_hash(text: str) -> int:
    """Return the hash of `java_hash` without its sign; the smallest hash, which has no positive one in Java, is 0."""
    value = java_hash(text)
    return 0 if value == -(1 << 31) else abs(value)


def partition_of(group_id: GroupId, partition_count: int) -> int:
    """Return the group's partition of `__consumer_offsets`."""
    return positive_hash(group_id) % partition_count
