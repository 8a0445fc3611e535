"""The loops over the partitions of a commit, and over the letters of a name: the contract. Here the first find nothing usual,
because the general way is as quick in Python.

A usual commit has no text beside its offsets, and names neither their time nor their expiry.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import mul
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pybroker.coordinator.committed import CommittedOffset

__all__ = ["java_hash", "usual_ends", "usual_offsets"]

_SOME_UNITS: Final = 1_024
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in reversed(range(_SOME_UNITS))]


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


def java_hash(text: str) -> int:
    """Return what Java's String.hashCode returns: a hash over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for start in range(0, len(units), 2 * _SOME_UNITS):  # few at a time, so that the sums fit into a machine's numbers
        some = units[start : start + 2 * _SOME_UNITS]
        count = len(some) // 2
        own = sum(map(mul, struct.unpack(f">{count}H", some), _POWERS[_SOME_UNITS - count :]))
        value = (value * pow(31, count, 1 << 32) + own) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
