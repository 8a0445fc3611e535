"""The counts of a partition, which add up to those of a topic.

Counts are exact. Distributions are kept as histograms of whole numbers: exact below 512, and in steps of less than 0.4 % of the
number above, so a percentile is too low by at most that much. Least, greatest, sum and count of a histogram are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil
from typing import Any, Final, final

_BITS: Final = 9
"""The number of leading bits of a number that a histogram keeps."""
_SECOND: Final = 1000
_DAY: Final = 86_400 * _SECOND
WIDTHS_MS: Final = (
    *(100, 500),
    *(seconds * _SECOND for seconds in (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200)),
    *(days * _DAY for days in (1, 7, 28, 364, 3640, 36_400)),
)
"""The widths of time buckets; each divides the next."""
BUCKETS_MAX: Final = 2000
HEADER_NAMES_MAX: Final = 1000
PRODUCERS_MAX: Final = 100_000


@final
@dataclass(slots=True)
class Histogram:
    """A histogram of numbers, none of them negative."""

    counts: dict[int, int] = field(default_factory=dict)
    """How many numbers there are in each step, by the least number of the step."""
    number: int = 0
    sum: int = 0
    least: int | None = None
    greatest: int | None = None

    def add(self, value: int, count: int = 1) -> None:
        """Add a number `count` times."""
        shift = max(0, value.bit_length() - _BITS)
        self._add_steps({value >> shift << shift: count}, count, sum_=value * count, least=value, greatest=value)

    def add_array(self, values: Any) -> None:
        """Add all numbers of a numpy array of int64."""
        import numpy as np

        if not len(values):
            return
        exponents = np.frexp(values.astype(np.float64))[1]  # beyond 2**53 it may be too large by 1: a coarser step
        shifts = np.maximum(exponents - _BITS, 0).astype(np.int64)
        steps, counts = np.unique(values >> shifts << shifts, return_counts=True)
        found = dict(zip(steps.tolist(), counts.tolist(), strict=True))
        whole = sum(int(part.sum()) for part in ((values >> 32) << 32, values & 0xFFFF_FFFF))  # neither wraps
        self._add_steps(found, len(values), sum_=whole, least=int(values.min()), greatest=int(values.max()))

    def merge(self, other: Histogram) -> None:
        """Add the contents of `other`."""
        if other.least is not None and other.greatest is not None:
            self._add_steps(other.counts, other.number, sum_=other.sum, least=other.least, greatest=other.greatest)

    def percentile(self, percent: float) -> int | None:
        """Return the least number that at least `percent` percent of the numbers do not exceed; None if there are none."""
        if self.least is None or self.greatest is None:
            return None
        left = max(1, ceil(self.number * percent / 100))
        if left >= self.number:
            return self.greatest
        for step in sorted(self.counts):
            left -= self.counts[step]
            if left <= 0:
                return max(step, self.least)
        raise AssertionError("the counts are fewer than their number")

    @property
    def mean(self) -> float | None:
        """The average; None if there are none."""
        return self.sum / self.number if self.number else None

    def to_json(self) -> dict[str, Any]:
        """Return the form for the JSON summary."""
        found: dict[str, Any] = {"count": self.number, "sum": self.sum, "min": self.least, "mean": self.mean}
        return found | {f"p{percent:g}": self.percentile(percent) for percent in PERCENTS} | {"max": self.greatest}

    def _add_steps(self, steps: Mapping[int, int], number: int, *, sum_: int, least: int, greatest: int) -> None:
        for step, count in steps.items():
            self.counts[step] = self.counts.get(step, 0) + count
        self.number += number
        self.sum += sum_
        self.least = least if self.least is None else min(self.least, least)
        self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)


PERCENTS: Final = (50, 90, 99, 99.9)


@final
@dataclass(slots=True)
class Series:
    """The records and their bytes by time. Buckets become wider when there are too many."""

    step: int = 0
    """The index of the width in WIDTHS_MS."""
    buckets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Records and bytes by the start of the bucket, in ms."""

    @property
    def width_ms(self) -> int:
        """The width of a bucket."""
        return WIDTHS_MS[self.step]

    def add(self, time_ms: int, records: int, size: int) -> None:
        """Add some records of the same time."""
        start = time_ms // self.width_ms * self.width_ms
        before = self.buckets.get(start, (0, 0))
        self.buckets[start] = (before[0] + records, before[1] + size)

    def add_arrays(self, times_ms: Any, sizes: Any) -> None:
        """Add records, given as numpy arrays of their times and sizes."""
        import numpy as np

        starts, places = np.unique(times_ms // self.width_ms, return_inverse=True)
        records = np.bincount(places, minlength=len(starts)).tolist()
        bytes_ = np.bincount(places, weights=sizes, minlength=len(starts)).tolist()
        for start, count, size in zip(starts.tolist(), records, bytes_, strict=True):
            self.add(start * self.width_ms, count, int(size))
        self._bound()

    def merge(self, other: Series) -> None:
        """Add the contents of `other`."""
        self.widen(other.step)
        for start, (records, size) in other.buckets.items():
            self.add(start, records, size)
        self._bound()

    def widen(self, step: int) -> None:
        """Make the buckets this wide, if they are narrower."""
        if step > self.step:
            before, self.buckets, self.step = self.buckets, {}, step
            for start, (records, size) in before.items():
                self.add(start, records, size)

    def _bound(self) -> None:
        while len(self.buckets) > BUCKETS_MAX and self.step + 1 < len(WIDTHS_MS):
            self.widen(self.step + 1)


@final
@dataclass(slots=True)
class Numbers:
    """The counts that simply add up."""

    offsets: int = 0
    """Offsets that were read."""
    records: int = 0
    batches: int = 0
    size: int = 0
    """Bytes of batches as they lie in the log."""
    emptied: int = 0
    """Batches that compaction left without records."""
    holed: int = 0
    """Batches from which compaction removed some records."""
    control: int = 0
    """Markers of transactions."""
    control_size: int = 0
    commits: int = 0
    aborts: int = 0
    committed: int = 0
    """Records of transactions that were committed."""
    aborted: int = 0
    """Records of transactions that were aborted."""
    undecided: int = 0
    """Records of transactions that were open, or that ended after the part that was read."""
    deleted: int = 0
    """Offsets that were deleted before they could be read."""
    with_key: int = 0
    key_size: int = 0
    tombstones: int = 0
    value_size: int = 0
    with_headers: int = 0
    headers: int = 0
    header_size: int = 0
    timeless: int = 0
    future: int = 0
    late: int = 0

    @property
    def null_keys(self) -> int:
        """The number of records without a key."""
        return self.records - self.with_key

    @property
    def missing(self) -> int:
        """The number of offsets with neither a record nor a marker, because compaction removed what was there."""
        return self.offsets - self.records - self.control

    def merge(self, other: Numbers) -> None:
        """Add the counts of `other`."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@final
@dataclass(slots=True)
class Codec:
    """The batches of a codec. `size` is the size of whole batches, `plain_size` the same without compression."""

    batches: int = 0
    records: int = 0
    size: int = 0
    plain_size: int = 0

    @property
    def ratio(self) -> float:
        """The size without compression in relation to the size in the log."""
        return self.plain_size / self.size if self.size else 1.0

    def add(self, batches: int, records: int, size: int, plain_size: int) -> None:
        """Add some batches."""
        self.batches += batches
        self.records += records
        self.size += size
        self.plain_size += plain_size


@final
@dataclass(slots=True)
class Tally:
    """All that is counted of a partition, or of a topic."""

    numbers: Numbers = field(default_factory=Numbers)
    codecs: dict[str, Codec] = field(default_factory=dict)
    magics: Counter[int] = field(default_factory=Counter)
    """Batches by their format."""
    key_sizes: Histogram = field(default_factory=Histogram)
    value_sizes: Histogram = field(default_factory=Histogram)
    batch_records: Histogram = field(default_factory=Histogram)
    batch_sizes: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)
    series: Series = field(default_factory=Series)
    idempotent: set[int] = field(default_factory=set)
    """The ids of idempotent producers."""
    transactional: set[int] = field(default_factory=set)
    """The ids of transactional producers."""
    header_names: Counter[bytes] = field(default_factory=Counter)
    first_ms: int | None = None
    """The time of the first record that has one."""
    last_ms: int | None = None
    least_ms: int | None = None
    greatest_ms: int | None = None

    def merge(self, other: Tally) -> None:
        """Add the counts of another partition. Then the first and last time are the least and the greatest."""
        self.numbers.merge(other.numbers)
        for name, codec in other.codecs.items():
            self.codecs.setdefault(name, Codec()).add(codec.batches, codec.records, codec.size, codec.plain_size)
        self.magics.update(other.magics)
        for name in ("key_sizes", "value_sizes", "batch_records", "batch_sizes", "lateness", "series"):
            getattr(self, name).merge(getattr(other, name))
        self.idempotent |= other.idempotent
        self.transactional |= other.transactional
        self.header_names.update(other.header_names)
        times = [time for time in (self.least_ms, self.greatest_ms, other.least_ms, other.greatest_ms) if time is not None]
        if times:
            self.least_ms, self.greatest_ms = min(times), max(times)
            self.first_ms, self.last_ms = self.least_ms, self.greatest_ms

    @property
    def seconds(self) -> float:
        """The seconds from the earliest time to the latest."""
        if self.least_ms is None or self.greatest_ms is None:
            return 0.0
        return (self.greatest_ms - self.least_ms) / 1000
