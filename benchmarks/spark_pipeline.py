"""Measures the data pipeline on Spark over pybroker and over Apache Kafka: the same connector, the same jobs, the same records.

    python -m benchmarks.spark_pipeline [--counts 1000000] [--cores 2] [--rounds 2]
    python -m benchmarks.spark_pipeline --counts 100000,300000,1000000,3000000 --rounds 1    # how it grows
    python -m benchmarks.spark_pipeline --counts 1000000 --cores 1,2                         # with one core and with two

A round writes the records into a new topic with Spark's Kafka sink, reads them with Spark's connector, archives them to Parquet
(a stream), replays the archive to another topic, and reads the segment files with `spark.read.format("pybroker")`: each step on
one broker and then on the other; which broker is first changes from round to round. The benchmark checks that every step has
moved all records. The best of the rounds counts; a round with few records precedes them, because Java compiles what it runs.

Values are lines of JSON, of which lz4 leaves a third; expressions of Spark make them, because `pybroker spark generate` would
take longer than the sink that is measured. MB are of values. Brokers have the first core, as in all benchmarks here; Spark has
`--cores` threads, on whichever cores are free. Needs the `spark` extra.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import peers
from pybroker.spark.archive import job as archive
from pybroker.spark.cluster import Cluster
from pybroker.spark.datasource import register
from pybroker.spark.errors import PipelineError
from pybroker.spark.replay import job as replay
from pybroker.spark.session import spark_session
from testing.process import procstat

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

POOL_BYTES = 1 << 18
PARTS = ("shoes", "books", "garden", "music")
READY_S = 30
BROKER = {
    "log.retention.ms": "-1",
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",  # the disk is needed for the next round
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """Everything that one step of a round needs."""

    spark: SparkSession
    broker: peers.Peer
    name: str
    """The name of this round on this broker, which its topics and folders have."""
    count: int
    size: int
    partitions: int
    codec: str

    @property
    def archived(self) -> Path:
        """Where the archive is."""
        return self.broker.log.parent / f"archive-{self.name}"

    @property
    def replayed(self) -> str:
        """The topic that the archive is replayed to."""
        return f"{self.name}-replayed"


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The cost of a step."""

    seconds: float
    cpu_s: float
    """The broker's CPU."""


def write(step: Step) -> int:
    settings = {"kafka.bootstrap.servers": step.broker.bootstrap, "kafka.compression.type": step.codec, "topic": step.name}
    records(step).write.format("kafka").options(**settings).save()
    return written(step, step.name)


def connector(step: Step, *columns: str) -> int:
    options = {"kafka.bootstrap.servers": step.broker.bootstrap, "subscribe": step.name, "includeHeaders": "true"}
    frame = step.spark.read.format("kafka").options(**options).load()
    return rows_of(frame.select(*columns) if columns else frame)


def to_parquet(step: Step) -> int:
    options = archive.ArchiveOptions(bootstrap=step.broker.bootstrap, path=step.archived, topics=(step.name,))
    return archive.run(step.spark, options).records


def back(step: Step) -> int:
    options = replay.ReplayOptions(path=step.archived, bootstrap=step.broker.bootstrap, to=step.replayed, codec=step.codec)
    replay.run(step.spark, options)
    return written(step, step.replayed)


def segments(step: Step, schema: str | None = None) -> int:
    reader = step.spark.read.format("pybroker").option("topic", step.name).option("until", "logEnd")
    data = step.broker.log.parent / "data"
    frame = (reader if schema is None else reader.schema(schema)).load(
        str(data if step.broker.name == peers.OURS else data / "logs")
    )
    return rows_of(frame)


STEPS: dict[str, Callable[[Step], int]] = {
    "write: Spark's sink": write,
    "batch read: connector": connector,
    "the same, offset and timestamp": lambda step: connector(step, "offset", "timestamp"),
    "stream to Parquet: archive": to_parquet,
    "replay": back,
    "segments: all columns": segments,
    "segments: offset, timestamp": lambda step: segments(step, "offset bigint, timestamp timestamp"),
    "segments: offset": lambda step: segments(step, "offset bigint"),
}
"""In the order in which a round takes them."""


def records(step: Step) -> DataFrame:
    """Return what the sink writes: keys, and values that begin with the record's number, evenly over the partitions."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    start = F.pmod(F.col("id") * 7919 * 64, F.lit(POOL_BYTES - step.size)).cast("int") + 1
    number = F.lpad(F.hex("id"), 16, "0").cast("binary")
    value = F.concat(number, F.substring(F.lit(bytearray(pool())), start, F.lit(step.size - 16)))
    return step.spark.range(0, step.count, 1, step.partitions).select(
        F.concat(F.lit("key-"), F.col("id") % 1000).alias("key"),
        value.alias("value"),
        (F.col("id") % step.partitions).cast("int").alias("partition"),
    )


def pool() -> bytes:
    """Return events of a shop as lines of JSON, the same every time."""
    chance, lines, size = random.Random(7), [], 0
    while size < POOL_BYTES:
        hour, second = f"{chance.randrange(24):02}:{chance.randrange(60):02}", f"{chance.random() * 60:06.3f}"
        event = {
            "event": chance.choice(["view", "search", "basket", "order", "payment"]),
            "user": f"u{chance.randrange(1_000_000):07}",
            "session": f"{chance.randrange(1 << 64):016x}",
            "at": f"2026-11-{chance.randrange(1, 29):02}T{hour}:{second}Z",
            "url": f"/{chance.choice(PARTS)}/{chance.randrange(100_000)}",
            "price": round(chance.random() * 200, 2),
            "agent": chance.choice(["Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (iPhone)", "okhttp/4.12.0"]),
        }
        lines.append(json.dumps(event).encode() + b"\n")
        size += len(lines[-1])
    return b"".join(lines)[:POOL_BYTES]


def rows_of(frame: DataFrame) -> int:
    """Read everything, keep nothing, and count it on the way."""
    from pyspark.sql import Observation  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    seen = Observation()
    frame.observe(seen, F.count(F.lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def written(step: Step, topic: str) -> int:
    return sum(extent.end for extent in Cluster(step.broker.bootstrap).extents({topic: step.partitions}).values())


def prepare(step: Step) -> None:
    """Make the topics, and wait until they have leaders."""
    cluster = Cluster(step.broker.bootstrap)
    for topic in (step.name, step.replayed):
        cluster.create_topic(topic, step.partitions)
    end = time.monotonic() + READY_S
    while True:
        try:
            cluster.extents({step.name: step.partitions, step.replayed: step.partitions})
        except PipelineError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def take_round(steps: list[Step], only: str) -> dict[tuple[str, str], Taken]:
    """Take every step on every broker, one after the other, and remove what the steps leave behind."""
    taken = {}
    try:
        for step in steps:
            prepare(step)
        for name, run in STEPS.items():
            if only not in name and run not in (write, to_parquet):
                continue
            for step in steps:
                cpu_s, began = procstat.cpu_s(step.broker.pid), time.monotonic()
                moved = run(step)
                taken[name, step.broker.name] = Taken(
                    seconds=time.monotonic() - began, cpu_s=procstat.cpu_s(step.broker.pid) - cpu_s
                )
                report(name, step, moved, taken[name, step.broker.name])
                if moved != step.count:
                    raise RuntimeError(f"{name} on {step.broker.name} moved {moved} records of {step.count}")
    finally:
        for step in steps:
            cluster = Cluster(step.broker.bootstrap)
            for topic in {step.name, step.replayed} & set(cluster.topics()):
                cluster.delete_topic(topic)
            shutil.rmtree(step.archived, ignore_errors=True)
    return taken


def report(name: str, step: Step, moved: int, taken: Taken) -> None:
    """Print a line on stderr, so that a run that does not get to its end has printed something."""
    rate = moved / taken.seconds
    figures = f"{taken.seconds:.1f} s, {rate:,.0f} rows/s, {rate * step.size / 1e6:.1f} MB/s, broker CPU-s {taken.cpu_s:.2f}"
    print(f"{step.broker.name}: {name}: {moved:,} records, {figures}", file=sys.stderr, flush=True)


def best(rounds: Iterable[dict[tuple[str, str], Taken]]) -> dict[tuple[str, str], Taken]:
    found: dict[tuple[str, str], list[Taken]] = {}
    for one in rounds:
        for key, taken in one.items():
            found.setdefault(key, []).append(taken)
    return {
        key: Taken(seconds=min(one.seconds for one in taken), cpu_s=min(one.cpu_s for one in taken))
        for key, taken in found.items()
    }


def cells(values: Iterable[float]) -> str:
    """Return figures of one kind as text: ours / Kafka's."""
    return " / ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)


def show(title: str, found: dict[tuple[str, str], Taken], names: list[str], count: int, size: int) -> None:
    """Print the table of one number of records."""
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        taken = [found[name, broker] for broker in names]
        rate = [count / one.seconds for one in taken]
        row = [name, cells(one.seconds for one in taken), cells(rate), cells(one * size / 1e6 for one in rate)]
        row.append(cells(one.cpu_s for one in taken))
        if len(taken) > 1:
            row.append(f"{taken[0].seconds / taken[1].seconds:.2f}")
            row.append(f"{taken[0].cpu_s / taken[1].cpu_s:.2f}" if taken[1].cpu_s >= 0.1 else "")
        rows.append(row)
    header = ["step", "seconds", "rows/s", "MB/s", "broker CPU-s"]
    peers.table(title, header + (["seconds, ratio", "broker CPU-s, ratio"] if len(names) > 1 else []), rows)


def compare(title: str, found: dict[str, dict[tuple[str, str], Taken]], counts: dict[str, int], names: list[str]) -> None:
    """Print rows a second of several runs side by side: numbers of records, or of cores."""
    steps = dict.fromkeys(name for one in found.values() for name, _ in one)
    rows = [
        [name, *(cells(counts[run] / taken[name, broker].seconds for broker in names) for run, taken in found.items())]
        for name in steps
    ]
    peers.table(title, ["rows/s", *found], rows)


def measure(
    spark: SparkSession, brokers: list[peers.Peer], count: int, options: argparse.Namespace
) -> dict[tuple[str, str], Taken]:
    """Return the best of the rounds with `count` records."""
    rounds = []
    for number in range(options.rounds):
        steps = [
            Step(
                spark=spark,
                broker=broker,
                name=f"records-{time.monotonic_ns()}",
                count=count,
                size=options.size,
                partitions=options.partitions,
                codec=options.codec,
            )
            for broker in (brokers if number % 2 == 0 else reversed(brokers))
        ]
        rounds.append(take_round(steps, options.only))
    return best(rounds)


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument(
        "--counts", type=numbers, default=[1_000_000], help="numbers of records, separated by commas (default: 1000000)"
    )
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value (default: %(default)s)")
    parser.add_argument("--cores", type=numbers, default=[2], help="numbers of Spark's threads, separated by commas (default: 2)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, of which the best counts (default: %(default)s)")
    parser.add_argument(
        "--warm", type=int, default=20_000, help="records of the round that does not count (default: %(default)s)"
    )
    parser.add_argument("--codec", default="lz4", help="none, gzip, snappy, lz4, zstd")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of a topic (default: %(default)s)")
    parser.add_argument("--only", default="", help="take only the steps with this in their names; write and archive always run")
    options = peers.parsed(parser)
    names, found = peers.names(options), {}
    with peers.started(options, BROKER) as brokers:
        local = str(brokers[0].log.parent.parent / "spark")
        for cores in options.cores:
            conf = {"spark.driver.memory": "3g", "spark.local.dir": local}
            spark = spark_session("benchmark", master=f"local[{cores}]", conf=conf)
            register(spark)
            measure(spark, brokers, options.warm, argparse.Namespace(**{**vars(options), "rounds": 1}))
            for count in options.counts:
                found[cores, count] = measure(spark, brokers, count, options)
                title = f"{count:,} records of {options.size} bytes, {options.codec}, local[{cores}]: {' / '.join(names)}"
                show(title, found[cores, count], names, count, options.size)
            spark.stop()
    for cores in options.cores:
        runs = {f"{count:,}": found[cores, count] for count in options.counts}
        if len(runs) > 1:
            compare(f"Numbers of records, local[{cores}]", runs, {f"{count:,}": count for count in options.counts}, names)
    for count in options.counts:
        runs = {f"local[{cores}]": found[cores, count] for cores in options.cores}
        if len(runs) > 1:
            compare(f"Cores, {count:,} records", runs, dict.fromkeys(runs, count), names)


if __name__ == "__main__":
    main()
