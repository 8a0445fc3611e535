"""Chooses which offsets of each partition to read: a range, its end, or stretches that are spread over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.model import Offset
from pybroker.spark.wire.client import COMMITTED, EARLIEST, LATEST

if TYPE_CHECKING:
    from pybroker.spark.wire.client import WireClient

Range = tuple[Offset, Offset]
"""A range of offsets: from the first to before the second."""
STRETCHES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The part of each partition to read; by default all of it."""

    from_offset: Offset | None = None
    to_offset: Offset | None = None
    from_ms: int | None = None
    """Start at the first record of this time or later."""
    to_ms: int | None = None
    """End before the first record of this time or later."""
    last: int | None = None
    """Read only this many offsets at the end of what is left."""
    sample: int | None = None
    """Read only this many offsets of what is left, in stretches of about equal length that are spread evenly."""

    def in_words(self) -> str:
        """Return the choice in words, for the page."""
        parts = []
        if self.from_offset is not None or self.to_offset is not None:
            parts.append(
                f"offsets {self.from_offset or 0} to {'the end' if self.to_offset is None else f'before {self.to_offset}'}"
            )
        if self.from_ms is not None or self.to_ms is not None:
            parts.append("the part of the log that the first records of the given times bound")
        if self.last is not None:
            parts.append(f"the last {self.last:,} offsets")
        if self.sample is not None:
            parts.append(f"a sample of {self.sample:,} offsets in {STRETCHES} stretches")
        return "; of that ".join(parts) if parts else "everything"


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a partition, and the ranges of them to read."""

    start: Offset
    end: Offset
    ranges: tuple[Range, ...]
    stable: Offset
    """The last stable offset: where the first open transaction begins, or the log ends."""


def extent(client: WireClient, topic: str, partition: int, wanted: Wanted) -> Extent:
    """Ask where a partition begins and ends, and where the wanted times are. Raises PipelineError."""
    start, end = (client.list_offset(topic, partition, timestamp=which) for which in (EARLIEST, LATEST))
    stable = client.list_offset(topic, partition, timestamp=LATEST, isolation=COMMITTED)
    first, last = start, end
    if wanted.from_ms is not None:
        found = client.list_offset(topic, partition, timestamp=wanted.from_ms)
        first = last if found < 0 else found
    if wanted.to_ms is not None:
        found = client.list_offset(topic, partition, timestamp=wanted.to_ms)
        last = last if found < 0 else min(last, found)
    return Extent(start, end, ranges(first, last=last, wanted=wanted), stable)


def ranges(first: Offset, *, last: Offset, wanted: Wanted) -> tuple[Range, ...]:
    """Return the ranges to read in a log from `first` to before `last`; none if nothing is left."""
    if wanted.from_offset is not None:
        first = max(first, wanted.from_offset)
    if wanted.to_offset is not None:
        last = min(last, wanted.to_offset)
    if wanted.last is not None:
        first = max(first, Offset(last - wanted.last))
    if first >= last:
        return ()
    if wanted.sample is None or wanted.sample >= last - first:
        return ((first, last),)
    count = min(STRETCHES, wanted.sample)
    found = []
    for number in range(count):
        length = wanted.sample * (number + 1) // count - wanted.sample * number // count
        begin = first + (last - first) * number // count
        found.append((Offset(begin), Offset(begin + length)))
    return tuple(found)
