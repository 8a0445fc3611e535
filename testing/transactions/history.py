"""A history of transactional writers and of readers.

The history may be written from several threads. `stamp` numbers the moments of it: what ended before something else began has a
smaller number.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """How a transaction ended, by what its writer knows."""

    ABORTED = "aborted"
    """It was aborted, or its writer was stopped before it tried to commit. This is what a transaction begins as."""
    COMMITTED = "committed"
    UNKNOWN = "unknown"
    """The writer tried to commit, and got no response or an error that leaves it open."""


class Claim(NamedTuple):
    """The part of an input that a transaction has read: it commits the offset `end` of that partition for its group."""

    partition: int
    first: int
    end: int


@dataclass(slots=True)
class Written:
    """A transaction of a writer: its records by partition, in the order in which they were sent. Values occur only once."""

    writer: str
    number: int
    records: dict[int, list[bytes]] = field(default_factory=dict)
    acknowledged: set[bytes] = field(default_factory=set)
    outcome: Outcome = Outcome.ABORTED
    claim: Claim | None = None

    def new_values(self, partition: int, count: int) -> list[bytes]:
        """Return values for the next records of a partition, which count as sent from now on."""
        first = sum(map(len, self.records.values()))
        values = [b"%s/%d/%d" % (self.writer.encode(), self.number, first + index) for index in range(count)]
        self.records.setdefault(partition, []).extend(values)
        return values

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.writer} ({self.outcome.value})"


class Reading(NamedTuple):
    """The records of one partition that a reader with `read_committed` got, one after the other from offset 0 on.

    `position` is the offset up to which the reader got.
    """

    reader: str
    partition: int
    records: list[tuple[int, bytes]]
    position: int


class StableOffset(NamedTuple):
    """A last stable offset, or a committed offset of the group, that was seen between two moments."""

    partition: int
    offset: int
    began: int
    ended: int


@dataclass(slots=True)
class Contents:
    """A partition after everything has ended: offsets and values for either isolation, and the last offsets."""

    committed: list[tuple[int, bytes]]
    uncommitted: list[tuple[int, bytes]]
    last_stable_offset: int
    high_watermark: int


@dataclass(slots=True)
class History:
    """The operations of a history and their results. `last` has the partitions after everything, and `last_offsets` the group's
    committed offsets of the input, None where the group has no stable one. Of a topic that was made again, `touches` has the
    moments at which producers wrote to it last, `made` the moment before it was made last, and `last_markers` the producers of
    its markers.
    """

    transactions: list[Written] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    stable_offsets: list[StableOffset] = field(default_factory=list)
    committed_offsets: list[StableOffset] = field(default_factory=list)
    last: dict[int, Contents] = field(default_factory=dict)
    last_offsets: dict[int, int | None] = field(default_factory=dict)
    is_compacted: bool = False
    """Whether compaction may have removed the records of aborted transactions."""
    touches: dict[int, int] = field(default_factory=dict)
    made: int = 0
    last_markers: list[int] = field(default_factory=list)
    last_removed_open: int = 0
    """The number of offsets behind the last stable offset of that topic."""
    _stamps: itertools.count[int] = field(default_factory=itertools.count)

    def stamp(self) -> int:
        """Return the number of this moment."""
        return next(self._stamps)

    def begin(self, writer: str, number: int) -> Written:
        """Note a transaction."""
        written = Written(writer, number)
        self.transactions.append(written)
        return written
