"""The comparison: for a chunk of 4096 sequence numbers, what each tier has of what it should have.

Every set is an int with a bit for each number of the chunk. So a chunk costs a handful of operations on 512 bytes, and loops run
only over the ranges that are wrong.

What should be there
    A number should be there if the producer saw it acknowledged, or if any tier has it. A number that was sent and refused and is
    in no tier is `refused`. A number that was sent and neither acknowledged nor refused, or that is missing between others
    although no count has it, is `unknown` unless some tier has it: the producer was killed, or its counts have not arrived.
Which bucket
    A number belongs to the bucket in which the producer counted it; without a count, to the bucket of its timestamp in the first
    tier that has it. So a tier whose topic has the times of arrival is compared all the same. A number that no tier has belongs
    to the bucket of its neighbour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pybroker.spark.audit.tags import CHUNK, from_runs, ranges

WORD: Final = 64
RANGES_MAX: Final = 20
"""The maximum number of ranges that a row names; its counts include all."""
PRODUCER_TIER: Final = -1
_WORD_MASK: Final = (1 << WORD) - 1


@dataclass(frozen=True, slots=True)
class Word:
    """The records that a tier has of 64 numbers in a bucket."""

    tier: int
    bucket: int
    word: int
    """The number of the word in the chunk."""
    count: int
    bits: int
    nibbles: Sequence[int] | None = None
    """If a number is there more than once, the copies of each number: four bits for a number, 16 numbers in an int."""
    late: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    """The records that the producer counted in a bucket, as runs."""

    bucket: int
    sent: Sequence[int] | None = None
    acked: Sequence[int] | None = None
    failed: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of a comparison, which are the same for all chunks."""

    tiers: int
    width_ms: int
    closed_ms: int | None = None
    """Buckets that end at this time or before are closed; None closes all."""
    has_counts: bool = True
    from_ms: int | None = None
    to_ms: int | None = None
    """The rows are for the buckets from `from_ms` to before `to_ms`; None is no bound."""
    horizons: dict[tuple[int, str], int] = field(default_factory=dict)
    """By tier and topic, the last bucket whose records may have been deleted because of their age."""


@dataclass(slots=True)
class Row:
    """The records that a tier has of a bucket."""

    tier: int
    bucket: int
    expected: int = 0
    present: int = 0
    lost: int = 0
    lost_here: int = 0
    doubled: int = 0
    doubled_here: int = 0
    pending: int = 0
    unknown: int = 0
    refused: int = 0
    late: int = 0
    lost_ranges: list[tuple[int, int]] = field(default_factory=list)
    doubled_ranges: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Held:
    """The records that a tier has of the chunk."""

    bits: int = 0
    buckets: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    extra: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The copies beyond the first, by number."""

    def add(self, word: Word) -> None:
        shift = word.word * WORD
        bits = (word.bits & _WORD_MASK) << shift
        for first, last in ranges(self.bits & bits):  # copies whose times are in two buckets
            for at in range(first, last + 1):
                self.extra[at] += 1
        self.bits |= bits
        self.buckets[word.bucket] |= bits
        if word.nibbles is not None:
            for at, copies in _copies(word):
                self.extra[shift + at] += copies - 1


@dataclass(slots=True)
class _Counted:
    """The records that the producer counted of the chunk."""

    acked: int = 0
    failed: int = 0
    buckets: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, count: Count) -> None:
        """Add a count. Raises ValueError when its runs are damaged."""
        sent, acked, failed = (from_runs(runs or ()) for runs in (count.sent, count.acked, count.failed))
        self.acked |= acked
        self.failed |= failed
        self.buckets[count.bucket] |= sent | acked | failed


def compare(
    parameters: Parameters,
    topic: str,
    chunk: int,
    words: Iterable[Word],
    counts: Iterable[Count],
    *,
    gap: int = 0,
    is_last: bool = True,
    has_gaps: bool = True,
) -> list[Row]:
    """Return the rows of a chunk of an incarnation's numbers. Raises ValueError when a count is damaged.

    `gap` numbers before this chunk are in no tier and in no count. With `has_gaps`, numbers that no count has may have been sent.
    """
    found = _Comparison(parameters, topic, chunk)
    for word in words:
        found.held[word.tier].add(word)
        if word.late:
            found.row(word.tier, bucket=word.bucket).late += word.late
    for count in counts:
        found.counted.add(count)
    buckets = _canonical(found.counted, found.held)
    if not buckets:
        return []
    first = min(buckets, key=lambda bucket: _lowest(buckets[bucket]))
    if has_gaps:
        gap += _fill(buckets, is_last=is_last)
    for bucket, bits in buckets.items():
        unknown = gap if has_gaps and bucket == first else 0
        for tier in range(parameters.tiers):
            found.judge(tier, bucket=bucket, bits=bits).unknown += unknown
        if parameters.has_counts:
            found.judge_producer(bucket, bits=bits).unknown += unknown
    return [row for row in found.rows.values() if _is_requested(parameters, row.bucket)]


class _Comparison:
    """A chunk while its rows are made."""

    def __init__(self, parameters: Parameters, topic: str, chunk: int) -> None:
        self.held = [_Held() for _ in range(parameters.tiers)]
        self.counted = _Counted()
        self.rows: dict[tuple[int, int], Row] = {}
        self._parameters, self._topic, self._base = parameters, topic, chunk * CHUNK

    def row(self, tier: int, *, bucket: int) -> Row:
        """Return the row of a tier and bucket, and make it if it is missing."""
        return self.rows.setdefault((tier, bucket), Row(tier, bucket))

    def judge_producer(self, bucket: int, *, bits: int) -> Row:
        """Fill in and return the row of what the producer itself knows of a bucket's numbers."""
        row, counted = self.row(PRODUCER_TIER, bucket=bucket), self.counted
        row.expected = row.present = (bits & counted.acked).bit_count()
        row.refused = (bits & counted.failed & ~counted.acked).bit_count()
        row.unknown = (bits & ~counted.acked & ~counted.failed).bit_count()
        return row

    def judge(self, tier: int, *, bucket: int, bits: int) -> Row:
        """Fill in and return the row of what a tier has of a bucket's numbers."""
        parameters, row = self._parameters, self.row(tier, bucket=bucket)
        anywhere = self.counted.acked
        for one in self.held:
            anywhere |= one.bits
        expected, rest = bits & anywhere, bits & ~anywhere
        present, missing = expected & self.held[tier].bits, expected & ~self.held[tier].bits
        row.refused = (rest & self.counted.failed).bit_count()
        row.unknown = (rest & ~self.counted.failed).bit_count()
        if bucket <= parameters.horizons.get((tier, self._topic), bucket - 1):
            row.unknown += missing.bit_count()
            missing = 0
        elif parameters.closed_ms is not None and bucket + parameters.width_ms > parameters.closed_ms:
            row.pending = missing.bit_count()
        else:
            row.lost = missing.bit_count()
            row.lost_here = (missing & self.held[tier - 1].bits if tier else missing).bit_count()
            _note(row.lost_ranges, missing, base=self._base)
        row.present = present.bit_count()
        row.expected = row.present + missing.bit_count()
        self._judge_copies(row, bits)
        return row

    def _judge_copies(self, row: Row, bits: int) -> None:
        extra, doubled = self.held[row.tier].extra, 0
        before = self.held[row.tier - 1].extra if row.tier else {}
        for at in sorted(extra):
            if bits >> at & 1:
                doubled |= 1 << at
                row.doubled += extra[at]
                row.doubled_here += max(0, extra[at] - before.get(at, 0))
        _note(row.doubled_ranges, doubled, base=self._base)


def _canonical(counted: _Counted, held: Sequence[_Held]) -> dict[int, int]:
    """Return the numbers of each bucket, with each number in one bucket only."""
    buckets: defaultdict[int, int] = defaultdict(int)
    placed = 0
    for source in (counted.buckets, *(one.buckets for one in held)):
        for bucket, bits in sorted(source.items()):
            new = bits & ~placed
            if new:
                buckets[bucket] |= new
                placed |= new
    return buckets


def _fill(buckets: dict[int, int], *, is_last: bool) -> int:
    """Put numbers that are missing between others into the bucket of the number before. Return how many precede the first."""
    placed = 0
    for bits in buckets.values():
        placed |= bits
    until = placed.bit_length() if is_last else CHUNK
    before = _lowest(placed)
    for first, last in list(ranges(((1 << until) - 1) & ~placed)):
        if first < before:
            continue
        bucket = next(bucket for bucket, bits in buckets.items() if bits >> (first - 1) & 1)
        buckets[bucket] |= ((1 << (last - first + 1)) - 1) << first
    return before


def _copies(word: Word) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a word that have copies, and how many. Copies that look the same count for the first number."""
    assert word.nibbles is not None
    found: dict[int, int] = {}
    for number, nibbles in enumerate(word.nibbles):
        for at in range(WORD // 4):
            copies = nibbles >> 4 * at & 0xF
            if copies > 1:
                found[number * 16 + at] = copies
    if sum(copies - 1 for copies in found.values()) != word.count - (word.bits & _WORD_MASK).bit_count():
        found = {_lowest(word.bits & _WORD_MASK): word.count - (word.bits & _WORD_MASK).bit_count() + 1}
    yield from found.items()


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _note(noted: list[tuple[int, int]], bits: int, *, base: int) -> None:
    for found in ranges(bits, base=base):
        if len(noted) >= RANGES_MAX:
            return
        noted.append(found)


def _is_requested(parameters: Parameters, bucket: int) -> bool:
    return (parameters.from_ms is None or bucket >= parameters.from_ms) and (
        parameters.to_ms is None or bucket < parameters.to_ms
    )
