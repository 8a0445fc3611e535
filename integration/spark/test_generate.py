"""Generated load has the requested properties, and is the same for the same seed."""

from __future__ import annotations

import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from integration.spark.plans import interpreted_job
from pybroker.client.partitioner import murmur2
from pybroker.spark import generate
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.generate import GenerateOptions, chunks
from testing.clients.stock import unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

START_MS = 1_790_000_000_000


def options(bootstrap: str = "", **changes: object) -> GenerateOptions:
    defaults = {"topic": unique("generated"), "count": 3000, "size": 64, "partitions": 3, "start_ms": START_MS}
    return GenerateOptions(bootstrap=bootstrap, **(defaults | changes))  # type: ignore[arg-type]


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.option("includeHeaders", True).load()


def everything(made: GenerateOptions, only: int | None = None) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for chunk in chunks(made, partitions=3, only=only):
        rows += zip(chunk.partition, chunk.key, chunk.value, map(tuple, chunk.headers), chunk.timestamp_ms or [], strict=True)
    return rows


@pytest.mark.parametrize("changes", [{}, {"keys": 40, "skew": 1.2, "headers": 2, "tombstones": 7}], ids=["plain", "all"])
def test_the_log_is_the_same_for_the_same_seed_however_it_is_cut(changes: dict[str, Any]) -> None:
    made = options(count=40_000, seed=5, **changes)
    whole = everything(made)
    assert whole == everything(made)
    assert len(whole) == 40_000
    for partition in range(3):
        assert everything(made, partition) == [row for row in whole if row[0] == partition]
    assert everything(options(count=40_000, seed=6, **changes)) != whole


def test_sizes_keys_skew_headers_and_tombstones_are_as_requested() -> None:
    rows = everything(options(count=20_000, size=100, keys=100, skew=1.0, headers=2, tombstones=10))
    values = [value for _, _, value, _, _ in rows]
    assert values.count(None) == 2000
    assert {len(value) for value in values if isinstance(value, bytes)} == {100}
    keys = Counter(key for _, key, _, _, _ in rows)
    assert len(keys) == 100
    assert keys[b"key-0"] / 20_000 == pytest.approx(1 / sum(1 / n for n in range(1, 101)), rel=0.05)
    assert {len(headers) for *_, headers, _ in rows} == {2}  # type: ignore[arg-type]
    assert [stamp for *_, stamp in rows] == list(range(START_MS, START_MS + 20_000))


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17])
def test_small_values_have_their_size(size: int) -> None:
    assert {len(row[2]) for row in everything(options(count=1000, size=size))} == {size}  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "hashed"), [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107), (b"", 275646681)])
def test_keys_go_where_kafkas_producers_put_them(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


def test_what_is_written_is_what_is_made(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    made = options(spark_broker.bootstrap, keys=20, headers=1, tombstones=5, codec="zstd")
    result = generate.run(spark, made)
    assert result.records == 3000
    found: dict[int, list[tuple[object, ...]]] = {0: [], 1: [], 2: []}
    for row in read(spark, spark_broker.bootstrap, made.topic).orderBy("partition", "offset").collect():
        assert row.offset == len(found[row.partition])
        headers = tuple((header.key, bytes(header.value)) for header in row.headers)
        value = None if row.value is None else bytes(row.value)
        stamp = round(row.timestamp.timestamp() * 1000)
        found[row.partition].append((row.partition, bytes(row.key), value, headers, stamp))
    for partition in range(3):
        assert found[partition] == everything(made, partition)
    assert result.per_partition == {partition: len(rows) for partition, rows in found.items()}


def test_the_table_for_sparks_own_sink_has_the_same_records(spark: SparkSession) -> None:
    made = options(keys=20, headers=1)
    rows = generate.records(spark, made, 3).collect()
    expected = sorted(everything(made), key=lambda row: row[4])  # type: ignore[arg-type,return-value]
    found = sorted((row.partition, bytes(row.key), bytes(row.value), round(row.timestamp.timestamp() * 1000)) for row in rows)
    assert found == sorted((partition, key, value, stamp) for partition, key, value, _, stamp in expected)


def test_a_rate_is_kept(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    result = generate.run(spark, options(spark_broker.bootstrap, count=600, rate=300))
    assert result.records == 600
    assert result.seconds >= 1.9


def test_a_refusal_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="unknown codec 'brotli': must be one of none, gzip"):
        options(codec="brotli")
    with pytest.raises(PipelineError, match=r"cannot create topic .* at 127\.0\.0\.1:1: ") as caught:
        generate.run(spark, options("127.0.0.1:1"))
    assert "\n" not in str(caught.value)


def test_the_command_prints_what_it_wrote(spark_broker: BrokerProcess) -> None:
    topic = unique("generated")
    where = ["--bootstrap-server", spark_broker.bootstrap, "--master", "local[1]"]
    command = interpreted_job("generate", *where, "--topic", topic, "--count", "1000", "--size", "50", "--partitions", "2")
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.startswith("1,000 records, 0.1 MB in ")
    assert all(line.startswith("generate: ") for line in run.stderr.splitlines())  # progress, if the run takes long
    assert sum(extent.end for extent in Cluster(spark_broker.bootstrap).extents({topic: 2}).values()) == 1000
