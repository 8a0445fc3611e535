"""The job `replay`: writes an archive back to topics. A new run continues after a kill where the target's log ends.

The records that have arrived in a partition are always the first ones, because the client is idempotent and stops at the first
record that it cannot write. So the end of the target's log, less its end when the replay began, is the number of records to skip.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.spark.archive.manifest import Archive
from pybroker.spark.cluster import NO_LOG, Cluster, client_settings
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained
from pybroker.spark.progress import Progress, Standing
from pybroker.spark.replay.rows import Piece, Row, Selection, rows
from pybroker.spark.writer import CODECS, Target, TopicWriter

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

EVERYTHING: Final = Selection()
_SETTLED_S: Final = 2.0
_SETTLE_TIMEOUT_S: Final = 60.0
_TAIL_TIMEOUT_S: Final = 10.0
_POLL_EVERY: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The archive to write back, and the topics for it."""

    path: Path
    """The folder of the archive."""
    bootstrap: str
    topics: tuple[str, ...] = ()
    """The topics of the archive to replay; empty means all."""
    to: str | None = None
    """The topic to write to, if only one topic is replayed; otherwise each topic keeps its name."""
    selection: Selection = EVERYTHING
    rate: float = 0.0
    """Records per second; 0 is as fast as possible."""
    codec: str = "none"
    is_again: bool = False
    """Write everything once more, even if the same replay began or ended before."""
    is_expiry_allowed: bool = False
    """Write even records that are older than the target keeps."""
    timeout_s: float = 120.0
    """How many seconds a record waits for a cluster that went away."""

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise PipelineError(f"unknown codec {self.codec!r}: must be one of {', '.join(CODECS)}")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay."""

    records: int
    there_before: int
    """Written by earlier runs of the same replay."""
    seconds: float


@dataclass(frozen=True, slots=True)
class _Part:
    """A partition to write: its files in the archive, and the end of the target's log when the replay began."""

    target: str
    partition: int
    base: int
    pieces: tuple[Piece, ...]


def run(spark: SparkSession, options: ReplayOptions) -> ReplayResult:
    """Write what has not arrived yet. Raises PipelineError; the next run continues."""
    archive = Archive.read(options.path)
    cluster = Cluster(options.bootstrap)
    targets = _targets(archive, options)
    counts = _prepare_topics(cluster, archive, options, targets)
    state = _State(archive, cluster, options, targets)
    bases, is_resumed = state.begin(cluster.extents(counts))
    if is_resumed:
        _settle(cluster, counts)
    parts = _parts(archive, options, targets, bases)
    before = {key: extent.end - bases[key] for key, extent in cluster.extents(counts).items()}
    total = None if options.selection != EVERYTHING else sum(file.count for file in _files(archive, options, targets))

    def look() -> Standing:
        arrived = sum(extent.end - bases[key] for key, extent in cluster.extents(counts).items())
        return Standing(arrived, total)

    began = time.monotonic()
    with explained(), Progress("replay", look, rows_before=sum(before.values())):
        groups = [parts] if options.rate else [[part] for part in parts]
        written = _write_all(spark, options, groups)
    after = {key: extent.end - bases[key] for key, extent in cluster.extents(counts).items()}
    for part in parts:
        got, wanted = after[part.target, part.partition], written[part.target, part.partition]
        if got != wanted:
            message = f"{part.target}-{part.partition} got {got} records since the replay began, not {wanted}"
            raise PipelineError(f"{message}: another producer wrote to it")
    state.end()
    there_before = sum(before[part.target, part.partition] for part in parts)
    return ReplayResult(sum(written.values()) - there_before, there_before, time.monotonic() - began)


def _targets(archive: Archive, options: ReplayOptions) -> dict[str, str]:
    """Return the topic to write to for each chosen topic of the archive."""
    archived = sorted({file.topic for file in archive.contents.files.values()})
    missing = [topic for topic in options.topics if topic not in archived]
    if missing:
        raise PipelineError(f"{options.path} has no records of topic {', '.join(missing)}")
    chosen = options.topics or tuple(archived)
    if not chosen:
        raise PipelineError(f"{options.path} has no records")
    if options.to is not None and len(chosen) > 1:
        raise PipelineError(f"{options.path} has {len(chosen)} topics: choose the one that goes to {options.to}")
    return {topic: options.to or topic for topic in chosen}


def _files(archive: Archive, options: ReplayOptions, targets: dict[str, str]) -> list[Any]:
    may_have = options.selection.may_have
    return [
        file
        for file in archive.contents.files.values()
        if file.topic in targets and may_have(file.first, last=file.last, first_ms=file.first_ms, last_ms=file.last_ms)
    ]


def _prepare_topics(cluster: Cluster, archive: Archive, options: ReplayOptions, targets: dict[str, str]) -> dict[str, int]:
    """Create missing topics, and check that the others can take the records. Return their numbers of partitions."""
    existing, identity = cluster.topics(), archive.identity()
    files = _files(archive, options, targets)
    for source, target in targets.items():
        source_files = [file for file in files if file.topic == source]
        wanted = 1 + max((file.partition for file in source_files), default=0)
        if target not in existing:
            known = {} if identity is None else identity.partitions
            # Retention goes by the records' times: the broker would delete old records right after they were written.
            cluster.create_topic(target, max(wanted, known.get(source, 0)), {"retention.ms": "-1"})
            continue
        if existing[target] < wanted:
            raise PipelineError(f"topic {target} has {existing[target]} partitions, but the archive of {source} has {wanted}")
        if identity is not None and cluster.topic_ids([target])[target] == identity.topic_ids.get(source):
            raise PipelineError(f"topic {target} is the topic that was archived: name another topic with --to")
        if cluster.topic_setting(target, "message.timestamp.type") != "CreateTime":
            raise PipelineError(f"topic {target} would not keep timestamps: its message.timestamp.type is not CreateTime")
        kept_ms, oldest_ms = (
            int(cluster.topic_setting(target, "retention.ms")),
            min((file.first_ms for file in source_files), default=None),
        )
        if kept_ms >= 0 and oldest_ms is not None and not options.is_expiry_allowed and oldest_ms < time.time() * 1000 - kept_ms:
            raise PipelineError(
                f"topic {target} deletes records after {kept_ms} ms, "
                "and some are older: change its retention.ms, or give --allow-expired"
            )
    now = cluster.topics()
    return {target: now[target] for target in targets.values()}


def _parts(archive: Archive, options: ReplayOptions, targets: dict[str, str], bases: dict[tuple[str, int], int]) -> list[_Part]:
    grouped: dict[tuple[str, int], list[Piece]] = {}
    for file in _files(archive, options, targets):
        grouped.setdefault((targets[file.topic], file.partition), []).append(Piece(str(archive.root / file.path), file.first))
    return [
        _Part(target, partition, bases[target, partition], tuple(pieces))
        for (target, partition), pieces in sorted(grouped.items())
    ]


class _State:
    """The ends of the targets' logs when the replay began, in a file beside the archive's manifest for each different replay."""

    def __init__(self, archive: Archive, cluster: Cluster, options: ReplayOptions, targets: dict[str, str]) -> None:
        ids = cluster.topic_ids(targets.values())
        self._replay = {"cluster": cluster.id(), "targets": targets, "topic_ids": ids, "selection": asdict(options.selection)}
        name = hashlib.sha256(json.dumps(self._replay, sort_keys=True).encode()).hexdigest()[:16]
        self._path = archive.hidden / "replays" / f"{name}.json"
        self._is_again = options.is_again
        self._bases: dict[tuple[str, int], int] = {}

    def begin(self, extents: dict[tuple[str, int], Any]) -> tuple[dict[tuple[str, int], int], bool]:
        """Return where each partition's log ended at the beginning, and whether an earlier run was cut short."""
        if self._path.exists() and not self._is_again:
            try:
                content = json.loads(self._path.read_text())
                self._bases = {(topic, partition): base for topic, partition, base in content["bases"]}
                is_resumed = bool(content["is_running"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise PipelineError(f"{self._path} is not the state of a replay") from error
        else:
            is_resumed = False
        for key, extent in extents.items():
            self._bases.setdefault(key, extent.end)
        self._write(is_running=True)
        return self._bases, is_resumed

    def end(self) -> None:
        """Write down that everything has arrived."""
        self._write(is_running=False)

    def _write(self, *, is_running: bool) -> None:
        content = {
            "replay": self._replay,
            "bases": [[topic, partition, base] for (topic, partition), base in self._bases.items()],
            "is_running": is_running,
        }
        try:
            self._path.parent.mkdir(exist_ok=True)
            fresh = self._path.with_suffix(".new")
            with fresh.open("w") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            raise PipelineError(f"{self._path.parent}: {error.strerror}") from error


def _settle(cluster: Cluster, counts: dict[str, int]) -> None:
    """Wait until no more records arrive, because a run that was killed may have left requests in flight."""
    deadline = time.monotonic() + _SETTLE_TIMEOUT_S
    before = cluster.extents(counts)
    while True:
        time.sleep(_SETTLED_S)
        now = cluster.extents(counts)
        if now == before:
            return
        if time.monotonic() > deadline:
            raise PipelineError(
                f"another producer is writing to {', '.join(counts)}: the replay cannot distinguish its own records"
            )
        before = now


def _write_all(spark: SparkSession, options: ReplayOptions, groups: list[list[_Part]]) -> dict[tuple[str, int], int]:
    """Run a task for each group. Return how many records of each partition have arrived, those of earlier runs included."""
    if not groups or not groups[0]:
        return {}
    tasks = spark.range(0, len(groups), 1, len(groups))
    found = tasks.mapInArrow(partial(_task, options, groups), "target string, partition int, records long").collect()
    return {(row.target, row.partition): row.records for row in found}


def _task(options: ReplayOptions, groups: list[list[_Part]], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark import TaskContext

    context, cluster = TaskContext.get(), Cluster(options.bootstrap)
    for number in [number for batch in batches for number in batch.column(0).to_pylist()]:
        parts = groups[number]
        counts: dict[str, int] = {}
        for part in parts:
            counts[part.target] = max(counts.get(part.target, 0), part.partition + 1)
        if context is not None and context.attemptNumber():
            _settle(cluster, counts)
        extents = cluster.extents(counts)
        arrived = [extents[part.target, part.partition].end - part.base for part in parts]
        records = _write_parts(options, parts, arrived)
        columns = {
            "target": pa.array([part.target for part in parts], pa.string()),
            "partition": pa.array([part.partition for part in parts], pa.int32()),
            "records": pa.array(records, pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _write_parts(options: ReplayOptions, parts: list[_Part], arrived: list[int]) -> list[int]:
    """Write what has not arrived of these partitions, merging several by time. Return how many records each has in all."""
    writers = {
        target: TopicWriter(Target(options.bootstrap, target, options.codec, options.timeout_s))
        for target in {p.target for p in parts}
    }
    counts = [0] * len(parts)
    began, sent = time.monotonic(), 0
    streams = [_numbered(number, rows(part.partition, part.pieces, options.selection)) for number, part in enumerate(parts)]
    merged = heapq.merge(*streams, key=lambda pair: pair[1].timestamp_ms) if len(streams) > 1 else streams[0]
    for number, row in merged:
        part, writer = parts[number], writers[parts[number].target]
        counts[number] += 1
        if counts[number] == arrived[number]:
            _check_tail(options.bootstrap, part, arrived[number], row)
        if counts[number] <= arrived[number]:
            continue
        try:
            writer.write(part.partition, row.key, row.value, row.headers, row.timestamp_ms)
        except PipelineError as error:
            raise PipelineError(f"{error} ({part.target}-{part.partition}, archived offset {row.offset})") from error
        sent += 1
        if sent % _POLL_EVERY == 0:
            writer.poll()
        if options.rate and (early := began + sent / options.rate - time.monotonic()) > 0.001:
            time.sleep(early)
    for writer in writers.values():
        writer.finish()
    return counts


def _numbered(number: int, stream: Iterator[Row]) -> Iterator[tuple[int, Row]]:
    for row in stream:
        yield number, row


def _check_tail(bootstrap: str, part: _Part, arrived: int, row: Row) -> None:
    """Check that the last record that has arrived is the one that this replay wrote there. Raises PipelineError."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        **client_settings(bootstrap),
        "group.id": "pybroker-replay",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings, logger=NO_LOG)
    try:
        consumer.assign([TopicPartition(part.target, part.partition, part.base + arrived - 1)])
        message = consumer.poll(_TAIL_TIMEOUT_S)
    finally:
        consumer.close()
    if message is None or message.error() is not None:
        return  # deleted already: there is nothing to compare with
    found = message.key(), message.value(), message.timestamp()[1]
    if found != (row.key, row.value, row.timestamp_ms):
        raise PipelineError(
            f"{part.target}-{part.partition} at offset {message.offset()} is not what this replay wrote: "
            "another producer writes to it; --again writes everything once more"
        )
