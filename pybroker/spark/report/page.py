"""Writes the page of a report: all topics in a table, then each topic with its pictures and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pybroker.spark.html import Html, Section, embed, marked, page, table
from pybroker.spark.report.summary import (
    Report,
    TopicReport,
    duration_ms,
    moment,
    per_second,
    producers,
    shown,
)
from pybroker.spark.report.tally import PERCENTS, Histogram, Tally

PICTURED_MAX: Final = 50
PARTITIONS_MAX: Final = 200
Draw = Callable[[TopicReport], Sequence[tuple[bytes, str]]]
"""A function that draws the pictures of a topic, with their captions."""


def written(report: Report, draw: Draw) -> str:
    """Return the whole page."""
    topics = sorted(report.topics, key=lambda topic: (-topic.total.numbers.size, topic.name))
    detailed = topics[:PICTURED_MAX]
    sections = [Section("Topics", [_overview(topics)])]
    sections += [Section(topic.name, _topic(topic, draw)) for topic in detailed]
    if len(topics) > len(detailed):
        names = ", ".join(topic.name for topic in topics[PICTURED_MAX:])
        sections.append(Section("Other topics", [f"These topics are only in the table and in the summary: {names}"]))
    introduction: list[Html | str] = [
        f"Cluster {report.cluster_id} at {report.bootstrap}, {moment(report.now_ms)} UTC.",
        f"Looked at: {report.wanted}.",
        *([marked("note", _PARTIAL)] if any(not topic.is_whole for topic in topics) else []),
        marked("note", _HOW),
    ]
    return page("What is in the topics", sections, introduction=introduction)


_PARTIAL: Final = (
    "Only a part of the logs was looked at, and every number is about that part. A batch counts as a whole if the part has some "
    "of its offsets. Lateness is measured against the latest time in the part."
)
_HOW: Final = (
    "Numbers are exact unless the page says otherwise; percentiles of 512 and more are up to 0.4 % too low. Times are UTC. "
    "Records of aborted and open transactions are counted, too."
)


def _overview(topics: Sequence[TopicReport]) -> Html:
    head = ["topic", "partitions", "records", "bytes in the log", "bytes/record", "records/s", "earliest", "latest", "codecs"]
    rows = []
    for topic in topics:
        total, numbers = topic.total, topic.total.numbers
        rows.append(
            [
                topic.name,
                len(topic.partitions),
                numbers.records,
                numbers.size + numbers.control_size,
                round(numbers.size / numbers.records, 1) if numbers.records else None,
                _rounded(per_second(total, numbers.records)),
                moment(total.least_ms),
                moment(total.greatest_ms),
                ", ".join(sorted(total.codecs)),
            ]
        )
    return table(head, rows)


def _topic(topic: TopicReport, draw: Draw) -> list[Html | str]:
    numbers = topic.total.numbers
    if not numbers.records and not numbers.batches and not numbers.control:
        return ["No records." if topic.is_whole else "No records in what was looked at.", _partitions(topic)]
    parts: list[Html | str] = []
    if not topic.is_whole:
        parts.append(marked("note", f"Looked at {numbers.offsets:,} of {topic.in_log:,} offsets."))
    if numbers.deleted:
        parts.append(marked("bad", f"{numbers.deleted:,} offsets were deleted before they could be looked at."))
    parts += [embed(png, caption) for png, caption in draw(topic)]
    parts += [_facts(topic), _distributions(topic.total), _codecs(topic.total)]
    parts += _keys(topic)
    if topic.total.header_names:
        names = topic.total.header_names.most_common(20)
        parts.append(table(["header", "how often"], [[shown(name), count] for name, count in names]))
    return [*parts, _partitions(topic)]


def _facts(topic: TopicReport) -> Html:
    total, numbers = topic.total, topic.total.numbers
    formats = ", ".join(f"magic {magic}: {count:,}" for magic, count in sorted(total.magics.items()))
    transactional = f"{numbers.committed:,} committed, {numbers.aborted:,} aborted, {numbers.undecided:,} open"
    rows: list[list[object]] = [
        ["records", numbers.records],
        ["bytes of keys, values, headers", f"{numbers.key_size:,}, {numbers.value_size:,}, {numbers.header_size:,}"],
        ["records without a key", _share(numbers.null_keys, whole=numbers.records)],
        ["tombstones (without a value)", _share(numbers.tombstones, whole=numbers.records)],
        ["records with headers", f"{_share(numbers.with_headers, whole=numbers.records)}, {numbers.headers:,} headers"],
        ["batches", f"{numbers.batches:,} of {numbers.size:,} bytes ({formats})"],
        ["idempotent producers", producers(total.idempotent)],
        ["transactional producers", producers(total.transactional)],
        ["transactions", f"{numbers.commits:,} committed, {numbers.aborts:,} aborted (markers: {numbers.control:,})"],
        ["records of transactions", transactional],
        ["offsets without a record (compaction)", _share(numbers.missing, whole=numbers.offsets)],
        ["batches with such gaps, without records", f"{numbers.holed:,}, {numbers.emptied:,}"],
        ["late records", _share(numbers.late, whole=numbers.records)],
        ["records with a time in the future", _share(numbers.future, whole=numbers.records)],
        ["records without a time", _share(numbers.timeless, whole=numbers.records)],
        ["largest partition to average", None if topic.skew is None else round(topic.skew, 3)],
    ]
    return table(["", "in all"], rows)


def _distributions(total: Tally) -> Html:
    head = ["", "count", "least", "mean", *(f"{percent:g} %" for percent in PERCENTS), "greatest"]
    rows = [
        [name, *_distribution(histogram)]
        for name, histogram in (
            ("key, bytes", total.key_sizes),
            ("value, bytes", total.value_sizes),
            ("batch, records", total.batch_records),
            ("batch, bytes", total.batch_sizes),
            ("lateness, ms", total.lateness),
        )
    ]
    return table(head, rows)


def _distribution(histogram: Histogram) -> list[object]:
    percentiles = [histogram.percentile(percent) for percent in PERCENTS]
    return [histogram.number, histogram.least, _rounded(histogram.mean), *percentiles, histogram.greatest]


def _codecs(total: Tally) -> Html:
    rows = [
        [name, codec.batches, codec.records, codec.size, codec.plain_size, round(codec.ratio, 3)]
        for name, codec in sorted(total.codecs.items())
    ]
    return table(["codec", "batches", "records in them", "bytes", "uncompressed", "ratio"], rows)


def _keys(topic: TopicReport) -> list[Html | str]:
    keys, whole = topic.keys, topic.total.numbers.with_key
    if not whole:
        return ["No record has a key."]
    if keys.is_exact:
        text = f"{keys.distinct:,} different keys."
        if keys.top_share is not None and keys.gini is not None:
            text += f" The most frequent 1 % of them have {keys.top_share:.1%} of the records with keys; Gini {keys.gini:.3f}."
        head = ["key", "records", "share"]
        return [text, table(head, [[shown(key), count, f"{count / whole:.2%}"] for key, count in keys.top])]
    text = f"About {keys.distinct:,} different keys (estimated, ±2 %), too many to count each one."
    rows = [
        [shown(key), count, count + keys.error, f"{count / whole:.2%}"]
        for key, count in keys.top
        if count > keys.error or count > 1
    ]
    return [text, table(["key", "records, at least", "at most", "share, at least"], rows)]


def _partitions(topic: TopicReport) -> Html:
    head = [
        *("partition", "offsets in the log", "looked at", "records", "bytes", "batches", "records/s", "bytes/s"),
        *("first time", "last time", "late", "latest lateness", "missing", "markers", "aborted", "open"),
    ]
    rows: list[list[object]] = []
    for one in topic.partitions[:PARTITIONS_MAX]:
        tally, numbers = one.tally, one.tally.numbers
        rows.append(
            [
                one.number,
                f"{one.extent.start:,} to {one.extent.end:,}",
                numbers.offsets,
                numbers.records,
                numbers.size,
                numbers.batches,
                _rounded(per_second(tally, numbers.records)),
                _rounded(per_second(tally, numbers.size)),
                moment(tally.first_ms),
                moment(tally.last_ms),
                numbers.late,
                duration_ms(tally.lateness.greatest or 0),
                numbers.missing,
                numbers.control,
                numbers.aborted,
                numbers.undecided,
            ]
        )
    if len(topic.partitions) > PARTITIONS_MAX:
        rows.append([f"{len(topic.partitions) - PARTITIONS_MAX:,} more are in the summary", *[None] * (len(head) - 1)])
    return table(head, rows)


def _share(number: int, *, whole: int) -> str:
    return f"{number:,} ({number / whole:.2%})" if whole else f"{number:,}"


def _rounded(value: float | None) -> float | None:
    """Round a number to a sensible length, without an exponent."""
    if value is None:
        return None
    return round(value, 1) if value < 1000 else round(value)
