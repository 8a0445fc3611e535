"""Counting by Spark: records and producers' counts to one row for each chunk of numbers, and those to the result's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.pipeline.audit.compare import PRODUCER_TIER, RANGES_MAX, WORD, Count, Question, Word, compare
from pybroker.pipeline.audit.tags import (
    CHUNK,
    INCARNATION_DIGITS,
    NAME_BYTES_MAX,
    NAMES,
    PRODUCER,
    SEQUENCE,
    TIER,
    VERSION,
)
from pybroker.pipeline.audit.trail import REPORT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

TAGGED, UNTAGGED, DAMAGED, OTHER_VERSION = range(4)
_REPORT: Final = (
    "version int, producer string, incarnation string, tier string, width_ms bigint, number bigint, is_end boolean, "
    "counts array<struct<topic: string, bucket: bigint, chunk: bigint, sent: array<int>, acked: array<int>, failed: array<int>>>"
)
_NUMBERS: Final = (
    "expected", "present", "lost", "lost_here", "doubled", "doubled_here", "pending", "unknown", "refused", "late",
)  # fmt: skip
_OTHERS: Final = ("untagged", "damaged", "other_version")
_RANGES: Final = ("lost_ranges", "doubled_ranges")
_FOUND: Final = (
    f"topic string, session string, tier int, bucket bigint, {', '.join(f'{name} bigint' for name in _NUMBERS)}, "
    "lost_ranges array<struct<first: bigint, last: bigint>>, doubled_ranges array<struct<first: bigint, last: bigint>>, "
    "damaged_counts bigint"
)
WORDS: Final = (
    "tier int, topic string, session string, kind int, bucket bigint, word bigint, count bigint, bits bigint, "
    "n0 bigint, n1 bigint, n2 bigint, n3 bigint, late bigint"
)


def tagged(records: DataFrame) -> DataFrame:
    """Records with what their headers say: topic, partition, offset, ms, kind, session and sequence."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    tags = f.filter("headers", lambda header: header["key"].isin(*NAMES))

    def only(name: str) -> Column:
        return f.expr(f"get(filter(tags, tag -> tag.key = '{name}'), 0).value")

    session, tier, sequence = f.col("_producer").cast("string"), f.col("_tier").cast("string"), f.col("_sequence")
    incarnation = f"[0-9a-f]{{{INCARNATION_DIGITS}}}"
    is_well = (
        (f.size("tags") == len(NAMES))
        & f.is_valid_utf8(session)
        & f.is_valid_utf8(tier)
        & session.rlike(f"(?s)^.+/{incarnation}$")
        & (f.length("_producer") <= NAME_BYTES_MAX + 1 + INCARNATION_DIGITS)
        & f.length("_tier").between(1, NAME_BYTES_MAX)
        & (f.length(sequence) == 9)
        & (f.hex(f.substring(sequence, 2, 1)) < "80")
    )
    version = f.hex(f.substring(sequence, 1, 1))
    kind = (
        f.when(f.coalesce(f.size("tags"), f.lit(0)) <= 0, UNTAGGED)
        .when((f.length(sequence) > 0) & (version != f"{VERSION:02X}"), OTHER_VERSION)
        .when(f.coalesce(is_well, f.lit(False)), TAGGED)
        .otherwise(DAMAGED)
    )
    narrow = records.select("topic", "partition", "offset", f.unix_millis("timestamp").alias("ms"), tags.alias("tags"))
    narrow = narrow.select(
        "*", only(PRODUCER).alias("_producer"), only(TIER).alias("_tier"), only(SEQUENCE).alias("_sequence")
    ).withColumn("kind", kind)
    is_tagged = f.col("kind") == TAGGED
    return narrow.select(
        "topic",
        "partition",
        "offset",
        "ms",
        "kind",
        f.when(is_tagged, session).alias("session"),
        f.when(is_tagged, f.conv(f.hex(f.substring(sequence, 2, 8)), 16, 10).cast("bigint")).alias("sequence"),
    )


def with_lateness(records: DataFrame, width_ms: int, grace_ms: int) -> DataFrame:
    """Adds `late`: whether an earlier record of the partition is so new that the bucket was closed already."""
    from pyspark.sql import Window  # noqa: PLC0415 (an extra)
    from pyspark.sql import functions as f  # noqa: PLC0415

    before = Window.partitionBy("topic", "partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    closed_from = (f.floor(f.col("ms") / width_ms) + 1) * width_ms + grace_ms
    return records.withColumn("late", f.coalesce(f.max("ms").over(before) >= closed_from, f.lit(False)))


def words(records: DataFrame, tier: int, width_ms: int) -> DataFrame:
    """Records counted by 64 numbers of an incarnation and bucket: WORDS. `late` is a column already."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    at = f.col("sequence").bitwiseAND(WORD - 1).cast("int")
    one_bit = f.expr("shiftleft(1L, cast(sequence & 63 as int))")
    nibbles = [
        f.sum(f.when(f.floor(at / 16) == number, f.expr("shiftleft(1L, 4 * cast(sequence & 15 as int))")).otherwise(0))
        for number in range(4)
    ]
    return records.groupBy(
        f.lit(tier).alias("tier"),
        "topic",
        "session",
        "kind",
        (f.floor(f.col("ms") / width_ms) * width_ms).alias("bucket"),
        f.shiftright("sequence", 6).alias("word"),
    ).agg(
        f.count("*").alias("count"),
        f.bit_or(one_bit).alias("bits"),
        *[nibble.alias(f"n{number}") for number, nibble in enumerate(nibbles)],
        f.sum(f.col("late").cast("bigint")).alias("late"),
    )


def reports(messages: DataFrame) -> DataFrame:
    """Messages of the topic of counts, read: `_REPORT`, and `session`, null where it is not a report of this version."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    report = f.from_json(f.col("value").cast("string"), _REPORT)
    incarnation = f"^[0-9a-f]{{{INCARNATION_DIGITS}}}$"
    is_well = (
        (report.version == REPORT_VERSION)
        & report.incarnation.rlike(incarnation)
        & (f.length(report.producer) > 0)
        & (report.width_ms > 0)
        & (report.number >= 0)
        & report.is_end.isNotNull()
        & report.counts.isNotNull()
    )
    session = f.when(is_well, f.concat(report.producer, f.lit("/"), report.incarnation))
    return messages.select(session.alias("session"), report.alias("report")).select("session", "report.*")


def counts(said: DataFrame, topics: Iterable[str], width_ms: int) -> DataFrame:
    """The producers' counts of these topics: topic, session, chunk, bucket, and runs sent, acked, failed."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    each = said.where("session is not null").select("session", f.explode("counts").alias("one")).select("session", "one.*")
    bucket = f.floor(f.col("bucket") / width_ms) * width_ms
    known = each.where(f.col("topic").isin(*topics) & f.col("bucket").isNotNull() & (f.col("chunk") >= 0))
    return known.withColumn("bucket", bucket)


def sessions(said: DataFrame) -> DataFrame:
    """Each incarnation that has reported: session, width_ms, and whether all its reports are there, the last included."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    return (
        said.where("session is not null")
        .groupBy("session")
        .agg(
            f.max("width_ms").alias("width_ms"),
            (f.bool_or("is_end") & (f.count_distinct("number") == f.max("number") + 1)).alias("is_whole"),
        )
    )


def chunks(counted: DataFrame, said: DataFrame | None, whole: DataFrame | None, *, has_gaps: bool) -> DataFrame:
    """One row for each chunk of an incarnation's numbers in a topic, with all that is known of it."""
    from pyspark.sql import Window  # noqa: PLC0415 (an extra)
    from pyspark.sql import functions as f  # noqa: PLC0415

    is_single = f.col("count") == f.bit_count("bits")
    word = f.struct(
        "tier",
        "bucket",
        f.col("word").bitwiseAND(CHUNK // WORD - 1).cast("int").alias("word"),
        "count",
        "bits",
        f.when(~is_single, f.array("n0", "n1", "n2", "n3")).alias("nibbles"),
        "late",
    )
    key = ["topic", "session", "chunk"]
    found = (
        counted.where(f.col("kind") == TAGGED)
        .groupBy("topic", "session", f.shiftright("word", 6).alias("chunk"))
        .agg(f.collect_list(word).alias("words"))
    )
    if said is None or whole is None:
        found = found.withColumn("counts", f.lit(None)).withColumn("is_whole", f.lit(False))
    else:
        mine = said.groupBy(*key).agg(f.collect_list(f.struct("bucket", "sent", "acked", "failed")).alias("counts"))
        found = found.join(mine, key, "full").join(whole.select("session", "is_whole"), "session", "left")
    order = Window.partitionBy("topic", "session").orderBy("chunk")
    gap = (f.col("chunk") - f.coalesce(f.lag("chunk").over(order), f.lit(-1)) - 1) * CHUNK
    return found.select(
        *key,
        gap.alias("gap"),
        f.lead("chunk").over(order).isNull().alias("is_last"),
        (f.lit(has_gaps) & ~f.coalesce("is_whole", f.lit(False))).alias("has_gaps"),
        "words",
        "counts",
    )


def compared(found: DataFrame, question: Question) -> DataFrame:
    """The rows of all chunks: _FOUND."""
    return found.mapInArrow(partial(_compare_all, question), _FOUND)


def table(found: DataFrame, counted: DataFrame, tiers: list[str], question: Question) -> DataFrame:
    """The result: a row for each producer (null: records without usable tags), topic, tier and bucket."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    producer = f.expr(f"left(session, length(session) - {INCARNATION_DIGITS + 1})").alias("producer")
    incarnation = f.expr(f"right(session, {INCARNATION_DIGITS})")

    def labelled(name: str) -> Column:
        return f.transform(
            name, lambda one: f.struct(incarnation.alias("incarnation"), one["first"].alias("first"), one["last"].alias("last"))
        ).alias(name)

    mine = found.where("bucket is not null").select(
        producer,
        "topic",
        "tier",
        "bucket",
        *_NUMBERS,
        *[labelled(name) for name in _RANGES],
        *[f.lit(0).alias(name) for name in _OTHERS],
    )
    none = f.lit(None).cast("array<struct<incarnation: string, first: bigint, last: bigint>>")
    is_asked = (f.col("bucket") >= (question.from_ms or 0)) & (f.col("bucket") < (question.to_ms or (1 << 62)))
    others = counted.where((f.col("kind") != TAGGED) & is_asked).select(
        f.lit(None).cast("string").alias("producer"),
        "topic",
        "tier",
        "bucket",
        *[(f.col("late") if name == "late" else f.lit(0)).alias(name) for name in _NUMBERS],
        *[none.alias(name) for name in _RANGES],
        *[
            f.when(f.col("kind") == kind, f.col("count")).otherwise(0).alias(name)
            for kind, name in zip((UNTAGGED, DAMAGED, OTHER_VERSION), _OTHERS, strict=True)
        ],
    )
    names = f.create_map(*[f.lit(part) for pair in enumerate(("producer", *tiers), PRODUCER_TIER) for part in pair])
    end = f.col("bucket") + question.width_ms
    state = f.lit("closed") if question.closed_ms is None else f.when(end <= question.closed_ms, "closed").otherwise("open")
    return (
        mine.unionByName(others)
        .groupBy("producer", "topic", "tier", "bucket")
        .agg(
            *[f.sum(name).cast("bigint").alias(name) for name in (*_NUMBERS, *_OTHERS)],
            *[_joined(name).alias(name) for name in _RANGES],
        )
        .select(
            "producer",
            "topic",
            names[f.col("tier")].alias("tier"),
            f.col("tier").alias("tier_number"),
            f.timestamp_millis("bucket").alias("bucket"),
            state.alias("state"),
            *_NUMBERS,
            *_OTHERS,
            *_RANGES,
        )
        .sortWithinPartitions("topic", "bucket", "tier_number", "producer")
    )


def _joined(name: str) -> Column:
    """The ranges of several chunks, those that touch made one, and no more of them than are named."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    touching = (
        "reduce(array_sort(flatten(collect_list({name}))), "
        "cast(array() as array<struct<incarnation: string, first: bigint, last: bigint>>), "
        "(done, one) -> if(size(done) > 0 and element_at(done, -1).incarnation = one.incarnation "
        "and element_at(done, -1).last + 1 = one.first, "
        "concat(slice(done, 1, size(done) - 1), array(named_struct('incarnation', one.incarnation, "
        "'first', element_at(done, -1).first, 'last', one.last))), "
        "if(size(done) > {limit}, done, concat(done, array(one)))))"
    )
    return f.expr(f"slice({touching.format(name=name, limit=RANGES_MAX)}, 1, {RANGES_MAX})")


def _compare_all(question: Question, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the chunks in some batches, in the columns of _FOUND."""
    import pyarrow as pa  # noqa: PLC0415 (an extra)

    pair = pa.list_(pa.struct([("first", pa.int64()), ("last", pa.int64())]))
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), *[pa.int64()] * len(_NUMBERS), pair, pair, pa.int64()]
    names = ["topic", "session", "tier", "bucket", *_NUMBERS, *_RANGES, "damaged_counts"]
    for batch in batches:
        rows: list[list[Any]] = []
        for said in batch.to_pylist():
            rows += _compare_one(question, said)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _compare_one(question: Question, said: dict[str, Any]) -> Iterator[list[Any]]:
    topic, session = said["topic"], said["session"]
    held = [Word(**word) for word in said["words"] or ()]
    counted = [Count(**count) for count in said["counts"] or ()]
    how = {"gap": said["gap"], "is_last": said["is_last"], "has_gaps": said["has_gaps"]}
    try:
        rows = compare(question, topic, said["chunk"], held, counted, **how)
    except ValueError:  # of runs that are none: the chunk is compared without the producer's counts
        rows = compare(question, topic, said["chunk"], held, (), **how)
        yield [topic, session, None, None, *[0] * len(_NUMBERS), None, None, 1]
    for row in rows:
        ranges = [[{"first": first, "last": last} for first, last in getattr(row, name)] for name in _RANGES]
        yield [topic, session, row.tier, row.bucket, *[getattr(row, name) for name in _NUMBERS], *ranges, 0]
