"""Adds up the table of an audit, for people and for `summary.json`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark.audit.folder import TABLE, write_summary

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FINDINGS_MAX: Final = 20
"""The maximum number of rows with lost or doubled records that are named."""
COLUMNS: Final = (
    "expected", "present", "lost", "lost_here", "doubled", "doubled_here", "pending", "unknown", "refused", "late",
    "untagged", "damaged", "other_version",
)  # fmt: skip
CELLS_MAX: Final = 300
"""The maximum number of times in a picture: if there are more buckets, a cell covers several."""
PRODUCER_TIER_NAME: Final = "producer"
_RANGES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Header:
    """The facts that are known besides the table."""

    topics: tuple[str, ...]
    tiers: tuple[str, ...]
    bucket_s: int
    unread_counts: int
    """Messages in the topic of counts, or chunks in them, that are not counts."""
    unfinished: int | None
    """Incarnations without all of their counts; None without counts."""
    too_late: int = 0
    """Records that came when their buckets were no longer compared."""
    too_late_counts: int = 0
    """Counts of producers that came when their buckets were no longer compared, each of a bucket and 4096 numbers."""
    deleted: int = 0
    """Records that were deleted before they could be read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of the table with lost or doubled records."""

    producer: str
    topic: str
    tier: str
    bucket: str
    lost: int
    doubled: int
    lost_ranges: tuple[str, ...]
    doubled_ranges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of each tier by the names of COLUMNS, in the order of the tiers, and the first findings."""

    header: Header
    tiers: dict[str, dict[str, int]]
    producers: int
    buckets: int
    open_buckets: int
    findings: tuple[Finding, ...]
    has_more_findings: bool = False

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost or doubled."""
        return not any(found["lost"] or found["doubled"] for found in self.tiers.values())

    def lines(self) -> Iterator[str]:
        """Yield the lines for stdout; the last line is the verdict."""
        header = self.header
        opened = f", {self.open_buckets:,} of them open" if self.open_buckets else ""
        yield f"{', '.join(header.topics)}: {self.producers:,} producers, {self.buckets:,} buckets of {header.bucket_s} s{opened}"
        shown = [name for name in COLUMNS if name in {"expected", "present", "lost", "doubled"} or self._total(name)]
        cells = [["tier", *(name.replace("_", " ") for name in shown)]]
        cells += [[tier, *(f"{found[name]:,}" for name in shown)] for tier, found in self.tiers.items()]
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        for row in cells:
            yield "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
        yield from self.warnings()
        for found in self.findings:
            for what, count, ranges in (
                ("lost", found.lost, found.lost_ranges),
                ("doubled", found.doubled, found.doubled_ranges),
            ):
                if count:
                    more = ", ..." if len(ranges) > _RANGES_SHOWN else ""
                    where = f"{found.producer}, {found.topic}, {found.tier}, {found.bucket}"
                    yield f"{what} {count:,}: {where}: {', '.join(ranges[:_RANGES_SHOWN])}{more}"
        if self.has_more_findings:
            yield f"more rows of the table than these {len(self.findings)} have lost or doubled records"
        yield self.verdict()

    def warnings(self) -> Iterator[str]:
        """Yield what cannot be compared, a line for each reason."""
        header = self.header
        if self._total("untagged"):
            yield f"{self._total('untagged'):,} records without tags are not compared"
        if self._total("damaged"):
            yield f"{self._total('damaged'):,} records have tags that are damaged or of another program"
        if self._total("other_version"):
            yield f"{self._total('other_version'):,} records have tags of an unknown version"
        if header.unread_counts:
            yield f"{header.unread_counts:,} messages in the topic of the producers' counts cannot be read"
        if header.too_late:
            yield f"{header.too_late:,} records came too late to be compared"
        if header.too_late_counts:
            yield f"{header.too_late_counts:,} counts of producers came too late to be compared, so the audit may miss losses"
        if header.deleted:
            yield f"{header.deleted:,} records were deleted before they could be read"
        if header.unfinished:
            yield f"{header.unfinished:,} incarnations of producers have not ended their counts: they still run, or were killed"

    def verdict(self) -> str:
        """Return the result in one line."""
        if self.is_good:
            late = "; open buckets are not judged" if self.open_buckets else ""
            return f"nothing is lost or doubled{late}"
        parts = [
            f"{tier}: {found['lost']:,} lost, {found['doubled']:,} doubled"
            for tier, found in self.tiers.items()
            if found["lost"] or found["doubled"]
        ]
        return "; ".join(parts)

    def _total(self, name: str) -> int:
        return sum(found[name] for found in self.tiers.values())


@dataclass(frozen=True, slots=True)
class Cell:
    """The rows of a topic and tier in a stretch of time."""

    topic: str
    tier: str
    time: dt.datetime
    width_s: int
    is_open: bool
    numbers: dict[str, int]


def summarize(spark: SparkSession, folder: Path, header: Header) -> tuple[Summary, list[Cell]]:
    """Add up the table in a result's folder, and write the summary beside it. Return summary and the cells of the pictures."""
    from pyspark.sql import functions as f

    table = spark.read.parquet(str(folder / TABLE))
    span = table.agg(
        f.expr("count(distinct producer) producers"),
        f.expr("count(distinct bucket) buckets"),
        f.expr("count(distinct if(state = 'open', bucket, null)) open"),
        f.expr("unix_seconds(min(bucket)) first"),
        f.expr("unix_seconds(max(bucket)) last"),
    ).head()
    assert span is not None
    first, last = span["first"] or 0, span["last"] or 0
    width = header.bucket_s * -(-((last - first) // header.bucket_s + 1) // CELLS_MAX)
    time = f.expr(f"floor((unix_seconds(bucket) - {first}) / {width}) * {width} + {first}").alias("time")
    rows = (
        table.groupBy("topic", "tier", time, f.expr("producer is not null").alias("is_tagged"))
        .agg(*[f.expr(f"sum({name}) {name}") for name in COLUMNS], f.expr("bool_or(state = 'open') is_open"))
        .collect()
    )
    totals = {
        tier: dict.fromkeys(COLUMNS, 0)
        for tier in ((PRODUCER_TIER_NAME,) if header.unfinished is not None else ()) + header.tiers
    }
    for row in rows:
        for name in COLUMNS:
            totals[row.tier][name] += row[name]
    cells = [
        Cell(
            row.topic,
            row.tier,
            dt.datetime.fromtimestamp(row.time, dt.UTC),
            width,
            row.is_open,
            {name: row[name] for name in COLUMNS},
        )
        for row in rows
        if row.is_tagged
    ]
    is_good = not any(found["lost"] or found["doubled"] for found in totals.values())
    findings = () if is_good else _findings(table)
    shown, has_more = findings[:FINDINGS_MAX], len(findings) > FINDINGS_MAX
    summary = Summary(header, totals, span.producers, span.buckets, span.open, shown, has_more)
    write_summary(folder, {**asdict(summary), "is_good": is_good})
    return summary, cells


def _findings(table: DataFrame) -> tuple[Finding, ...]:
    from pyspark.sql import functions as f

    bucket_text = f.date_format("bucket", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("bucket_text")
    bad = (
        table.where("lost > 0 or doubled > 0")
        .select("*", bucket_text)
        .orderBy("topic", "bucket", "tier_number", "producer")
        .limit(FINDINGS_MAX + 1)
    )
    return tuple(
        Finding(
            row.producer,
            row.topic,
            row.tier,
            row.bucket_text,
            row.lost,
            row.doubled,
            tuple(map(_range, row.lost_ranges)),
            tuple(map(_range, row.doubled_ranges)),
        )
        for row in bad.collect()
    )


def _range(found: Any) -> str:
    """Return an incarnation's numbers in the form `01933f.../17-19`."""
    numbers = str(found["first"]) if found["first"] == found["last"] else f"{found['first']}-{found['last']}"
    return f"{found['incarnation']}/{numbers}"
