"""Measures broker CPU per GB that Spark writes, by job and codec: the pipeline's `replay`, and Spark's own Kafka sink.

    python -m benchmarks.spark_writes [--jobs sink,replay] [--codecs none,gzip,snappy,lz4,zstd] [--records 200000] [--rounds 3]
    python -m benchmarks.spark_writes --jobs replay --codecs lz4 --records 50000 --rounds 1 --warm 3    # a short run
    python -m benchmarks.spark_writes --jobs sink --producer linger.ms=20 --producer batch.size=131072

The sink is `df.write.format("kafka")`: a Java producer with its defaults, but for the codec and `--producer`. The replay is
`pybroker spark replay`: librdkafka, with the job's settings. Both write the same lines of JSON, with keys, to both brokers,
evenly over the partitions of a fresh topic; one archive serves all replays. The brokers take turns, and the first of a round is
the second of the next. The broker has the first core; Spark, its Java and its Python workers have the others.

Java compiles what runs often. So each job and codec begins with `--warm` seconds of appends of a batch as the job sends them, on
either broker, and with a round that does not count. The figures are medians of the rounds, the ratio is that of the medians.
GB = 1e9 bytes of values before compression.

A client sends what is waiting when it can, so a broker that responds sooner may get smaller batches. So the table has the records
of a mean batch, too. Needs the `spark` extra.
"""

from __future__ import annotations

import statistics
import struct
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import TYPE_CHECKING

from benchmarks import load, peers
from benchmarks.spark_pipeline import BROKER, Step, pool, records, to_parquet, write, written
from pybroker.spark.cluster import Cluster
from pybroker.spark.replay import job as replay
from pybroker.spark.session import spark_session
from testing.clients.stock import create_topic
from testing.process import procstat
from testing.samples import T0_MS, Sample
from testing.wire import raw
from testing.wire.batches import sample_batch

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pyspark.sql import SparkSession

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_SIZE = struct.Struct(">qi")  # base offset, and the length of what follows
ARCHIVED = "archived"
WARM_RECORDS = {"sink": 26, "replay": 450}
"""Records of 1 kB in a batch that warms a broker up."""
WARM_DEPTH = 4


@dataclass(frozen=True, kw_only=True)
class Write(Step):
    """One job on one broker."""

    archive: Path
    """The folder that is replayed."""
    producer: Mapping[str, str] = field(default_factory=dict)
    """Settings of the sink's producer."""

    @property
    def archived(self) -> Path:
        """Where the archive is."""
        return self.archive


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of writing."""

    cpu_s_per_gb: float
    records_per_batch: float
    mb_per_s: float


def sink(step: Write) -> None:
    settings = {f"kafka.{name}": value for name, value in {"compression.type": step.codec, **step.producer}.items()}
    target = {"kafka.bootstrap.servers": step.broker.bootstrap, "topic": step.name}
    records(step).write.format("kafka").options(**settings, **target).save()


def back(step: Write) -> None:
    options = replay.ReplayOptions(path=step.archived, bootstrap=step.broker.bootstrap, to=step.name, codec=step.codec)
    replay.run(step.spark, options)


JOBS: dict[str, Callable[[Write], None]] = {"sink": sink, "replay": back}


def batches(broker: peers.Peer, topic: str) -> int:
    """Return the number of batches in a topic's segments."""
    data = broker.log.parent / "data"
    count = 0
    for file in (data if broker.name == peers.OURS else data / "logs").glob(f"{topic}-*/*.log"):
        content, at = file.read_bytes(), 0
        while at + BATCH_SIZE.size < len(content):
            at += BATCH_SIZE.size + BATCH_SIZE.unpack_from(content, at)[1]
            count += 1
    return count


def measured(job: str, step: Write) -> Cost:
    """Run a job into a new topic, check that everything has arrived, and delete the topic."""
    bootstrap = step.broker.bootstrap
    create_topic(bootstrap, step.name, step.partitions)
    cpu_s, began = procstat.cpu_s(step.broker.pid), time.monotonic()
    JOBS[job](step)
    seconds, cpu_s = time.monotonic() - began, procstat.cpu_s(step.broker.pid) - cpu_s
    if (count := written(step, step.name)) != step.count:
        raise RuntimeError(f"{job} on {step.broker.name} wrote {count} records of {step.count}")
    size = step.count * step.size
    cost = Cost(
        cpu_s_per_gb=cpu_s * 1e9 / size,
        records_per_batch=step.count / batches(step.broker, step.name),
        mb_per_s=size / 1e6 / seconds,
    )
    Cluster(bootstrap).delete_topic(step.name)
    figures = f"{cost.cpu_s_per_gb:.2f} CPU-s/GB, {cost.records_per_batch:.0f} records a batch, {cost.mb_per_s:.0f} MB/s"
    print(f"{step.broker.name}: {step.name}: {figures}", file=sys.stderr, flush=True)
    return cost


def warm(broker: peers.Peer, codec: str, count: int, seconds: float) -> None:
    """Append one batch over and over, to a topic that is then deleted."""
    topic, text = f"warm-{time.monotonic_ns()}", pool()
    create_topic(broker.bootstrap, topic)
    batch = sample_batch([Sample(b"key-0", text[at : at + 1000], T0_MS) for at in range(0, count * 500, 500)], codec)
    frame = raw.request(raw.PRODUCE, 7, raw.produce_body(7, topic, {0: batch}, acks=-1))
    load.run(broker, frame, connections=1, depth=WARM_DEPTH, seconds=0, warm_s=seconds)
    Cluster(broker.bootstrap).delete_topic(topic)


def rounds(
    job: str, codec: str, brokers: list[peers.Peer], step: Callable[[peers.Peer, str, str], Write], options: argparse.Namespace
) -> dict[str, Cost]:
    """Warm the brokers up. Return the medians of each broker's rounds."""
    found: dict[str, list[Cost]] = {broker.name: [] for broker in brokers}
    for broker in brokers:
        warm(broker, codec, WARM_RECORDS[job], options.warm)
    for number in range(1 + options.rounds):
        for broker in brokers if number % 2 == 0 else reversed(brokers):
            cost = measured(job, step(broker, codec, f"{job}-{codec}-{number}"))
            if number:
                found[broker.name].append(cost)
    return {
        name: Cost(**{unit.name: statistics.median(getattr(cost, unit.name) for cost in costs) for unit in fields(Cost)})
        for name, costs in found.items()
    }


def archived(spark: SparkSession, broker: peers.Peer, options: argparse.Namespace) -> Path:
    """Write the records to a topic, and archive it."""
    step = Step(
        spark=spark,
        broker=broker,
        name=ARCHIVED,
        count=options.records,
        size=options.size,
        partitions=options.partitions,
        codec="lz4",
    )
    create_topic(broker.bootstrap, ARCHIVED, options.partitions)
    write(step)
    to_parquet(step)
    return step.archived


def words(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--jobs", type=words, default=list(JOBS), help="of sink and replay, separated by commas (default: both)")
    parser.add_argument("--codecs", type=words, default=list(CODECS), help="separated by commas (default: all)")
    parser.add_argument("--records", type=int, default=200_000, help="records of a round (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value (default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of a topic (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default: %(default)s)")
    parser.add_argument("--warm", type=float, default=6, help="seconds that warm each broker up (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=1, help="Spark's threads (default: %(default)s)")
    parser.add_argument("--producer", action="append", default=[], help="NAME=VALUE, a setting of the sink's producer")
    options = peers.parsed(parser)
    if unknown := {*options.jobs} - {*JOBS} | {*options.codecs} - {*CODECS}:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    producer = dict(setting.split("=", 1) for setting in options.producer)
    rows = []
    with peers.started(options, BROKER) as brokers:
        peers.pin_client()  # Java and the workers inherit it
        conf = {"spark.driver.memory": "2g", "spark.local.dir": str(brokers[0].log.parent.parent / "spark")}
        spark = spark_session("benchmark", master=f"local[{options.cores}]", conf=conf)
        folder = archived(spark, brokers[0], options) if "replay" in options.jobs else brokers[0].log.parent

        def step(broker: peers.Peer, codec: str, name: str) -> Write:
            return Write(
                spark=spark,
                broker=broker,
                name=name,
                count=options.records,
                size=options.size,
                partitions=options.partitions,
                codec=codec,
                archive=folder,
                producer=producer,
            )

        for job in options.jobs:
            for codec in options.codecs:
                costs = [*rounds(job, codec, brokers, step, options).values()]
                ratio = [costs[0].cpu_s_per_gb / costs[1].cpu_s_per_gb] if len(costs) == 2 else []
                rows.append((job, codec, *(value for cost in costs for value in astuple(cost)), *ratio))
                peers.row(rows[-1])
        spark.stop()
    units = ("CPU-s/GB", "records a batch", "MB/s")
    columns = [f"{broker.name} {unit}" for broker in brokers for unit in units]
    title = f"{options.records:,} records of {options.size} bytes over {options.partitions} partitions"
    peers.table(title, ["job", "codec", *columns, *(["ratio of CPU"] if len(brokers) == 2 else [])], rows)


if __name__ == "__main__":
    main()
