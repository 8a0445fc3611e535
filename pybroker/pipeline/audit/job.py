"""`audit`: what each tier has of what producers sent, by sequence numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pybroker.pipeline.audit import counting
from pybroker.pipeline.audit.compare import Question
from pybroker.pipeline.audit.folder import TABLE, replacing
from pybroker.pipeline.audit.report import write_report
from pybroker.pipeline.audit.sources import Piece, Tier, messages, records, survey
from pybroker.pipeline.audit.summary import Header, Summary, summarize
from pybroker.pipeline.audit.trail import COUNTS_TOPIC
from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.explain import AWAY, explain, whole_text
from pybroker.pipeline.progress import Progress, Standing

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS: Final = 3
_CONF: Final = {
    "spark.sql.ansi.enabled": "false",  # sums of bits may wrap around
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",  # a row is a chunk of 4096 records
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What to compare with what."""

    path: Path
    """The folder of the result."""
    tiers: tuple[Tier, ...]
    """In the order in which records pass through them."""
    topics: tuple[str, ...] = ()
    """As their producers call them."""
    pattern: str | None = None
    """Instead: all topics of the first tier, which must be a cluster that renames nothing, whose whole name matches."""
    counts: str | None = None
    """The cluster with the producers' own counts; None compares the tiers with each other only."""
    counts_topic: str = COUNTS_TOPIC
    bucket_s: int = 60
    grace_s: float = 120.0
    """A bucket is closed when so much time has passed since its end."""
    is_all_closed: bool = False
    """The producers have ended: what is not there now is lost."""
    from_ms: int | None = None
    to_ms: int | None = None
    """Only buckets from the first to before the second."""
    now_ms: int | None = None
    """The time of the audit, if not now."""
    retry_s: float = 60.0
    """How long to wait for a cluster that went away."""

    def __post_init__(self) -> None:
        if not self.tiers:
            raise PipelineError("an audit needs at least one tier")
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise PipelineError(f"two tiers have the same name: {', '.join(names)}")
        if bool(self.topics) == (self.pattern is not None):
            raise PipelineError("either topics or a pattern must be given")
        if self.pattern is not None and self.tiers[0].folder is not None:
            raise PipelineError("a pattern needs a cluster as the first tier, to know its topics")
        if len(self.topics) > 1 and any("{topic}" not in tier.rename for tier in self.tiers):
            raise PipelineError("several topics cannot have one name: use {topic} in the name of a tier's topics")
        if self.bucket_s < 1 or self.grace_s < 0:
            raise PipelineError("a bucket has at least a second, and the grace is not negative")

    @property
    def width_ms(self) -> int:
        """Of a bucket."""
        return self.bucket_s * 1000


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What was found."""

    summary: Summary
    seconds: float

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost or doubled."""
        return self.summary.is_good


@dataclass(frozen=True, slots=True)
class _Work:
    """One pass: what was there when it began."""

    spark: SparkSession
    options: AuditOptions
    topics: tuple[str, ...]
    pieces: tuple[Piece, ...]
    counts: Piece | None
    question: Question


def run(spark: SparkSession, options: AuditOptions) -> AuditResult:
    """One pass over everything that is there. Raises PipelineError; the result is then as it was before."""
    session = spark.newSession()
    for name, value in _CONF.items():
        session.conf.set(name, value)
    attempts = 0
    while True:
        try:
            with replacing(options.path) as staging:
                return _pass(session, options, staging)
        except PipelineError:
            raise
        except Exception as error:
            attempts += 1
            clusters = {tier.source for tier in options.tiers if tier.folder is None}
            away = [cluster for cluster in sorted(clusters) if not Cluster(cluster).is_there()]
            if attempts >= _ATTEMPTS or not (away or AWAY.search(whole_text(error))):
                raise PipelineError(explain(error)) from error
            for cluster in away:
                Cluster(cluster).wait_until_there(options.retry_s)


def _pass(spark: SparkSession, options: AuditOptions, staging: Path) -> AuditResult:
    began = time.monotonic()
    work = _begin(spark, options)
    each = [_words(work, number, piece) for number, piece in enumerate(work.pieces)]
    everything = reduce(lambda one, other: one.unionByName(other), each).persist()
    said = None if work.counts is None else counting.reports(messages(spark, work.counts)).persist()
    names = tuple(tier.name for tier in options.tiers)
    try:
        with Progress("audit", _Watch(spark, sum(piece.count for piece in work.pieces)).look):
            whole = None if said is None else counting.sessions(said)
            unread, unfinished = (0, None) if whole is None else _look_at(whole, options)
            counts = None if said is None else counting.counts(said, work.topics, options.width_ms)
            has_gaps = options.from_ms is None and options.to_ms is None
            found = counting.compared(counting.chunks(everything, counts, whole, has_gaps=has_gaps), work.question)
            counting.table(found, everything, list(names), work.question).write.parquet(str(staging / TABLE))
        header = Header(work.topics, names, options.bucket_s, unread, unfinished)
        summary, cells = summarize(spark, staging, header)
        write_report(staging, summary, cells)
    finally:
        everything.unpersist()
        if said is not None:
            said.unpersist()
    return AuditResult(summary, time.monotonic() - began)


def _begin(spark: SparkSession, options: AuditOptions) -> _Work:
    """Look at what there is, the time first: whatever is closed by then is in all that is read after it."""
    now_ms = time.time_ns() // 1_000_000 if options.now_ms is None else options.now_ms
    topics = options.topics
    if options.pattern is not None:
        there = Cluster(options.tiers[0].source).chosen_topics((), options.pattern)
        topics = tuple(topic for topic in there if topic != options.counts_topic)
    pieces = tuple(survey(tier, topics, now_ms) for tier in options.tiers)
    said = None if options.counts is None else survey(Tier("counts", options.counts), [options.counts_topic], now_ms)
    horizons = {
        (number, topic): at - at % options.width_ms for number, piece in enumerate(pieces) for topic, at in piece.horizons.items()
    }
    question = Question(
        tiers=len(pieces),
        width_ms=options.width_ms,
        closed_ms=None if options.is_all_closed else int(now_ms - options.grace_s * 1000),
        has_counts=said is not None,
        from_ms=None if options.from_ms is None else options.from_ms - options.from_ms % options.width_ms,
        to_ms=options.to_ms,
        horizons=horizons,
    )
    return _Work(spark, options, topics, pieces, said, question)


def _words(work: _Work, number: int, piece: Piece) -> DataFrame:
    """The records of a tier, counted. With bounds of time, some more on both sides: a tier's own times may be later."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    question, grace_ms = work.question, int(work.options.grace_s * 1000)
    margin = grace_ms + question.width_ms
    from_ms = None if question.from_ms is None else question.from_ms - margin
    found = counting.tagged(records(work.spark, piece, from_ms))
    if from_ms is not None:
        found = found.where(f.col("ms") >= from_ms)
    if question.to_ms is not None:
        found = found.where(f.col("ms") < question.to_ms + margin)
    return counting.words(counting.with_lateness(found, question.width_ms, grace_ms), number, question.width_ms)


def _look_at(whole: DataFrame, options: AuditOptions) -> tuple[int, int]:
    """How many messages are no counts, and how many incarnations have not ended theirs. Raises PipelineError."""
    from pyspark.sql import functions as f  # noqa: PLC0415 (an extra)

    # producers' buckets have to lie in one bucket each
    is_other = f"session is not null and {options.width_ms} % width_ms != 0"
    found = whole.agg(
        f.expr("coalesce(sum(ill), 0) ill"),
        f.expr("count_if(session is not null and not is_whole) unfinished"),
        f.expr(f"max_by(session, width_ms) filter (where {is_other}) other"),
        f.expr(f"max(width_ms) filter (where {is_other}) width_ms"),
    ).head()
    assert found is not None
    if found.other is not None:
        raise PipelineError(
            f"producer {found.other} counts in buckets of {found.width_ms // 1000} s, "
            f"of which buckets of {options.bucket_s} s are no multiple"
        )
    return found.ill, found.unfinished


class _Watch:
    """How far the work has come, by the tasks of all stages that were seen so far; never back."""

    def __init__(self, spark: SparkSession, total: int) -> None:
        self._tracker, self._total = spark.sparkContext.statusTracker(), total
        self._stages: dict[int, tuple[int, int]] = {}
        self._share = 0.0

    def look(self) -> Standing:
        """Rows are estimated: stages read about as much as each other."""
        self._stages = {number: (wanted, wanted) for number, (_, wanted) in self._stages.items()}  # over, if not seen again
        for number in self._tracker.getActiveJobsIds():
            job = self._tracker.getJobInfo(number)
            for stage in job.stageIds if job is not None else ():
                found = self._tracker.getStageInfo(stage)
                if found is not None:
                    self._stages[stage] = found.numCompletedTasks, found.numTasks
        wanted = sum(wanted for _, wanted in self._stages.values())
        done = sum(done for done, _ in self._stages.values())
        self._share = max(self._share, done / wanted if wanted else 0.0)
        return Standing(int(self._total * self._share), self._total)
