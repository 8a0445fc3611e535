"""The job `archive`: copies topics to Parquet, once or continuously, every record exactly once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pybroker.spark.archive.compaction import compact, small_files
from pybroker.spark.archive.files import NAMES, examine
from pybroker.spark.archive.manifest import Archive, Identity
from pybroker.spark.cluster import Cluster, Extent
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import AWAY, explain, whole_text
from pybroker.spark.isolation import Isolation
from pybroker.spark.progress import Progress, Standing

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_ATTEMPTS: Final = 5
_POLL_MS: Final = 30_000
_WRITER_CONF: Final = {
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.maxConcurrentOutputFileWriters": "32",  # so that rows stay in the order of their offsets, unsorted
    "spark.sql.streaming.stopTimeout": "30s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The topics to archive, and the place for the archive."""

    bootstrap: str
    path: Path
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that whole names of topics match, instead of `topics`."""
    interval_s: float | None = None
    """Seconds between the batches of a continuous run; None ends when all that was there at the start is archived."""
    batch_records: int = 1_000_000
    """The maximum number of records in a batch, which is the unit that is repeated after a kill."""
    compact_after: int = 64
    """Small files are joined when there are this many, and at the end; 0 means never."""
    file_bytes: int = 128 << 20
    """The size up to which files are joined; a file of half this size or less is small."""
    is_loss_allowed: bool = False
    """Continue when records were deleted before they could be archived."""
    retry_s: float = 60.0
    """How many seconds to wait for a cluster that went away."""
    isolation: Isolation = Isolation.READ_COMMITTED

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise PipelineError("either topics or a pattern must be given")


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The records that a run has added."""

    records: int
    files: int
    """All files that are in the archive now."""
    seconds: float
    lost: int
    """Records that had been deleted before they could be archived."""


@dataclass(frozen=True, slots=True)
class _Run:
    spark: SparkSession
    options: ArchiveOptions
    cluster: Cluster
    archive: Archive


def run(spark: SparkSession, options: ArchiveOptions) -> ArchiveResult:
    """Archive what is new. Raises PipelineError; then the archive is whole, and the next run continues."""
    session = spark.newSession()
    for name, value in _WRITER_CONF.items():
        session.conf.set(name, value)
    cluster = Cluster(options.bootstrap)
    topics = cluster.chosen_topics(options.topics, options.pattern)
    archive = Archive.write(options.path)
    try:
        _identify(cluster, archive, options, topics)
        if archive.contents.batch >= 0 and not archive.checkpoint.is_dir():
            raise PipelineError(f"{archive.checkpoint} is gone, so the next offsets are not known: archive to a new folder")
        job = _Run(session, options, cluster, archive)
        lost = _check_loss(job)
        before, began = _count(archive), time.monotonic()
        try:
            with Progress("archive", lambda: _standing(job, before), interval_s=5.0):
                _stream(job)
                if options.compact_after:
                    compact(session, archive, options.file_bytes)
        finally:
            archive.snapshot()
        return ArchiveResult(_count(archive) - before, len(archive.contents.files), time.monotonic() - began, lost)
    finally:
        archive.close()


def _stream(job: _Run) -> None:
    """Run the query to its end, and run it again each time that the cluster was away."""
    attempts, commit = 0, job.archive.contents.commit
    while True:
        query = _start(job)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
            raise
        except Exception as error:
            _check_loss(job)
            text = whole_text(error)
            away = AWAY.search(text) is not None or not job.cluster.is_there()
            attempts = 0 if job.archive.contents.commit > commit else attempts + 1
            if not away or attempts >= _ATTEMPTS:
                raise PipelineError(explain(error)) from error
            job.cluster.wait_until_there(job.options.retry_s)
            commit = job.archive.contents.commit
        else:
            return


def _start(job: _Run) -> StreamingQuery:
    options = job.options
    source = {
        "kafka.bootstrap.servers": options.bootstrap,
        "kafka.isolation.level": options.isolation,
        "kafka.default.api.timeout.ms": str(_POLL_MS),
        "kafka.request.timeout.ms": str(_POLL_MS * 2 // 3),
        "kafkaConsumer.pollTimeoutMs": str(_POLL_MS),
        "includeHeaders": "true",
        "startingOffsets": "earliest",
        "failOnDataLoss": "false" if options.is_loss_allowed else "true",
        "maxOffsetsPerTrigger": str(options.batch_records),
    }
    source["subscribe" if options.pattern is None else "subscribePattern"] = options.pattern or ",".join(options.topics)
    records = job.spark.readStream.format("kafka").options(**source).load()
    writer = (
        records.selectExpr("*", "cast(null as string) codec", "cast(timestamp as date) date")
        .select(*NAMES)
        .writeStream.option("checkpointLocation", str(job.archive.checkpoint))
        .foreachBatch(lambda batch, number: _add(job, batch, number))
    )
    if options.interval_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.interval_s} seconds").start()


def _add(job: _Run, batch: DataFrame, number: int) -> None:
    """Write a batch and commit it, unless the archive has it: Spark repeats a batch after a kill before its own commit."""
    archive, options = job.archive, job.options
    if number <= archive.contents.batch:
        return
    staging = archive.new_staging()
    batch.write.partitionBy("topic", "date").parquet(str(staging))
    written = sorted(staging.glob("topic=*/date=*/*.parquet"))
    if written:
        archive.commit(staging, examine(job.spark, written, staging), batch=number)
    if options.compact_after and len(small_files(archive, options.file_bytes)) >= options.compact_after:
        compact(job.spark, archive, options.file_bytes)


def _identify(cluster: Cluster, archive: Archive, options: ArchiveOptions, topics: dict[str, int]) -> None:
    ids = cluster.topic_ids(topics)
    now = Identity(cluster.id(), tuple(sorted(options.topics)), options.pattern, ids, topics, options.isolation)
    before = archive.identity()
    if before is not None:
        if (before.topics, before.pattern) != (now.topics, now.pattern):
            known_topics = before.pattern if before.pattern is not None else ", ".join(before.topics)
            raise PipelineError(f"{options.path} is an archive of {known_topics}: archive other topics to another folder")
        if before.cluster != now.cluster:
            raise PipelineError(
                f"{options.path} is an archive of cluster {before.cluster}, but {options.bootstrap} is cluster {now.cluster}"
            )
        if before.isolation is not now.isolation:
            raise PipelineError(f"{options.path} is an archive with isolation level {before.isolation}, not {now.isolation}")
        for topic, known in before.topic_ids.items():
            if topic in ids and ids[topic] != known:
                raise PipelineError(f"topic {topic} was deleted and created again since it was archived to {options.path}")
        now = replace(now, topic_ids=before.topic_ids | ids, partitions=before.partitions | topics)
    if now != before:
        archive.identify(now)


def _check_loss(job: _Run) -> int:
    """Return how many records were deleted before they could be archived. Raises PipelineError when that is not allowed."""
    following = next_offsets(job.archive.checkpoint)
    if not following or not job.cluster.is_there():
        return 0
    topics = {topic: 1 + max(partition for name, partition in following if name == topic) for topic, _ in following}
    existing = job.cluster.topics()
    extents = job.cluster.extents({topic: count for topic, count in topics.items() if existing.get(topic, 0) >= count})
    lost, message = loss(following, extents)
    if lost and not job.options.is_loss_allowed:
        raise PipelineError(f"{message}; --allow-loss continues without them")
    return lost


def loss(following: dict[tuple[str, int], int], extents: dict[tuple[str, int], Extent]) -> tuple[int, str]:
    """Compare the next offsets with the extents. Return how many offsets are gone, and that in words.

    Raises PipelineError if a log ends before its next offset.
    """
    lost, where = 0, []
    for (topic, partition), offset in sorted(following.items()):
        extent = extents.get((topic, partition))
        if extent is None:
            continue
        if extent.end < offset:
            raise PipelineError(
                f"{topic}-{partition} ends at offset {extent.end}, but was archived to {offset}: it is another log"
            )
        if extent.start > offset:
            lost += extent.start - offset
            where.append(f"{topic}-{partition} from {offset} to {extent.start - 1}")
    return lost, f"{lost} records were deleted before they were archived: {', '.join(where)}"


def left(following: dict[tuple[str, int], int], extents: dict[tuple[str, int], Extent]) -> int:
    """Return how many offsets are left to read. Offsets without a visible record (markers, gaps) that were read are not left."""
    return sum(max(0, extent.end - max(extent.start, following.get(key, 0))) for key, extent in extents.items())


def next_offsets(checkpoint: Path) -> dict[tuple[str, int], int]:
    """Return the offsets after the last finished batch in Spark's checkpoint; empty before the first. Raises PipelineError."""
    done = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
    if not done:
        return {}
    path = checkpoint / "offsets" / str(max(done))
    try:
        offsets = json.loads(path.read_text().splitlines()[-1])
        return {(topic, int(partition)): int(offset) for topic, found in offsets.items() for partition, offset in found.items()}
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise PipelineError(f"{path} is not the checkpoint of an archive") from error


def _count(archive: Archive) -> int:
    return sum(file.count for file in list(archive.contents.files.values()))


def _standing(job: _Run, before: int) -> Standing:
    files = list(job.archive.contents.files.values())
    following = next_offsets(job.archive.checkpoint)
    topics = job.cluster.chosen_topics(job.options.topics, job.options.pattern)
    lag = left(following, job.cluster.extents(topics, job.options.isolation))
    rows = sum(file.count for file in files) - before
    return Standing(rows, rows + lag, sum(file.size for file in files))
