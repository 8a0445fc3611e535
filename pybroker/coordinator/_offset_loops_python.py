"""The loops over the partitions of a commit: the contract. Here they find nothing usual, because the general way is as quick in
Python.

A usual commit has no text beside its offsets, and names neither their time nor their expiry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.coordinator.records import CommittedOffset

__all__ = ["usual_ends", "usual_offsets"]


def usual_offsets(
    cls: type[CommittedOffset],  # noqa: ARG001
    partitions: Sequence[Any],  # noqa: ARG001
    commit_ms: int,  # noqa: ARG001
) -> dict[int, CommittedOffset] | None:
    """Return the offsets to commit by partition, committed at `commit_ms` unless one of them is not usual; else None.

    `partitions` are those of a topic in an OffsetCommit.
    """
    return None


def usual_ends(
    start: bytes,  # noqa: ARG001
    offsets: Mapping[int, CommittedOffset],  # noqa: ARG001
) -> list[bytes] | None:
    """Return the bytes of each offset's record that follow its own offset, unless one of the offsets is not usual; else None.

    They begin with `start`, which ends before the partition.
    """
    return None
