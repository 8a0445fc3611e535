"""The job `mirror`: copies topics to another cluster, batch by batch, once or continuously, every record exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from pybroker.model import Offset
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained
from pybroker.spark.interrupts import held_interrupt
from pybroker.spark.mirror.offset_map import read_arrived
from pybroker.spark.mirror.outgoing import Counts, Producer
from pybroker.spark.mirror.partition import Copied, Part, mirror_partition
from pybroker.spark.mirror.state import Identity, State
from pybroker.spark.mirror.topics import check_pair, chosen_topics, prepared, target_names
from pybroker.spark.progress import Progress, Standing
from pybroker.spark.wire.client import COMMITTED, EARLIEST, LATEST, Connect, WireClient

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_COLUMNS: Final = "verbatim long, rebuilt long, control long, aborted long, records long, size long, lost long"
_FIRST_S: Final = 5.0
Task = tuple[Part, Offset]
"""A partition, and the source offset up to which to copy it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """The topics to mirror, and the cluster for them."""

    name: str = field(default="mirror", kw_only=True)
    """The name of the work in its progress."""
    path: Path
    """The folder of offset maps, which belongs to this mirror for good; the driver and all workers must see it."""
    source: str
    target: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression that whole names of topics match, instead of `topics`."""
    prefix: str = ""
    """The prefix of all topic names in the target."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Names in the target, by names in the source, of topics that do not get the prefix."""
    copies_retention: bool = False
    """Whether a topic that has to be created gets the retention of the source's topic, not an unlimited one."""
    interval_s: float | None = None
    """Seconds between two looks for new records; None ends when all that was there at the start is mirrored."""
    is_loss_allowed: bool = False
    """Continue when records were deleted before they could be mirrored."""
    retry_s: float = 60.0
    """How many seconds to wait for a cluster that went away."""
    workers: int = 4
    """How many partitions to copy at a time without Spark."""
    connect_source: Connect | None = None
    """How to connect to a broker of the source, as with TLS; only without Spark, whose tasks cannot take it along."""
    connect_target: Connect | None = None

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise PipelineError("either topics or a pattern must be given")


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """The records that a run has copied."""

    counts: Counts
    seconds: float
    lost: int
    """Offsets that were deleted before they could be mirrored."""


def run(spark: SparkSession | None, options: MirrorOptions) -> MirrorResult:
    """Mirror what is new, each partition in a task; without Spark, in threads of this process.

    Raises PipelineError. The next run continues, as it does after anything else that ends this one.
    """
    for bootstrap, connect in ((options.source, options.connect_source), (options.target, options.connect_target)):
        with WireClient(bootstrap, retry_s=min(_FIRST_S, options.retry_s), connect=connect) as client:  # reports a wrong address
            client.cluster_id()
    state, began = State.write(options.path), time.monotonic()
    counts, lost = Counts(), 0
    try:
        with WireClient(options.source, retry_s=options.retry_s, connect=options.connect_source) as source:
            tasks = _tasks(options, state, source)
            parts = [part for part, _ in tasks]
            with Progress(options.name, _look(options, parts), rows_before=_rows(parts), interval_s=5.0):
                while True:
                    for copied in _in_threads(tasks, options.workers) if spark is None else _in_spark(spark, tasks):
                        counts.add(copied.counts)
                        lost += copied.lost
                    if options.interval_s is None:
                        return MirrorResult(counts, time.monotonic() - began, lost)
                    time.sleep(options.interval_s)
                    tasks = _tasks(options, state, source)
                    parts[:] = [part for part, _ in tasks]
                    tasks = [(part, end) for part, end in tasks if _has_news(part, end)]
    finally:
        state.close()


def _tasks(options: MirrorOptions, state: State, source: WireClient) -> list[Task]:
    """Prepare topics and state, and return a task for each partition of the chosen topics. Raises PipelineError."""
    with WireClient(options.target, retry_s=options.retry_s, connect=options.connect_target) as target:
        identity = _identity(options, state, source, target)
        topics = chosen_topics(source, options.topics, options.pattern)
        is_same = identity.source_cluster == identity.target_cluster
        if is_same and options.pattern is not None:  # a pattern must not match the mirror's own copies
            copies = {pair.target for pair in identity.topics.values()}
            topics = {
                name: one
                for name, one in topics.items()
                if name not in copies and not (options.prefix and name.startswith(options.prefix))
            }
        if not topics:
            raise PipelineError(f"no topic at {options.source} matches {options.pattern!r}")
        tasks = []
        for name, target_name in target_names(topics, options.prefix, options.renamed).items():
            topic = topics[name]
            if is_same and name == target_name:
                raise PipelineError(
                    f"source and target are the same cluster: topic {name} "
                    "needs another name in the target (--prefix or --rename)"
                )
            if name in identity.topics:
                check_pair(name, topic, identity.topics[name], target_name)
            pair, size_max = prepared(source, target, identity, topic, target_name, copies_retention=options.copies_retention)
            if name not in identity.topics:
                identity = replace(identity, topics=identity.topics | {name: pair})
                state.identify(identity)
            for number in range(len(topic.leaders)):
                part = Part(
                    source=options.source,
                    target=options.target,
                    topic=name,
                    topic_id=topic.topic_id,
                    target_topic=target_name,
                    target_topic_id=bytes.fromhex(pair.target_id),
                    partition=number,
                    map_path=str(state.map_path(name, number).absolute()),
                    producer=identity.producer,
                    size_max=size_max,
                    retry_s=options.retry_s,
                    is_loss_allowed=options.is_loss_allowed,
                    connect_source=options.connect_source,
                    connect_target=options.connect_target,
                )
                tasks.append((part, source.list_offset(name, number, timestamp=LATEST, isolation=COMMITTED)))
        return tasks


def _identity(options: MirrorOptions, state: State, source: WireClient, target: WireClient) -> Identity:
    before = state.identity()
    if before is None:
        # `_tasks` writes the identity when it knows the first topic
        return Identity(source.cluster_id(), target.cluster_id(), Producer(*target.init_producer_id()))
    for client, known, how in ((source, before.source_cluster, "mirrors from"), (target, before.target_cluster, "mirrors to")):
        if client.cluster_id() != known:
            raise PipelineError(f"{options.path} {how} cluster {known}, but {client.bootstrap} is cluster {client.cluster_id()}")
    return before


def _in_threads(tasks: list[Task], workers: int) -> list[Copied]:
    stop, ended = threading.Event(), SimpleQueue[Future[Copied] | None]()
    with held_interrupt(partial(ended.put, None)):
        pool = ThreadPoolExecutor(workers, thread_name_prefix="mirror")
        try:
            futures = [pool.submit(mirror_partition, part, end, stop) for part, end in tasks]
            for future in futures:
                future.add_done_callback(ended.put)
            for _ in futures:
                first = ended.get()
                if first is None:  # Ctrl-C
                    break
                first.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


def _in_spark(spark: SparkSession, tasks: list[Task]) -> list[Copied]:
    if not tasks:
        return []
    with explained():
        numbers = spark.range(0, len(tasks), 1, len(tasks))
        found = numbers.mapInArrow(partial(_spark_task, tasks), _COLUMNS).collect()
    return [Copied(Counts(*row[:-1]), row[-1]) for row in found]


def _spark_task(tasks: list[Task], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for number in [number for batch in batches for number in batch.column(0).to_pylist()]:
        copied = mirror_partition(*tasks[number])
        values = (*astuple(copied.counts), copied.lost)
        names = [column.split()[0] for column in _COLUMNS.split(", ")]
        yield pa.RecordBatch.from_pydict({name: pa.array([value], pa.int64()) for name, value in zip(names, values, strict=True)})


def _has_news(part: Part, end: int) -> bool:
    arrived = read_arrived(Path(part.map_path))
    return arrived is None or arrived.source < end


def _rows(parts: list[Part]) -> int:
    return sum(one.target for one in (read_arrived(Path(part.map_path)) for part in parts) if one is not None)


def _look(options: MirrorOptions, parts: list[Part]) -> Callable[[], Standing]:
    """Return a function that reports how far the mirror has come.

    It reads the offset maps, which all tasks write, and asks the source how far it reaches by now.
    """
    before = sum(one.size for one in (read_arrived(Path(part.map_path)) for part in parts) if one is not None)

    def look() -> Standing:
        with WireClient(options.source, retry_s=0, connect=options.connect_source) as source:
            rows = lag = size = 0
            for part in list(parts):
                end = source.list_offset(part.topic, part.partition, timestamp=LATEST, isolation=COMMITTED)
                arrived = read_arrived(Path(part.map_path))
                if arrived is None:
                    lag += end - source.list_offset(part.topic, part.partition, timestamp=EARLIEST)
                else:
                    rows, size, lag = rows + arrived.target, size + arrived.size, lag + end - arrived.source
            return Standing(rows, rows + max(0, lag), size - before)

    return look
