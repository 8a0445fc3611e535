"""The job `report`: counts what is in the topics of a cluster, each partition in a task, and writes a page and a summary."""

from __future__ import annotations

import json
import pickle
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained
from pybroker.spark.mirror.topics import chosen_topics
from pybroker.spark.progress import Progress, Standing
from pybroker.spark.report.keys import Found, summarized
from pybroker.spark.report.page import written
from pybroker.spark.report.plan import Wanted, extent
from pybroker.spark.report.reading import Part, look
from pybroker.spark.report.summary import PartitionReport, Report, TopicReport
from pybroker.spark.report.tally import Tally
from pybroker.spark.report.task_progress import ProgressAddress, ProgressListener, reporter
from pybroker.spark.wire.client import Connect, WireClient

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

PAGE: Final = "index.html"
SUMMARY: Final = "summary.json"
_COLUMNS: Final = "number long, found binary"
_KEYS_IN_ALL: Final = 2_000_000
_KEYS_LEAST: Final = 2_000
_KEYS_MOST: Final = 500_000
_KEY_BYTES_IN_ALL: Final = 256 << 20
_KEY_BYTES_LEAST: Final = 1 << 20
_FIRST_S: Final = 5.0
_LOCAL: Final = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The topics to report on, and the place for the page."""

    bootstrap: str
    path: Path
    """A folder, which gets `index.html`, or a file whose name ends in .html."""
    topics: tuple[str, ...] = ()
    """The topics; without these and `pattern`, all topics that are not internal."""
    pattern: str | None = None
    """A regular expression that whole names of topics match, instead of `topics`."""
    wanted: Wanted = field(default_factory=Wanted)
    has_summary: bool = False
    """Write a summary in JSON beside the page."""
    retry_s: float = 60.0
    """How many seconds to wait for a cluster that went away."""
    workers: int = 4
    """How many partitions to read at a time without Spark, each in a process."""
    connect: Connect | None = None
    """How to connect to a broker, as with TLS. Processes of this machine and tasks of Spark get it by pickle."""

    def __post_init__(self) -> None:
        if self.topics and self.pattern is not None:
            raise PipelineError("give topics or a pattern, not both")
        for name in ("last", "sample"):
            count = getattr(self.wanted, name)
            if count is not None and count < 1:
                raise PipelineError(f"{name} must be at least 1")


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The result of a report."""

    report: Report
    page: Path
    summary: Path | None
    seconds: float

    @property
    def records(self) -> int:
        """The records that were read."""
        return sum(topic.total.numbers.records for topic in self.report.topics)

    @property
    def size(self) -> int:
        """The bytes of the batches that were read."""
        return sum(topic.total.numbers.size for topic in self.report.topics)


def run(spark: SparkSession | None, options: ReportOptions) -> ReportResult:
    """Read the topics and write the page; without Spark, in processes of this machine. Raises PipelineError."""
    began = time.monotonic()
    page, summary = _files(options.path)
    # so that a wrong address is reported soon
    with WireClient(options.bootstrap, retry_s=min(_FIRST_S, options.retry_s), connect=options.connect) as client:
        cluster_id = client.cluster_id()
    now_ms = int(time.time() * 1000)
    parts = _parts(options, now_ms)
    found = _looked(spark, parts, options.workers)
    report = Report(options.bootstrap, cluster_id, now_ms, options.wanted.in_words(), _topics(parts, found))
    _write(page, written(report, _drawn))
    if options.has_summary:
        _write(summary, json.dumps(report.to_json()))
    return ReportResult(report, page, summary if options.has_summary else None, time.monotonic() - began)


def _parts(options: ReportOptions, now_ms: int) -> list[Part]:
    """Return all partitions of the chosen topics. Raises PipelineError."""
    pattern = options.pattern if options.topics or options.pattern is not None else ".*"
    with WireClient(options.bootstrap, retry_s=options.retry_s, connect=options.connect) as client:
        topics = chosen_topics(client, options.topics, pattern)
        if not topics:
            which = "" if options.pattern is None else f" that matches {options.pattern!r}"
            raise PipelineError(f"no topic at {options.bootstrap}{which}")
        count = sum(len(topic.leaders) for topic in topics.values())
        return [
            Part(
                bootstrap=options.bootstrap,
                topic=topic.name,
                topic_id=topic.topic_id,
                partition=number,
                extent=extent(client, topic.name, number, options.wanted),
                now_ms=now_ms,
                keys_max=min(_KEYS_MOST, max(_KEYS_LEAST, _KEYS_IN_ALL // count)),
                key_bytes_max=max(_KEY_BYTES_LEAST, _KEY_BYTES_IN_ALL // count),
                retry_s=options.retry_s,
                connect=options.connect,
            )
            for topic in topics.values()
            for number in range(len(topic.leaders))
        ]


def _looked(spark: SparkSession | None, parts: list[Part], workers: int) -> dict[int, tuple[Tally, Found]]:
    """Return what each part has, by its index. The largest parts run first; empty parts need no task."""
    sizes = [sum(end - first for first, end in part.extent.ranges) for part in parts]
    tasks = sorted((number for number, size in enumerate(sizes) if size), key=lambda number: -sizes[number])
    if not tasks:
        return {}
    host = _LOCAL if spark is None else spark.conf.get("spark.driver.host", _LOCAL) or _LOCAL
    with explained(), ProgressListener(host) as listener:
        work = partial(_spark_task, [(number, parts[number]) for number in tasks], listener.address)
        with Progress("report", lambda: Standing(listener.records, sum(sizes))):
            if spark is None:
                with ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn")) as pool:
                    return dict(pool.map(partial(_looked_at, listener.address), tasks, [parts[number] for number in tasks]))
            found = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, _COLUMNS).collect()
    return {row.number: pickle.loads(row.found) for row in found}  # noqa: S301 (a task of this job has made it)


def _looked_at(address: ProgressAddress | None, number: int, part: Part) -> tuple[int, tuple[Tally, Found]]:
    return number, look(part, reporter(address, number))


def _spark_task(
    tasks: list[tuple[int, Part]], address: ProgressAddress | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for place in [place for batch in batches for place in batch.column(0).to_pylist()]:
        number, part = tasks[place]
        found = pickle.dumps(look(part, reporter(address, number)))
        yield pa.RecordBatch.from_pydict({"number": pa.array([number], pa.int64()), "found": pa.array([found], pa.binary())})


def _topics(parts: list[Part], found: dict[int, tuple[Tally, Found]]) -> tuple[TopicReport, ...]:
    by_topic: dict[str, list[int]] = {}
    for number, part in enumerate(parts):
        by_topic.setdefault(part.topic, []).append(number)
    topics = []
    for topic, numbers in by_topic.items():
        read_numbers = [number for number in numbers if number in found]
        keys = summarized([found[number][1] for number in read_numbers])
        tallies = {number: found[number][0] if number in found else Tally() for number in numbers}
        partitions = tuple(PartitionReport(parts[number].partition, parts[number].extent, tallies[number]) for number in numbers)
        topics.append(TopicReport.of(topic, partitions, keys))
    return tuple(topics)


def _drawn(topic: TopicReport) -> list[tuple[bytes, str]]:
    from pybroker.spark.report import pictures

    over_time = pictures.rates(topic)
    pair = pictures.distributions(topic), "Each bar from a power of two to before the next"
    return [pair] if over_time is None else [over_time, pair]


def _files(path: Path) -> tuple[Path, Path]:
    """Return the paths of the page and the summary, and create their folder. Raises PipelineError."""
    is_file = path.suffix.lower() in {".html", ".htm"}
    page, summary = (path, path.with_suffix(".json")) if is_file else (path / PAGE, path / SUMMARY)
    if path.exists() and path.is_dir() == is_file:
        raise PipelineError(f"{path} is {'a' if is_file else 'not a'} directory")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(f"{page.parent}: {error.strerror}") from error
    return page, summary


def _write(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises PipelineError."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        fresh.write_text(text)
        fresh.replace(path)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)
