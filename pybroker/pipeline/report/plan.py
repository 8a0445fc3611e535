"""Which offsets are looked at: of each partition one range, its end, or stretches spread over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pybroker.pipeline.wire.client import EARLIEST, LATEST

if TYPE_CHECKING:
    from pybroker.pipeline.wire.client import WireClient

Range = tuple[int, int]
"""From the first offset to before the second."""
STRETCHES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of each partition to look at; all of it if nothing is said."""

    from_offset: int | None = None
    to_offset: int | None = None
    from_ms: int | None = None
    """From the first record of this time or later on."""
    to_ms: int | None = None
    """Before the first record of this time or later."""
    last: int | None = None
    """Of what is left, only so many offsets at its end."""
    sample: int | None = None
    """Of what is left, about so many offsets, in stretches of equal length spread evenly."""

    def said(self) -> str:
        """For a reader of the page."""
        parts = []
        if self.from_offset is not None or self.to_offset is not None:
            parts.append(
                f"offsets {self.from_offset or 0} to {'the end' if self.to_offset is None else f'before {self.to_offset}'}"
            )
        if self.from_ms is not None or self.to_ms is not None:
            parts.append("what lies in the log between the first records of two times, or from or up to one")
        if self.last is not None:
            parts.append(f"the last {self.last:,} offsets")
        if self.sample is not None:
            parts.append(f"a sample of {self.sample:,} offsets in {STRETCHES} stretches")
        return "; of that ".join(parts) if parts else "everything"


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition has, and what of it is looked at."""

    start: int
    end: int
    ranges: tuple[Range, ...]


def extent(client: WireClient, topic: str, partition: int, wanted: Wanted) -> Extent:
    """Ask where a partition begins and ends, and where its times are. Raises PipelineError."""
    start, end = (client.list_offset(topic, partition, which) for which in (EARLIEST, LATEST))
    first, last = start, end
    if wanted.from_ms is not None:
        found = client.list_offset(topic, partition, wanted.from_ms)
        first = last if found < 0 else found
    if wanted.to_ms is not None:
        found = client.list_offset(topic, partition, wanted.to_ms)
        last = last if found < 0 else min(last, found)
    return Extent(start, end, ranges(first, last, wanted))


def ranges(first: int, last: int, wanted: Wanted) -> tuple[Range, ...]:
    """The ranges in a log that goes from `first` to before `last`; none if nothing is left."""
    if wanted.from_offset is not None:
        first = max(first, wanted.from_offset)
    if wanted.to_offset is not None:
        last = min(last, wanted.to_offset)
    if wanted.last is not None:
        first = max(first, last - wanted.last)
    if first >= last:
        return ()
    if wanted.sample is None or wanted.sample >= last - first:
        return ((first, last),)
    count = min(STRETCHES, wanted.sample)
    found = []
    for number in range(count):
        length = wanted.sample * (number + 1) // count - wanted.sample * number // count
        begin = first + (last - first) * number // count
        found.append((begin, begin + length))
    return tuple(found)
