"""The values of committed offsets: what a group has committed, for which partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pybroker.model import GroupId, LeaderEpoch, Offset

NO_TIMESTAMP: Final = -1


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for a partition.

    Times in ms; `expire_ms` is -1 when the broker's retention decides.
    """

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_ms: int
    expire_ms: int = NO_TIMESTAMP


class OffsetKey(NamedTuple):
    """The group and the partition of a committed offset."""

    group: GroupId
    topic: str
    partition: int
