"""Measures segment files as a table (`spark.read.format("pybroker")`) beside Spark's own Kafka connector, over the same records.

    python -m benchmarks.spark_datasource [--records 1000000] [--codec none] [--cores 2] [--rounds 2]

A million records of 1 kB are written to two partitions of a broker. Then Spark's `noop` sink runs each way of reading them to its
end; the first round only warms up. The connector reads through the broker, the data source reads the files that the broker has.

"no Spark" is the same reading in one process, as far as Arrow record batches: the rest is Spark's part. MB are of values.
Needs the `spark` extra.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import peers
from pybroker.spark.datasource import arrow, register
from pybroker.spark.datasource.options import parse
from pybroker.spark.datasource.plan import plan_batch
from pybroker.spark.datasource.reading import RangeReader
from pybroker.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "records"
PARTITIONS = 2
START_MS = 1_700_000_000_000
TIMEOUT_S = 600
WAYS = {  # what is read: the columns of the data source
    "all columns": None,
    "value": "value binary",
    "offset, timestamp": "offset bigint, timestamp timestamp",
    "offset": "offset bigint",
}


def fill(bootstrap: str, records: int, size: int, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, "batch.size": 1 << 18})
    # words of a few letters, which codecs take to about a third, as they do JSON
    words = [b"%x" % (i * 2654435761 % 65536) for i in range(4096)]
    values = [(b" ".join(words[(i * 7 + j) % 4096] for j in range(size // 4)))[:size] for i in range(256)]
    for i in range(records):
        while True:
            try:
                producer.produce(TOPIC, values[i % 256], b"key-%d" % (i % 1000), i % PARTITIONS, timestamp=START_MS + i)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("not everything was delivered")


def run_through(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def ways(spark: SparkSession, bootstrap: str, data: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    def table(schema: str | None) -> DataFrame:
        reader = spark.read.format("pybroker").option("topic", TOPIC).option("until", "logEnd")
        return (reader if schema is None else reader.schema(schema)).load(str(data))

    def run_whole(schema: str | None) -> None:
        run_through(table(schema))

    def connector(*columns: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "includeHeaders": "true", "minPartitions": "16"}
        frame = spark.read.format("kafka").options(**options).load()
        return frame.select(*columns) if columns else frame

    for name, schema in WAYS.items():
        yield f"data source: {name}", partial(run_whole, schema)
        yield f"no Spark: {name}", partial(read_alone, data, schema)
    yield "connector: all columns", lambda: run_through(connector())
    yield "connector: offset, timestamp", lambda: run_through(connector("offset", "timestamp"))


def read_alone(data: Path, schema: str | None) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    fields = StructType.fromDDL(schema or arrow.schema_text(None))
    options, arrow_schema = parse({"path": str(data), "topic": TOPIC, "until": "logEnd"}), to_arrow_schema(fields, timezone="UTC")
    wanted = arrow.check((field.name, None) for field in fields)
    for one in plan_batch(options):
        for rows in RangeReader(wanted, options).read(one):
            arrow.record_batch(rows, one.tp, arrow_schema)


def main() -> None:
    parser = peers.arguments(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="records to write and read (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a value (default: %(default)s)")
    parser.add_argument("--codec", default="none", help="none, gzip, snappy, lz4, zstd")
    parser.add_argument("--cores", type=int, default=2, help="Spark's threads (default: 2)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds after the first, of which the best counts (default: 2)")
    parser.add_argument("--only", default="", help="take only the ways with this in their names")
    parser.set_defaults(kafka=False)
    options = peers.parsed(parser)
    with peers.started(options, {"log.retention.ms": "-1"}) as (broker,):
        data = broker.log.parent / "data"
        fill(broker.bootstrap, options.records, options.size, options.codec)
        spark = spark_session("benchmark", master=f"local[{options.cores}]", conf={"spark.driver.memory": "3g"})
        register(spark)
        print(f"\n{options.records} records of {options.size} bytes, {options.codec}, {options.cores} cores\n")
        print("| reading | seconds | rows/s | MB/s |\n|---|---|---|---|")
        for name, run in ways(spark, broker.bootstrap, data):
            if options.only not in name:
                continue
            taken = []
            for _ in range(1 + options.rounds):
                began = time.monotonic()
                run()
                taken.append(time.monotonic() - began)
            best = min(taken[1:])
            rate = options.records / best
            print(f"| {name} | {best:.2f} | {rate:,.0f} | {rate * options.size / 1e6:.0f} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
