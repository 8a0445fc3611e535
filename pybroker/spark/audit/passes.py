"""The parts that every pass of an audit has: its session, its retries when a cluster is away, its topics, its progress."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from pybroker.spark.audit.sources import ARCHIVE
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import AWAY, explain, whole_text
from pybroker.spark.progress import Standing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pybroker.spark.audit.options import AuditOptions
    from pybroker.spark.audit.sources import Piece

_T = TypeVar("_T")
_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.2
_NEARLY: Final = 0.99
"""The greatest share that progress shows before the end, because stages may follow that are not known yet."""
_CHANGED: Final = re.compile("FileNotFound|FILE_NOT_EXIST|PATH_NOT_FOUND|No such file|is missing, though the manifest names it")
"""The errors of reading an archive while an archive job joins its files."""
_CONF: Final = {
    "spark.sql.ansi.enabled": "false",  # sums of bits may wrap around
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",  # a row is a chunk of 4096 records
}


def prepared(spark: SparkSession) -> SparkSession:
    """Make a session of the audit's own."""
    session = spark.newSession()
    for name, value in _CONF.items():
        session.conf.set(name, value)
    return session


def tried(options: AuditOptions, work: Callable[[], _T], *, was_there: bool = False) -> _T:
    """Call `work`, and call it again if a cluster went away or an archive changed meanwhile. Raises PipelineError.

    If a cluster is away from the beginning, wait for it only if it `was_there` before.
    """
    attempts = 0
    while True:
        try:
            return work()
        except Exception as error:
            attempts += 1
            text, is_explained = whole_text(error), isinstance(error, PipelineError)
            is_changed = _CHANGED.search(text) is not None and any(tier.folder is not None for tier in options.tiers)
            away = [] if is_explained and not was_there else _away(options)
            is_over = not (away or is_changed or (not is_explained and AWAY.search(text)))
            if is_over or attempts >= _ATTEMPTS:
                if is_explained:
                    raise
                raise PipelineError(explain(error)) from error
            for cluster in away:
                cluster.wait_until_there(options.retry_s)
            if not away:
                time.sleep(_PAUSE_S)


def _away(options: AuditOptions) -> list[Cluster]:
    sources = {tier.source for tier in options.tiers if tier.folder is None} | {options.counts or options.tiers[0].source}
    clusters = [Cluster(source) for source in sorted(sources) if not source.startswith(ARCHIVE)]
    return [cluster for cluster in clusters if not cluster.is_there()]


def chosen_topics(options: AuditOptions) -> tuple[str, ...]:
    """Return the topics to audit, by the names that their producers use. Raises PipelineError."""
    if options.pattern is None:
        return options.topics
    existing = Cluster(options.tiers[0].source).chosen_topics((), options.pattern)
    return tuple(topic for topic in existing if topic != options.counts_topic)


def closed_until(options: AuditOptions, read_ms: int, pieces: Iterable[Piece]) -> int | None:
    """Return the time up to which buckets are closed when all that came until `read_ms` is read; None closes all buckets.

    Records that an open transaction hides are there, so their buckets remain open until it ends.
    """
    times = [piece.held_ms for piece in pieces if piece.held_ms is not None]
    if not options.is_all_closed:
        times.append(read_ms)
    return min(times) - options.grace_ms if times else None


def look_at(whole: DataFrame, options: AuditOptions) -> tuple[int, int]:
    """Return how many messages are not counts, and how many incarnations have not ended their counts.

    Raises PipelineError when a producer's buckets do not fit into those of the audit.
    """
    from pyspark.sql import functions as f

    # each bucket of a producer has to lie in a single bucket of the audit
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
            f"and buckets of {options.bucket_s} s are not a multiple of them"
        )
    return found.ill, found.unfinished


class Watch:
    """A measure of how far the work has come, by the tasks of all stages that were seen so far. It never goes back."""

    def __init__(self, spark: SparkSession, total: int) -> None:
        self._tracker, self._total = spark.sparkContext.statusTracker(), total
        self._stages: dict[int, tuple[int, int]] = {}
        self._share = 0.0

    def look(self) -> Standing:
        """Estimate the rows that are done, as if all stages read the same amount."""
        # a stage that is not seen again has ended
        self._stages = {number: (wanted, wanted) for number, (_, wanted) in self._stages.items()}
        for number in self._tracker.getActiveJobsIds():
            job = self._tracker.getJobInfo(number)
            for stage in job.stageIds if job is not None else ():
                found = self._tracker.getStageInfo(stage)
                if found is not None:
                    self._stages[stage] = found.numCompletedTasks, found.numTasks
        wanted = sum(wanted for _, wanted in self._stages.values())
        done = sum(done for done, _ in self._stages.values())
        self._share = max(self._share, done / wanted if wanted else 0.0)
        return Standing(int(self._total * min(self._share, _NEARLY)), self._total)
