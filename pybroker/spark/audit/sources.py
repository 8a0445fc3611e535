"""The sources of a tier's records: the topics of a cluster, or an archive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.spark.archive.files import COLUMNS, ArchivedFile, read
from pybroker.spark.archive.manifest import Archive
from pybroker.spark.cluster import NO_LOG, Cluster, Extent, client_settings
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARCHIVE: Final = "archive:"
SAME_NAME: Final = "{topic}"
POLL_MS: Final = 30_000
_TASK_RECORDS: Final = 500_000
_FIRST_TIMEOUT_S: Final = 20.0
_NEEDED: Final = ("offset", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class Tier:
    """A stage that records pass: where the records are, and the names of their topics there."""

    name: str
    source: str
    """`HOST:PORT[,HOST:PORT]`, or `archive:FOLDER`."""
    rename: str = SAME_NAME
    """The name of a topic in this tier; `{topic}` stands for the name that its producers use."""

    def __post_init__(self) -> None:
        if not self.name or self.name == "producer" or not self.name.isprintable():
            raise PipelineError(f"a tier cannot have the name {self.name!r}: give a printable name other than 'producer'")

    @property
    def folder(self) -> Path | None:
        """The folder of the archive, if the tier is one."""
        return Path(self.source.removeprefix(ARCHIVE)) if self.source.startswith(ARCHIVE) else None

    def topic_there(self, topic: str) -> str:
        """Return the name of a topic in this tier."""
        return self.rename.replace(SAME_NAME, topic)


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a tier that is read: as much as was there when the audit began."""

    tier: Tier
    names: dict[str, str]
    """The names that producers use, by the names of the topics in the tier."""
    count: int
    """About how many records there are."""
    horizons: dict[str, int]
    """By topic (the producers' name), the time up to which records may have been deleted."""
    extents: dict[tuple[str, int], Extent]
    """The offsets of each partition. In an archive, every file that reaches into them is read whole."""
    files: tuple[ArchivedFile, ...] = ()
    isolation: Isolation = Isolation.READ_COMMITTED
    held_ms: int | None = None
    """The least time of the first records that open transactions hide, and all that follows them in their partitions."""


def survey(
    tier: Tier,
    topics: Iterable[str],
    now_ms: int,
    following: Mapping[tuple[str, int], int] | None = None,
    *,
    may_lack: bool = False,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> Piece:
    """Look up what a tier has. Raises PipelineError when the archive is missing, or a topic unless the tier `may_lack` some.

    `following` has the offsets up to which partitions were read before. Records that were deleted below them set no horizon.
    """
    names, read_to = {tier.topic_there(topic): topic for topic in topics}, following or {}
    if tier.folder is not None:
        return _survey_archive(tier, names, read_to, may_lack=may_lack)
    cluster = Cluster(tier.source)
    existing = cluster.topics() if may_lack else names
    counts = cluster.chosen_topics([name for name in names if name in existing], None)
    extents = cluster.extents(counts, isolation)
    horizons: dict[str, int] = {}
    for (topic, partition), extent in extents.items():
        if extent.start > read_to.get((topic, partition), 0):
            found = _first_ms(tier.source, topic, partition, extent, isolation)
            first = now_ms if found is None else found
            horizons[names[topic]] = max(first, horizons.get(names[topic], first))
    count = sum(extent.end - extent.start for extent in extents.values())
    held_ms = _held_ms(cluster, counts, extents) if isolation is Isolation.READ_COMMITTED else None
    return Piece(tier, names, count, horizons, extents, isolation=isolation, held_ms=held_ms)


def _held_ms(cluster: Cluster, counts: Mapping[str, int], extents: Mapping[tuple[str, int], Extent]) -> int | None:
    """Return the time of the first record behind the extents, which end where open transactions begin; None if there is none."""
    hidden = {key: Extent(extents[key].end, extent.end) for key, extent in cluster.extents(counts).items() if key in extents}
    times = [
        _first_ms(cluster.bootstrap, topic, partition, extent, Isolation.READ_UNCOMMITTED)
        for (topic, partition), extent in hidden.items()
    ]
    return min((time for time in times if time is not None), default=None)


def messages(spark: SparkSession, piece: Piece) -> DataFrame:
    """Return the values of a topic of counts, and nothing else of its messages."""
    return _kafka(spark, piece, None).select("value")


def records(spark: SparkSession, piece: Piece, from_ms: int | None = None) -> DataFrame:
    """Return the records: topic (the producers' name), partition, offset, timestamp and headers; never keys or values."""
    from pyspark.sql import functions as f

    if piece.tier.folder is not None:
        root = Archive.read(piece.tier.folder).root
        files = [root / file.path for file in piece.files if _is_wanted(file, piece.extents[file.topic, file.partition])]
        found = read(spark, files, root) if files else _empty(spark)
    else:
        found = _kafka(spark, piece, from_ms) if piece.extents else _empty(spark)
    names = f.create_map(*[f.lit(name) for pair in piece.names.items() for name in pair])
    return found.select(names[found.topic].alias("topic"), "partition", "offset", "timestamp", "headers")


def kafka_options(bootstrap: str, isolation: Isolation) -> dict[str, str]:
    """Return the options with which Spark's connector reads."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": isolation,
        "kafka.default.api.timeout.ms": str(POLL_MS),
        "kafka.request.timeout.ms": str(POLL_MS * 2 // 3),
        "kafka.fetch.max.wait.ms": "20",  # everything to read is there already, so waiting gains nothing
        "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
        "includeHeaders": "true",
    }


def per_partition(numbers: Iterable[tuple[tuple[str, int], int]]) -> str:
    """Return offsets, or times, in the form that the connector takes."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), number in numbers:
        by_topic.setdefault(topic, {})[str(partition)] = number
    return json.dumps(by_topic)


def _kafka(spark: SparkSession, piece: Piece, from_ms: int | None) -> DataFrame:
    partitions: dict[str, list[int]] = {}
    for topic, partition in piece.extents:
        partitions.setdefault(topic, []).append(partition)
    options = {
        **kafka_options(piece.tier.source, piece.isolation),
        "assign": json.dumps(partitions),
        "endingOffsets": per_partition((key, extent.end) for key, extent in piece.extents.items()),
        "minPartitions": str(max(spark.sparkContext.defaultParallelism, piece.count // _TASK_RECORDS)),
    }
    if from_ms is None:
        options["startingOffsets"] = per_partition((key, extent.start) for key, extent in piece.extents.items())
    else:
        options["startingOffsetsByTimestamp"] = per_partition((key, max(0, from_ms)) for key in piece.extents)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    return spark.read.format("kafka").options(**options).load()


def _is_wanted(file: ArchivedFile, extent: Extent) -> bool:
    return file.first < extent.end and file.last >= extent.start


def _survey_archive(tier: Tier, names: dict[str, str], read_to: Mapping[tuple[str, int], int], *, may_lack: bool) -> Piece:
    assert tier.folder is not None
    archive = Archive.read(tier.folder)
    files = [file for file in archive.contents.files.values() if file.topic in names]
    identity = archive.identity()
    existing = {file.topic for file in files} | (set() if identity is None else set(identity.partitions))
    missing = sorted(set(names) - existing)
    if missing and not may_lack:
        raise PipelineError(f"{tier.folder} has no records of topic {', '.join(missing)}")
    _check_files(archive.root, {file.path: file.count for file in files})
    firsts: dict[tuple[str, int], tuple[int, int]] = {}
    extents: dict[tuple[str, int], Extent] = {}
    for file in files:
        key, found = (file.topic, file.partition), (file.first, file.first_ms)
        firsts[key] = min(found, firsts.get(key, found))
        known = extents.get(key, Extent(file.first, file.last + 1))
        extents[key] = Extent(min(known.start, file.first), max(known.end, file.last + 1))
    horizons: dict[str, int] = {}
    for (topic, partition), (first, first_ms) in firsts.items():
        if first > 0 and (topic, partition) not in read_to:  # nothing that was archived is ever deleted
            horizons[names[topic]] = max(first_ms, horizons.get(names[topic], first_ms))
    return Piece(tier, names, sum(file.count for file in files), horizons, extents, tuple(files))


def _check_files(root: Path, counts: dict[str, int]) -> None:
    """Check, by the metadata at their ends, that the files are those that the manifest names. Raises PipelineError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path, count in counts.items():
        try:
            with pq.ParquetFile(root / path) as file:
                missing: Sequence[str] = [name for name in _NEEDED if name not in file.schema_arrow.names]
                rows = file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise PipelineError(f"{root / path} cannot be read: {str(error).splitlines()[0]}") from error
        if missing:
            raise PipelineError(f"{root / path} is not a file of an archive: it lacks {', '.join(missing)}")
        if rows != count:
            raise PipelineError(f"{root / path} has {rows} records, but {count} in the manifest")


def _empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], f"{COLUMNS}, topic string, date date")


def _first_ms(bootstrap: str, topic: str, partition: int, extent: Extent, isolation: Isolation) -> int | None:
    """Return the time of the first record of a partition's extent; None if all its offsets are markers, gaps or aborted records.

    Raises PipelineError.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    if extent.start >= extent.end:
        return None
    settings = {
        **client_settings(bootstrap),
        "group.id": "pybroker-audit",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
    }
    consumer = Consumer(settings, logger=NO_LOG)
    try:
        consumer.assign([TopicPartition(topic, partition, extent.start)])
        message = consumer.poll(_FIRST_TIMEOUT_S)
    finally:
        consumer.close()
    error = None if message is None else message.error()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        return None
    if message is None or error is not None:
        raise PipelineError(f"cannot read the first record of {topic}-{partition} at {bootstrap}")
    return int(message.timestamp()[1])
