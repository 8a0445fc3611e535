"""Counts with Spark: makes a row for each chunk of numbers from records and producers' counts, and from those the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark.audit.compare import PRODUCER_TIER, RANGES_MAX, WORD, Count, Parameters, Word, compare
from pybroker.spark.audit.tags import (
    CHUNK,
    INCARNATION_DIGITS,
    NAME_BYTES_MAX,
    NAMES,
    PRODUCER,
    SEQUENCE,
    TIER,
    VERSION,
)
from pybroker.spark.audit.trail import REPORT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TAGGED, UNTAGGED, DAMAGED, OTHER_VERSION, POSITION = range(5)
RECENT: Final = 16
"""How many of the last records, by their least time, determine how far a partition is read."""
_REPORT: Final = (
    "version int, producer string, incarnation string, tier string, width_ms bigint, number bigint, is_end boolean, "
    "counts array<struct<topic: string, bucket: bigint, chunk: bigint, sent: array<int>, acked: array<int>, failed: array<int>>>"
)
_INCARNATION: Final = f"[0-9a-f]{{{INCARNATION_DIGITS}}}"
_IS_REPORT: Final = (
    f"report.version = {REPORT_VERSION} and report.incarnation rlike '^{_INCARNATION}$' and report.producer != '' and "
    "report.width_ms > 0 and report.number >= 0 and report.is_end is not null and report.counts is not null"
)
_ARE_RUNS: Final = (
    "({0} is null or (size({0}) % 2 = 0 and forall({0}, n -> n is not null and n between 0 and {1}) "
    "and aggregate({0}, 0, (sum, n) -> sum + n) <= {1}))"
)
_IS_COUNT: Final = "one.topic is not null and one.bucket is not null and one.chunk >= 0 and " + " and ".join(
    _ARE_RUNS.format(f"one.{name}", CHUNK) for name in ("sent", "acked", "failed")
)
_NUMBERS: Final = (
    "expected", "present", "lost", "lost_here", "doubled", "doubled_here", "pending", "unknown", "refused", "late",
)  # fmt: skip
_OTHERS: Final = {"untagged": UNTAGGED, "damaged": DAMAGED, "other_version": OTHER_VERSION}
_RANGES: Final = ("lost_ranges", "doubled_ranges")
_RANGE: Final = "array<struct<incarnation: string, first: bigint, last: bigint>>"
_FOUND: Final = (
    f"topic string, session string, tier int, bucket bigint, {', '.join(f'{name} bigint' for name in _NUMBERS)}, "
    "lost_ranges array<struct<first: bigint, last: bigint>>, doubled_ranges array<struct<first: bigint, last: bigint>>"
)
WORDS_SCHEMA: Final = (
    "tier int, topic string, session string, kind int, bucket bigint, word bigint, count bigint, bits bigint, "
    "n0 bigint, n1 bigint, n2 bigint, n3 bigint, late bigint"
)
COUNTS_SCHEMA: Final = (
    "session string, topic string, bucket bigint, chunk bigint, sent array<int>, acked array<int>, failed array<int>"
)
DONE_SCHEMA: Final = "topic string, session string, chunk bigint"
SESSIONS_SCHEMA: Final = "session string, width_ms bigint, is_whole boolean, ill bigint"
TABLE_SCHEMA: Final = (
    "producer string, topic string, tier string, tier_number int, bucket timestamp, state string, "
    + ", ".join(f"{name} bigint" for name in (*_NUMBERS, *_OTHERS))
    + "".join(f", {name} {_RANGE}" for name in _RANGES)
)


def tagged(records: DataFrame) -> DataFrame:
    """Return records with the content of their tags: topic, partition, offset, ms, kind, session and sequence."""
    names = ", ".join(f"'{name}'" for name in sorted(NAMES))
    order = (PRODUCER, TIER, SEQUENCE)  # as producers append them; other orders are allowed, and slower to read
    is_tag = f"header -> header.key in ({names})"
    is_plain = " and ".join(f"element_at(headers, {number - len(order)}).key = '{name}'" for number, name in enumerate(order))
    narrow = records.selectExpr(
        "topic",
        "partition",
        "offset",
        "unix_millis(timestamp) ms",
        "headers",
        f"coalesce(size(headers) >= 3 and {is_plain} "
        f"and (size(headers) = 3 or not exists(slice(headers, 1, size(headers) - 3), {is_tag})), false) is_plain",
    ).selectExpr("*", f"if(is_plain, null, filter(headers, {is_tag})) tags")
    narrow = narrow.selectExpr(
        "*",
        f"if(is_plain, {len(order)}, coalesce(size(tags), 0)) count",
        *[
            f"if(is_plain, element_at(headers, {number - len(order)}), get(filter(tags, tag -> tag.key = '{name}'), 0)).value "
            f"tag_{name.removeprefix('audit.')}"
            for number, name in enumerate(order)
        ],
    )
    is_well = (
        f"count = {len(NAMES)} and is_valid_utf8(string(tag_producer)) and is_valid_utf8(string(tag_tier)) "
        f"and right(string(tag_producer), {1 + INCARNATION_DIGITS}) rlike '^/{_INCARNATION}$' "
        f"and length(tag_producer) > {1 + INCARNATION_DIGITS} "
        f"and length(tag_producer) <= {NAME_BYTES_MAX + 1 + INCARNATION_DIGITS} "
        f"and length(tag_tier) between 1 and {NAME_BYTES_MAX} "
        "and length(tag_sequence) = 9 and hex(substring(tag_sequence, 2, 1)) < '80'"
    )
    kind = (
        f"case when count <= 0 then {UNTAGGED} "
        f"when length(tag_sequence) > 0 and hex(substring(tag_sequence, 1, 1)) != '{VERSION:02X}' then {OTHER_VERSION} "
        f"when {is_well} then {TAGGED} else {DAMAGED} end kind"
    )
    return narrow.selectExpr("*", kind).selectExpr(
        "topic",
        "partition",
        "offset",
        "ms",
        "kind",
        f"if(kind = {TAGGED}, string(tag_producer), null) session",
        f"if(kind = {TAGGED}, bigint(conv(hex(substring(tag_sequence, 2, 8)), 16, 10)), null) sequence",
    )


def with_lateness(records: DataFrame, *, width_ms: int, grace_ms: int, prior: str | None = None) -> DataFrame:
    """Add the column `late`: whether an earlier record of the partition is so new that the bucket was closed already.

    `prior` is a column with the newest time in the partition before all of these records, or null.
    """
    before = "max(ms) over (partition by topic, partition order by offset rows between unbounded preceding and 1 preceding)"
    closed = f"(floor(ms / {width_ms}) + 1) * {width_ms} + {grace_ms}"
    newest = before if prior is None else f"greatest({before}, {prior})"
    return records.selectExpr("*", f"coalesce({newest} >= {closed}, false) late")


def with_positions(records: DataFrame, prior: str) -> DataFrame:
    """Add a row of the kind POSITION for each partition, so that one pass over the records also finds how far they reach.

    In this row, `session` is the partition, `word` is the newest time, and `bucket` comes from the least time of the last RECENT
    records, so that a few records with a wrong clock do not matter. With fewer records that time is 0. `records` are the result
    of `with_lateness`.
    """
    by = "over (partition by topic, partition order by offset"
    newest = f"greatest(max(ms) {by} rows between unbounded preceding and current row), {prior})"
    recent = f"{by} rows between {RECENT - 1} preceding and current row)"
    reached = f"if(count(*) {recent} = {RECENT}, min(ms) {recent}, 0L)"
    names = ("ms", "kind", "session", "sequence", "late")
    row = ", ".join(f"'{name}', {name}" for name in names)
    values = ("reached", str(POSITION), "string(partition)", f"newest * {WORD}", "false")
    position = ", ".join(f"'{name}', {value}" for name, value in zip(names, values, strict=True))
    followed = records.selectExpr("*", f"lead(offset) {by}) is null is_last", f"{newest} newest", f"{reached} reached")
    rows = f"if(is_last, array(named_struct({row}), named_struct({position})), array(named_struct({row})))"
    return followed.selectExpr("topic", f"inline({rows})")


def words(records: DataFrame, tier: int, *, width_ms: int) -> DataFrame:
    """Count records by tier, topic, session, kind, bucket and word (64 numbers). The records have the column `late`."""
    from pyspark.sql import functions as f

    nibble = "sum(if((sequence >> 4) & 3 = {0}, shiftleft(1L, int(sequence & 15) * 4), 0L)) n{0}"
    keyed = records.selectExpr(
        f"{tier} tier",
        "topic",
        "session",
        "kind",
        "sequence",
        "late",
        f"floor(ms / {width_ms}) * {width_ms} bucket",
        "sequence >> 6 word",
    )
    return keyed.groupBy("tier", "topic", "session", "kind", "bucket", "word").agg(
        f.expr("count(*) count"),
        f.expr(f"bit_or(shiftleft(1L, int(sequence & {WORD - 1}))) bits"),
        *[f.expr(nibble.format(number)) for number in range(4)],
        f.expr("sum(bigint(late)) late"),
    )


def joined(counted: Iterable[DataFrame]) -> DataFrame:
    """Add up several results of `words`."""
    from pyspark.sql import functions as f

    everything = reduce(lambda one, other: one.unionByName(other), counted)
    sums = [f.expr(f"sum({name}) {name}") for name in ("n0", "n1", "n2", "n3", "late")]
    return everything.groupBy("tier", "topic", "session", "kind", "bucket", "word").agg(
        f.expr("sum(count) count"), f.expr("bit_or(bits) bits"), *sums
    )


def done(counted: DataFrame, reported: DataFrame | None, until_ms: int) -> DataFrame:
    """Return the chunks that have nothing in a bucket at or after `until_ms`, with DONE_SCHEMA."""
    from pyspark.sql import functions as f

    known = counted.where(f"kind = {TAGGED}").selectExpr("topic", "session", "word >> 6 chunk", "bucket")
    if reported is not None:
        known = known.unionByName(reported.select("topic", "session", "chunk", "bucket"))
    last = known.groupBy("topic", "session", "chunk").agg(f.expr("max(bucket) last"))
    return last.where(f"last < {until_ms}").select("topic", "session", "chunk")


def marked(found: DataFrame, finished: DataFrame | None, chunk: str) -> DataFrame:
    """Add the column `is_done`: whether a row's chunk, given by the expression `chunk`, is finished."""
    from pyspark.sql import functions as f

    if finished is None:
        return found.selectExpr("*", "false is_done")
    known = f.broadcast(finished.selectExpr("topic", "session", "chunk", "true known"))
    joined_to = found.selectExpr("*", f"{chunk} chunk_of")
    same = [joined_to[name] == known[name] for name in ("topic", "session")] + [joined_to.chunk_of == known.chunk]
    columns = [joined_to[name] for name in found.columns]
    return joined_to.join(known, same, "left").select(*columns, f.expr("coalesce(known, false) is_done"))


def reports(messages: DataFrame) -> DataFrame:
    """Parse messages of the topic of counts into the fields of _REPORT and `session`.

    `session` is null where a message is not a report of this version.
    """
    parsed = messages.selectExpr(f"from_json(string(value), '{_REPORT}') report")
    session = f"if({_IS_REPORT}, report.producer || '/' || report.incarnation, null) session"
    well = f"filter(report.counts, one -> {_IS_COUNT}) counts"
    return parsed.selectExpr(
        session,
        "report.width_ms",
        "report.number",
        "report.is_end",
        well,
        f"size(filter(report.counts, one -> not ({_IS_COUNT}))) ill",
    )


def counts(reported: DataFrame, width_ms: int) -> DataFrame:
    """Return the producers' counts of all topics: session, topic, bucket, chunk, and the runs sent, acked and failed."""
    each = reported.where("session is not null").selectExpr("session", "explode(counts) one")
    return each.selectExpr(
        "session",
        "one.topic",
        f"floor(one.bucket / {width_ms}) * {width_ms} bucket",
        "one.chunk",
        "one.sent",
        "one.acked",
        "one.failed",
    )


def of_topics(reported: DataFrame, topics: Iterable[str]) -> DataFrame:
    """Select the counts of some topics."""
    from pyspark.sql import functions as f

    return reported.where(f.col("topic").isin(*topics))


def sessions(reported: DataFrame) -> DataFrame:
    """Return each incarnation that has reported: session, width_ms, and whether all its reports are there, the last included.

    The row without a session is for messages that are not reports. `ill` counts the messages, or chunks in them, that cannot be
    used.
    """
    from pyspark.sql import functions as f

    return reported.groupBy("session").agg(
        f.expr("max(width_ms) width_ms"),
        f.expr("bool_or(is_end) and count(distinct number) = max(number) + 1 is_whole"),
        f.expr("sum(if(session is null, 1, ill)) ill"),
    )


def ends(reported: DataFrame) -> DataFrame:
    """Return what `sessions` returns, for a part of the reports: an incarnation is whole when its last report is there."""
    from pyspark.sql import functions as f

    return reported.groupBy("session").agg(
        f.expr("max(width_ms) width_ms"), f.expr("bool_or(is_end) is_whole"), f.expr("sum(if(session is null, 1, ill)) ill")
    )


def ended(each: Iterable[DataFrame]) -> DataFrame:
    """Add up several results of `ends`."""
    from pyspark.sql import functions as f

    everything = reduce(lambda one, other: one.unionByName(other), each)
    return everything.groupBy("session").agg(
        f.expr("max(width_ms) width_ms"), f.expr("bool_or(is_whole) is_whole"), f.expr("sum(ill) ill")
    )


def chunks(counted: DataFrame, reported: DataFrame | None, whole: DataFrame | None, *, has_gaps: bool) -> DataFrame:
    """Return a row for each chunk of an incarnation's numbers in a topic, with all that is known about it."""
    from pyspark.sql import functions as f

    word = (
        f"struct(tier, bucket, int(word & {CHUNK // WORD - 1}) word, count, bits, "
        "if(count = bit_count(bits), null, array(n0, n1, n2, n3)) nibbles, late)"
    )
    key = ["topic", "session", "chunk"]
    found = (
        counted.where(f"kind = {TAGGED}")
        .selectExpr("topic", "session", "word >> 6 chunk", f"{word} word")
        .groupBy(*key)
        .agg(f.expr("collect_list(word) words"))
    )
    if reported is None or whole is None:
        found = found.selectExpr("*", "null counts", "false is_whole")
    else:
        collected = reported.groupBy(*key).agg(f.expr("collect_list(struct(bucket, sent, acked, failed)) counts"))
        known = whole.where("session is not null").select("session", "is_whole")
        found = found.join(collected, key, "full").join(known, "session", "left")
    order = "over (partition by topic, session order by chunk)"
    return found.selectExpr(
        *key,
        f"(chunk - coalesce(lag(chunk) {order}, -1) - 1) * {CHUNK} gap",
        f"lead(chunk) {order} is null is_last",
        f"{has_gaps} and not coalesce(is_whole, false) has_gaps",
        "words",
        "counts",
    )


def compared(found: DataFrame, parameters: Parameters) -> DataFrame:
    """Compare all chunks and return their rows, with the schema _FOUND."""
    return found.mapInArrow(partial(_compare_all, parameters), _FOUND)


def table(found: DataFrame, counted: DataFrame, tiers: list[str], parameters: Parameters) -> DataFrame:
    """Return the result: a row for each producer, topic, tier and bucket. Records without usable tags have a null producer."""
    from pyspark.sql import functions as f

    label = f"one -> named_struct('incarnation', right(session, {INCARNATION_DIGITS}), 'first', one.first, 'last', one.last)"
    tagged_rows = found.selectExpr(
        f"left(session, length(session) - {INCARNATION_DIGITS + 1}) producer",
        "topic",
        "tier",
        "bucket",
        *_NUMBERS,
        *[f"0L {name}" for name in _OTHERS],
        *[f"transform({name}, {label}) {name}" for name in _RANGES],
    )
    is_requested = f"bucket >= {parameters.from_ms or 0} and bucket < {parameters.to_ms or 1 << 62}"
    others = counted.where(f"kind != {TAGGED} and {is_requested}").selectExpr(
        "string(null) producer",
        "topic",
        "tier",
        "bucket",
        *[("late" if name == "late" else f"0L {name}") for name in _NUMBERS],
        *[f"if(kind = {kind}, count, 0L) {name}" for name, kind in _OTHERS.items()],
        *[f"cast(null as {_RANGE}) {name}" for name in _RANGES],
    )
    names = f.create_map(*[f.lit(part) for pair in enumerate(("producer", *tiers), PRODUCER_TIER) for part in pair])
    state = "true" if parameters.closed_ms is None else f"bucket + {parameters.width_ms} <= {parameters.closed_ms}"
    grouped = tagged_rows.unionByName(others).groupBy("producer", "topic", "tier", "bucket")
    totals = [f.expr(f"sum({name}) {name}") for name in (*_NUMBERS, *_OTHERS)]
    return (
        grouped.agg(*totals, *[f.expr(f"{_joined(name)} {name}") for name in _RANGES])
        .withColumn("name", names[f.col("tier")])
        .selectExpr(
            "producer",
            "topic",
            "name tier",
            "tier tier_number",
            "timestamp_millis(bucket) bucket",
            f"if({state}, 'closed', 'open') state",
            *_NUMBERS,
            *_OTHERS,
            *_RANGES,
        )
        .sortWithinPartitions("topic", "bucket", "tier_number", "producer")
    )


def _joined(name: str) -> str:
    """Return an expression that joins the ranges of several chunks, merges those that touch, and keeps the first RANGES_MAX."""
    touch = "size(done) > 0 and element_at(done, -1).incarnation = one.incarnation and element_at(done, -1).last + 1 = one.first"
    longer = "named_struct('incarnation', one.incarnation, 'first', element_at(done, -1).first, 'last', one.last)"
    step = (
        f"if({touch}, concat(slice(done, 1, size(done) - 1), array({longer})), "
        f"if(size(done) > {RANGES_MAX}, done, concat(done, array(one))))"
    )
    ranges = f"reduce(array_sort(flatten(collect_list({name}))), cast(array() as {_RANGE}), (done, one) -> {step})"
    return f"slice({ranges}, 1, {RANGES_MAX})"


def _compare_all(parameters: Parameters, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compare the chunks in some batches and yield their rows, in the columns of _FOUND."""
    import pyarrow as pa

    pair = pa.list_(pa.struct([("first", pa.int64()), ("last", pa.int64())]))
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), *[pa.int64()] * len(_NUMBERS), pair, pair]
    names = ["topic", "session", "tier", "bucket", *_NUMBERS, *_RANGES]
    for batch in batches:
        rows: list[list[Any]] = []
        for chunk in batch.to_pylist():
            rows += _compare_one(parameters, chunk)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _compare_one(parameters: Parameters, chunk: dict[str, Any]) -> Iterator[list[Any]]:
    held = [Word(**word) for word in chunk["words"] or ()]
    counted = [Count(**count) for count in chunk["counts"] or ()]
    topic, session, how = chunk["topic"], chunk["session"], {name: chunk[name] for name in ("gap", "is_last", "has_gaps")}
    for row in compare(parameters, topic, chunk["chunk"], held, counted, **how):
        ranges = [[{"first": first, "last": last} for first, last in getattr(row, name)] for name in _RANGES]
        yield [topic, session, row.tier, row.bucket, *[getattr(row, name) for name in _NUMBERS], *ranges]
