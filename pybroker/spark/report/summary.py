"""The findings in each topic, and their forms for JSON and for people."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark.report.tally import PRODUCERS_MAX, WIDTHS_MS, Series, Tally

if TYPE_CHECKING:
    from pybroker.spark.report.keys import KeySummary
    from pybroker.spark.report.plan import Extent

FORMAT: Final = 1
SHOWN_BUCKETS: Final = 300
_KEY_LETTERS: Final = 48
_TIME_MAX_MS: Final = int(dt.datetime(9999, 1, 1, tzinfo=dt.UTC).timestamp() * 1000)
_OUTSIDE: Final = 0.001


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The findings in a partition."""

    number: int
    extent: Extent
    tally: Tally


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The findings in a topic: the sum of its partitions."""

    name: str
    partitions: tuple[PartitionReport, ...]
    total: Tally
    keys: KeySummary

    @classmethod
    def of(cls, name: str, partitions: tuple[PartitionReport, ...], keys: KeySummary) -> TopicReport:
        """Add up the partitions."""
        total = Tally()
        for one in partitions:
            total.merge(one.tally)
        return cls(name, partitions, total, keys)

    @property
    def in_log(self) -> int:
        """The number of offsets from the beginning of the logs to their ends."""
        return sum(one.extent.end - one.extent.start for one in self.partitions)

    @property
    def is_whole(self) -> bool:
        """Whether everything in the logs was read."""
        return self.total.numbers.offsets == self.in_log

    @property
    def skew(self) -> float | None:
        """The records of the largest partition in relation to the average; None without records."""
        counts = [one.tally.numbers.records for one in self.partitions]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else None

    def to_json(self) -> dict[str, Any]:
        """Return the part of this topic in the JSON summary."""
        return {
            "topic": self.name,
            "offsets_in_log": self.in_log,
            "is_whole": self.is_whole,
            "partition_skew": self.skew,
            **_tally_json(self.total),
            "keys": _keys_json(self.keys),
            "partitions": [
                {
                    "partition": one.number,
                    "log_start": one.extent.start,
                    "log_end": one.extent.end,
                    "last_stable_offset": one.extent.stable,
                    "ranges": [list(pair) for pair in one.extent.ranges],
                    **_tally_json(one.tally),
                }
                for one in self.partitions
            ],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found, and how the report was made."""

    bootstrap: str
    cluster_id: str
    now_ms: int
    wanted: str
    topics: tuple[TopicReport, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON summary."""
        return {
            "format": FORMAT,
            "bootstrap": self.bootstrap,
            "cluster": self.cluster_id,
            "time": moment(self.now_ms),
            "looked_at": self.wanted,
            "topics": [topic.to_json() for topic in self.topics],
        }


def _tally_json(tally: Tally) -> dict[str, Any]:
    numbers, series = tally.numbers, tally.series
    histograms = ("key_sizes", "value_sizes", "batch_records", "batch_sizes", "lateness")
    return {
        **asdict(numbers),
        "null_keys": numbers.null_keys,
        "missing": numbers.missing,
        "records_per_s": per_second(tally, numbers.records),
        "first_ms": tally.first_ms,
        "last_ms": tally.last_ms,
        "least_ms": tally.least_ms,
        "greatest_ms": tally.greatest_ms,
        "codecs": {name: asdict(codec) | {"ratio": codec.ratio} for name, codec in sorted(tally.codecs.items())},
        "magics": {str(magic): count for magic, count in sorted(tally.magics.items())},
        "idempotent_producers": len(tally.idempotent),
        "transactional_producers": len(tally.transactional),
        "header_names": [[shown(name), count] for name, count in tally.header_names.most_common(20)],
        **{name: getattr(tally, name).to_json() for name in histograms},
        "series": {
            "width_ms": series.width_ms,
            "buckets": [[start, *bucket] for start, bucket in sorted(series.buckets.items())],
        },
    }


def _keys_json(keys: KeySummary) -> dict[str, Any]:
    return {
        "distinct": keys.distinct,
        "is_exact": keys.is_exact,
        "error": keys.error,
        "share_of_top_percent": keys.top_share,
        "gini": keys.gini,
        "top": [[shown(key), count] for key, count in keys.top],
    }


def per_second(tally: Tally, number: int) -> float | None:
    """Return the rate per second from the earliest time to the latest; None if there are no two times."""
    return number / tally.seconds if tally.seconds else None


def producers(ids: set[int]) -> str:
    """Return how many producers there are, in words."""
    return f"at least {PRODUCERS_MAX:,}" if len(ids) >= PRODUCERS_MAX else f"{len(ids):,}"


def shown(key: bytes, letters: int = _KEY_LETTERS) -> str:
    """Return bytes as a person can read them on one line: as text if they are text, otherwise in hexadecimal; not too long."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        text = f"0x{key[:letters].hex()}" if key else "(empty)"
    return text if len(text) <= letters else f"{text[:letters]}… ({len(key):,} bytes)"


def moment(ms: int | None) -> str:
    """Return a time as people write it, in UTC; a time that no calendar has as its number."""
    if ms is None:
        return ""
    if not 0 <= ms < _TIME_MAX_MS:
        return f"{ms:,} ms"
    whole = dt.datetime.fromtimestamp(ms // 1000, dt.UTC)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"


def duration_ms(ms: float) -> str:
    """Return a duration in milliseconds as people write it."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size:
            return f"{ms / size:,.3g} {unit}" if ms < 1000 * size else f"{ms / size:,.0f} {unit}"
    return f"{ms:,.3g} ms"


@dataclass(frozen=True, slots=True)
class Timeline:
    """A series as it is drawn: all buckets from the first to the last, also the empty ones."""

    width_ms: int
    start_ms: int
    records: tuple[int, ...]
    sizes: tuple[int, ...]
    outside: int
    """The number of records that are left out because their times are far from those of all others."""


def timeline(series: Series) -> Timeline | None:
    """Return what to draw of a series; None if there is nothing.

    A few records with strange times are left out: at most one of a thousand at either end, and only if all others would otherwise
    be too close together to be distinguished.
    """
    starts = [start for start in sorted(series.buckets) if start < _TIME_MAX_MS]
    if not starts:
        return None
    whole = sum(records for records, _ in series.buckets.values())
    first, last = _end(series, starts, whole), _end(series, starts[::-1], whole)
    if starts[-1] - starts[0] + series.width_ms <= 20 * (last - first + series.width_ms):
        first, last = starts[0], starts[-1]
    step = series.step
    while step + 1 < len(WIDTHS_MS) and (last - first) // WIDTHS_MS[step] >= SHOWN_BUCKETS:
        step += 1
    width = WIDTHS_MS[step]
    start_ms = first // width * width
    records = [0] * ((last - start_ms) // width + 1)
    sizes = list(records)
    for start in starts:
        if first <= start <= last:
            count, size = series.buckets[start]
            records[(start - start_ms) // width] += count
            sizes[(start - start_ms) // width] += size
    return Timeline(width, start_ms, tuple(records), tuple(sizes), whole - sum(records))


def _end(series: Series, starts: list[int], whole: int) -> int:
    """Return the bucket up to which there are more than a few records."""
    count = 0
    for start in starts:
        count += series.buckets[start][0]
        if count > whole * _OUTSIDE:
            return start
    return starts[-1]
