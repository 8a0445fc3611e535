"""Generates load for benchmarks and tests: N records of given size, keys, skew, headers, codec and rate.

The same seed makes the same records: record i of N depends only on the seed and i. One task makes all records of a partition, in
the order of i. So the log of a new topic is the same, offset by offset, for any number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pybroker.client.partitioner import partition_of
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.explain import explained
from pybroker.spark.progress import Progress, Standing
from pybroker.spark.writer import CODECS, Target, TopicWriter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pybroker.model import Offset

CHUNK: Final = 16_384
SCHEMA: Final = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, timestamp timestamp"
)
_POOL_BYTES: Final = 1 << 20
_INDEX_DIGITS: Final = 16
_KEY, _VALUE, _HEADER = 1, 2, 3  # numbers of the streams of random numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """The records to generate, and where to write them."""

    bootstrap: str
    topic: str
    count: int
    size: int = 1000
    """Bytes of a value: 16 hexadecimal digits of the record's number, then text that is hard to compress."""
    partitions: int = 1
    """The number of partitions of the topic, if it has to be created."""
    keys: int = 0
    """How many different keys there are; 0 makes records without a key, spread evenly over the partitions."""
    skew: float = 0.0
    """The exponent of Zipf's law by which keys are chosen: 0 is even, 1 is like words in a text."""
    headers: int = 0
    tombstones: int = 0
    """Every Nth value is null; 0 means none."""
    codec: str = "none"
    rate: float = 0.0
    """Records per second; 0 is as fast as possible."""
    seed: int = 0
    start_ms: int | None = None
    """Time of the first record, in milliseconds since 1970; None gives each record the time at which it is written."""
    step_ms: float = 1.0
    """Milliseconds from a record to the next; only with start_ms."""

    def __post_init__(self) -> None:
        if self.count < 0 or self.size < 0 or self.keys < 0 or self.headers < 0 or self.tombstones < 0:
            raise PipelineError("count, size, keys, headers and tombstones cannot be negative")
        if self.codec not in CODECS:
            raise PipelineError(f"unknown codec {self.codec!r}: must be one of {', '.join(CODECS)}")


@dataclass(frozen=True, slots=True)
class GenerateResult:
    """The result of a run."""

    records: int
    size: int
    """Bytes of keys and values."""
    seconds: float
    per_partition: dict[int, int]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records, by column."""

    partition: list[int]
    key: list[bytes | None]
    value: list[bytes | None]
    headers: list[list[tuple[str, bytes]]]
    timestamp_ms: list[int] | None


def run(spark: SparkSession, options: GenerateOptions) -> GenerateResult:
    """Create the topic if it is missing, and write the records. Raises PipelineError."""
    cluster = Cluster(options.bootstrap)
    # Retention goes by the records' times: with generated old times, the broker would delete what was just written.
    cluster.create_topic(options.topic, options.partitions, {} if options.start_ms is None else {"retention.ms": "-1"})
    topics = cluster.chosen_topics([options.topic], None)
    partitions, before = topics[options.topic], cluster.extents(topics)
    bases = {partition: extent.end for (_, partition), extent in before.items()}

    def look() -> Standing:
        rows = sum(extent.end for extent in cluster.extents(topics).values()) - sum(bases.values())
        return Standing(rows, options.count, rows * options.size)

    began = time.monotonic()
    with explained(), Progress("generate", look):
        tasks = _tasks(spark, options, partitions)
        rows = tasks.mapInArrow(partial(_write, options, partitions, bases), "partition int, records long, size long").collect()
    counts = {row.partition: row.records for row in rows}
    return GenerateResult(sum(counts.values()), sum(row.size for row in rows), time.monotonic() - began, counts)


def records(spark: SparkSession, options: GenerateOptions, partitions: int) -> DataFrame:
    """Return the same records as a table with the columns of Spark's Kafka sink, for a caller that writes them itself."""
    return _tasks(spark, options, partitions).mapInArrow(partial(_rows, options, partitions), SCHEMA)


def chunks(options: GenerateOptions, *, partitions: int, only: int | None) -> Iterator[Chunk]:
    """Yield the records of partition `only`, or of all partitions if it is None, in order."""
    import numpy as np

    pool, choice = _pool(options.seed), _Keys(options, partitions) if options.keys else None
    for first in range(0, options.count, CHUNK * (partitions if only is not None and choice is None else 1)):
        if only is not None and choice is None:  # without keys, a partition has every Nth record, with N partitions
            last = min(options.count, first + CHUNK * partitions)
            index: Any = np.arange(first + (only - first) % partitions, last, partitions, dtype=np.uint64)
        else:
            index = np.arange(first, min(options.count, first + CHUNK), dtype=np.uint64)
        keys = choice.of(index) if choice else None
        placed = choice.partitions[keys] if choice is not None and keys is not None else index % np.uint64(partitions)
        if only is not None and keys is not None:
            is_chosen = placed == only
            index, keys, placed = index[is_chosen], keys[is_chosen], placed[is_chosen]
        if len(index):
            names = choice.names if choice else []
            yield _chunk(options, index, placed, [None] * len(index) if keys is None else [names[key] for key in keys], pool)


def _chunk(options: GenerateOptions, index: np.ndarray, placed: np.ndarray, keys: list[bytes | None], pool: bytes) -> Chunk:
    numbers = index.tolist()
    offsets = (
        (_random(options.seed, stream=_VALUE, index=index) % (len(pool) - options.size)).tolist()
        if options.size > _INDEX_DIGITS
        else []
    )
    prefix = b"%%0%dx" % min(_INDEX_DIGITS, options.size) if options.size else b""
    values: list[bytes | None]
    if offsets:
        rest = options.size - _INDEX_DIGITS
        values = [prefix % number + pool[at : at + rest] for number, at in zip(numbers, offsets, strict=True)]
    else:
        values = [(prefix % number)[-options.size :] if options.size else b"" for number in numbers]
    if options.tombstones:
        values = [None if (n + 1) % options.tombstones == 0 else value for n, value in zip(numbers, values, strict=True)]
    headers: list[list[tuple[str, bytes]]] = [[] for _ in numbers]
    for number in range(options.headers):
        for row_headers, random in zip(
            headers, _random(options.seed, stream=_HEADER + number, index=index).tolist(), strict=True
        ):
            row_headers.append((f"header-{number}", b"%016x" % random))
    start, step = options.start_ms, options.step_ms
    timestamps = None if start is None else [start + int(number * step) for number in numbers]
    return Chunk(placed.tolist(), keys, values, headers, timestamps)


class _Keys:
    """The key of each record, and the partition of each key, which is the one that Kafka's producers choose."""

    def __init__(self, options: GenerateOptions, partitions: int) -> None:
        import numpy as np

        self._seed = options.seed
        weights = 1.0 / np.arange(1, options.keys + 1, dtype=np.float64) ** options.skew
        self._bounds = np.cumsum(weights / weights.sum())
        self.names = [b"key-%d" % number for number in range(options.keys)]
        self.partitions = np.array([partition_of(name, partitions) for name in self.names], dtype=np.int64)

    def of(self, index: np.ndarray) -> np.ndarray:
        import numpy as np

        uniform = (_random(self._seed, stream=_KEY, index=index) >> np.uint64(11)) / float(1 << 53)
        return np.minimum(np.searchsorted(self._bounds, uniform, side="right"), len(self.names) - 1)


def _random(seed: int, *, stream: int, index: np.ndarray) -> np.ndarray:
    """Return 64 random bits for each index (the finalizer of splitmix64), the same in every task."""
    import numpy as np

    base = (seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF
    z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(base)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _pool(seed: int) -> bytes:
    """Make a long random text, over an alphabet of 64 characters, from which values are cut."""
    import numpy as np

    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .", dtype=np.uint8)
    return bytes(alphabet[_random(seed, stream=0, index=np.arange(_POOL_BYTES, dtype=np.uint64)) >> np.uint64(58)])


def _tasks(spark: SparkSession, options: GenerateOptions, partitions: int) -> DataFrame:
    """Return one row per task: the number of the partition that it makes.

    It is -1 for all partitions, in the order of i, if there is a rate, because only a single task can keep a rate.
    """
    if options.size >= _POOL_BYTES:
        raise PipelineError(f"a value can have at most {_POOL_BYTES - 1} bytes")
    if options.rate:
        return spark.range(-1, 0, 1, 1)
    return spark.range(0, partitions, 1, partitions)


def _partitions_of(batches: Iterable[pa.RecordBatch]) -> list[int | None]:
    return [None if number < 0 else number for batch in batches for number in batch.column(0).to_pylist()]


def _rows(options: GenerateOptions, partitions: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for only in _partitions_of(batches):
        for chunk in chunks(options, partitions=partitions, only=only):
            count = len(chunk.value)
            headers: list[Any] = [
                [{"key": key, "value": value} for key, value in row_headers] or None for row_headers in chunk.headers
            ]
            now = [int(time.time() * 1000)] * count
            columns = {
                "topic": pa.array([options.topic] * count, pa.string()),
                "partition": pa.array(chunk.partition, pa.int32()),
                "key": pa.array(chunk.key, pa.binary()),
                "value": pa.array(chunk.value, pa.binary()),
                "headers": pa.array(headers, header),
                "timestamp": pa.array([ms * 1000 for ms in chunk.timestamp_ms or now], pa.timestamp("us", tz="UTC")),
            }
            yield pa.RecordBatch.from_pydict(columns)


def _write(
    options: GenerateOptions, partitions: int, bases: dict[int, Offset], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    arrived: dict[int, int] = {}
    if context is not None and context.attemptNumber():  # do not write again what an earlier attempt has written
        extents = Cluster(options.bootstrap).extents({options.topic: partitions})
        arrived = {partition: extent.end - bases[partition] for (_, partition), extent in extents.items()}
    counts, sizes = dict.fromkeys(range(partitions), 0), dict.fromkeys(range(partitions), 0)
    wanted = _partitions_of(batches)
    for only in wanted:
        writer = TopicWriter(Target(options.bootstrap, options.topic, options.codec))
        began, sent = time.monotonic(), 0
        for chunk in chunks(options, partitions=partitions, only=only):
            stamps: Sequence[int | None] = chunk.timestamp_ms or [None] * len(chunk.value)
            rows = zip(chunk.partition, chunk.key, chunk.value, chunk.headers, stamps, strict=True)
            for partition, key, value, headers, stamp in rows:
                counts[partition] += 1
                sizes[partition] += len(key or b"") + len(value or b"")
                if counts[partition] > arrived.get(partition, 0):
                    writer.write(partition, key, value, headers, stamp)
                sent += 1
                if options.rate and (early := began + sent / options.rate - time.monotonic()) > 0.001:
                    time.sleep(early)
            writer.poll()
        writer.finish()
    written = [partition for partition in counts if None in wanted or partition in wanted]
    columns = {
        "partition": pa.array(written, pa.int32()),
        "records": pa.array([counts[partition] for partition in written], pa.int64()),
        "size": pa.array([sizes[partition] for partition in written], pa.int64()),
    }
    yield pa.RecordBatch.from_pydict(columns)
