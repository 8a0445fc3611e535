"""The job `audit` in one pass: compares, by sequence numbers, what each tier has with what producers sent.

It reads everything, or a part of the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pybroker.spark.audit import counting
from pybroker.spark.audit.compare import Parameters
from pybroker.spark.audit.folder import TABLE, check_not_followed, replacing
from pybroker.spark.audit.options import AuditOptions, AuditResult
from pybroker.spark.audit.passes import Watch, chosen_topics, closed_until, look_at, prepared, tried
from pybroker.spark.audit.report import write_report
from pybroker.spark.audit.sources import Piece, Tier, messages, records, survey
from pybroker.spark.audit.summary import Header, summarize
from pybroker.spark.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Work:
    """A pass, with what was there when it began."""

    spark: SparkSession
    options: AuditOptions
    topics: tuple[str, ...]
    pieces: tuple[Piece, ...]
    counts: Piece | None
    parameters: Parameters


def run(spark: SparkSession, options: AuditOptions) -> AuditResult:
    """Run a pass over everything that is there. Raises PipelineError; then the result is as it was before."""
    session = prepared(spark)

    def work() -> AuditResult:
        check_not_followed(options.path)
        with replacing(options.path) as staging:
            return _pass(session, options, staging)

    return tried(options, work)


def _pass(spark: SparkSession, options: AuditOptions, staging: Path) -> AuditResult:
    began = time.monotonic()
    work = _begin(spark, options)
    each = [_words(work, number, piece) for number, piece in enumerate(work.pieces)]
    everything = reduce(lambda one, other: one.unionByName(other), each).persist()
    reported = None if work.counts is None else counting.reports(messages(spark, work.counts)).persist()
    names = tuple(tier.name for tier in options.tiers)
    total = sum(piece.count for piece in work.pieces)
    try:
        with Progress("audit", Watch(spark, total).look):
            whole = None if reported is None else counting.sessions(reported)
            unread, unfinished = (0, None) if whole is None else look_at(whole, options)
            counts = None if reported is None else counting.of_topics(counting.counts(reported, options.width_ms), work.topics)
            has_gaps = options.from_ms is None and options.to_ms is None
            found = counting.compared(counting.chunks(everything, counts, whole, has_gaps=has_gaps), work.parameters)
            counting.table(found, everything, list(names), work.parameters).write.parquet(str(staging / TABLE))
        header = Header(work.topics, names, options.bucket_s, unread, unfinished)
        summary, cells = summarize(spark, staging, header)
        write_report(staging, summary, cells)
    finally:
        everything.unpersist()
        if reported is not None:
            reported.unpersist()
    return AuditResult(summary, time.monotonic() - began, total)


def _begin(spark: SparkSession, options: AuditOptions) -> _Work:
    """Take the time, and then look up what there is, so that everything in a closed bucket is in what is read."""
    now_ms = time.time_ns() // 1_000_000 if options.now_ms is None else options.now_ms
    topics = chosen_topics(options)
    pieces = tuple(
        survey(tier, topics, now_ms, may_lack=options.pattern is not None and number > 0, isolation=options.isolation)
        for number, tier in enumerate(options.tiers)
    )
    counts = None if options.counts is None else survey(Tier("counts", options.counts), [options.counts_topic], now_ms)
    horizons = {
        (number, topic): at - at % options.width_ms for number, piece in enumerate(pieces) for topic, at in piece.horizons.items()
    }
    parameters = Parameters(
        tiers=len(pieces),
        width_ms=options.width_ms,
        closed_ms=closed_until(options, now_ms, pieces),
        has_counts=counts is not None,
        from_ms=None if options.from_ms is None else options.from_ms - options.from_ms % options.width_ms,
        to_ms=options.to_ms,
        horizons=horizons,
    )
    return _Work(spark, options, topics, pieces, counts, parameters)


def _words(work: _Work, number: int, piece: Piece) -> DataFrame:
    """Count the records of a tier. With bounds of time, count a margin on both sides, too."""
    from pyspark.sql import functions as f

    parameters, options = work.parameters, work.options
    from_ms = None if parameters.from_ms is None else parameters.from_ms - options.margin_ms
    found = counting.tagged(records(work.spark, piece, from_ms))
    if from_ms is not None:
        found = found.where(f.col("ms") >= from_ms)
    if parameters.to_ms is not None:
        found = found.where(f.col("ms") < parameters.to_ms + options.margin_ms)
    return counting.words(
        counting.with_lateness(found, width_ms=parameters.width_ms, grace_ms=options.grace_ms),
        number,
        width_ms=parameters.width_ms,
    )
