"""`spark.read.format("pybroker")`: rows, columns, filters and errors as a user of Spark sees them, with a broker and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from pybroker.model import Offset, TopicPartition
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from testing.scenes.data_directories import START_MS, DataDirectory, lay_down

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

KAFKA = Path(__file__).resolve().parents[2] / "tests" / "spark" / "kafka-3.9.2"
DEFAULT_COLUMNS = ["topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    from pybroker.spark.datasource import register  # noqa: PLC0415 (not every run of the tests comes here)

    register(spark)
    return spark


def table(session: SparkSession, path: Path, schema: str | None = None, **options: str) -> DataFrame:
    reader = session.read.format("pybroker").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(str(path))


def text(value: Any) -> str | None:
    return None if value is None else bytes(value).decode("latin-1")


def test_what_kafka_wrote_is_read_as_its_consumers_read_it(session: SparkSession) -> None:
    expected = json.loads((KAFKA / "expected.json").read_text())
    for isolation, rows in expected.items():
        frame = table(session, KAFKA, isolation=isolation)
        assert frame.columns == DEFAULT_COLUMNS
        frame = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("topic", "partition", "offset")
        found = [
            [
                row.topic,
                row.partition,
                row.offset,
                row.ms,
                row.timestamp_type,
                text(row.key),
                text(row.value),
                [[one.key, text(one.value)] for one in row.headers],
            ]
            for row in frame.collect()
        ]
        assert found == rows


def test_a_schema_of_the_users_own_selects_every_column(session: SparkSession, tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    first = 2**31 - 2
    data.append(3, producer_id=7, producer_epoch=1, base_sequence=first, compression=CompressionType.ZSTD)
    data.append(2, timestamp=-1)
    data.checkpoint()
    schema = (
        "is_transactional boolean, sequence int, producer_epoch int, producer_id bigint, leader_epoch int, base_offset bigint, "
        "magic int, codec string, timestamp_ms bigint, value string, key string, offset bigint, topic string"
    )
    rows = [tuple(row) for row in table(session, tmp_path, schema).orderBy("offset").collect()]
    assert [row[:8] for row in rows] == [
        (False, first, 1, 7, 0, 0, 2, "zstd"),
        (False, first + 1, 1, 7, 0, 0, 2, "zstd"),
        (False, 0, 1, 7, 0, 0, 2, "zstd"),  # sequences start again at 0
        (False, None, None, None, 0, 3, 2, "none"),
        (False, None, None, None, 0, 3, 2, "none"),
    ]
    assert [row[8:] for row in rows[:1]] == [(START_MS, ("0." * 20)[:20], "events-0-0", 0, "events")]
    assert [row[8] for row in rows[3:]] == [-1, 0]
    times = table(session, tmp_path, columns="offset,timestamp").orderBy("offset").collect()
    assert [row.timestamp is None for row in times] == [False, False, False, True, False]  # -1 means no time


def test_messages_of_magic_0_and_1_are_rows(session: SparkSession, tmp_path: Path) -> None:
    records = [Record(Offset(i), START_MS + i, b"k", None if i == 1 else b"v%d" % i) for i in range(6)]
    parts = [
        build_message_set(records[:2], magic=0),
        build_message_set(records[2:4], magic=1, compression=CompressionType.GZIP),
        build_batch(records[4:]),
    ]
    lay_down(tmp_path, {0: b"".join(map(bytes, parts))}, high_watermark=6)
    frame = table(session, tmp_path, columns="offset,timestamp_ms,timestamp_type,magic,codec,base_offset,sequence,value,headers")
    rows = [(*row[:7], text(row.value), row.headers) for row in frame.orderBy("offset").collect()]
    assert rows == [
        (0, -1, -1, 0, "none", None, None, "v0", []),
        (1, -1, -1, 0, "none", None, None, None, []),
        (2, START_MS + 2, 0, 1, "gzip", None, None, "v2", []),
        (3, START_MS + 3, 0, 1, "gzip", None, None, "v3", []),
        (4, START_MS + 4, 0, 2, "none", 4, None, "v4", []),
        (5, START_MS + 5, 0, 2, "none", 4, None, "v5", []),
    ]


def test_filters_reach_the_segments(session: SparkSession, tmp_path: Path) -> None:
    """Segments that cannot match are damaged, which shows that they are not read."""
    data = DataDirectory(tmp_path, segment_bytes=1200, index_interval_bytes=100)
    for i in range(40):
        data.append(3, size=60, timestamp=START_MS + i * 60_000)
    data.append(5, tp=TopicPartition("other", 0))
    data.checkpoint()
    segments = list(data.log().segments)
    for segment in segments[:4]:
        path = Path(segment.path)
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    first, since = segments[4].base_offset, START_MS + 20 * 60_000
    for where, count in [
        (f"topic = 'events' AND offset >= {first}", 120 - first),
        ("topic IN ('other', 'third') AND partition < 1", 5),
        (f"topic = 'events' AND timestamp >= timestamp_millis({since})", 60),
        (f"timestamp > timestamp_millis({since}) AND offset != 70 AND topic LIKE 'ev%'", 58),
        ("offset < 0", 0),
    ]:
        assert table(session, tmp_path, pushFilters="true").where(where).count() == count, where
    by_options = table(session, tmp_path, columns="value", startingTimestamp=str(since), endingTimestamp=str(since + 60_001))
    assert by_options.where("value IS NOT NULL").count() == 4  # to the millisecond
    with pytest.raises(Exception, match=r"\d\.log is damaged at byte \d+: .*checksum"):
        table(session, tmp_path, pushFilters="true").count()


def test_a_frame_may_be_queried_again(session: SparkSession, tmp_path: Path) -> None:
    """If pushdown were on, Spark 4.2.0 would apply the filters of the first query to the later ones, too."""
    data = DataDirectory(tmp_path)
    data.append(100)
    data.checkpoint()
    frame = table(session, tmp_path)
    assert [frame.where("offset < 10").count(), frame.count(), frame.where("offset >= 95").count()] == [10, 100, 5]
    few, many = frame.where("offset < 10"), frame.where("offset >= 10")
    assert few.alias("a").crossJoin(many.alias("b")).count() == 900


def test_headers_alone_serve_queries_that_need_no_records(session: SparkSession, tmp_path: Path) -> None:
    data = DataDirectory(tmp_path)
    for i in range(10):
        data.append(5, compression=CompressionType(i % 5))
    data.checkpoint()
    path = Path(data.log().segments[0].path)
    path.write_bytes(path.read_bytes()[:-3] + b"???")
    frame = table(session, tmp_path, columns="offset,codec")
    assert frame.agg({"offset": "sum"}).collect()[0][0] == sum(range(50))
    assert {row.codec: row["count"] for row in frame.groupBy("codec").count().collect()} == dict.fromkeys(
        ("none", "gzip", "snappy", "lz4", "zstd"), 10
    )


def test_a_running_broker_is_read_up_to_its_high_watermark(
    session: SparkSession, own_broker: Callable[..., BrokerProcess]
) -> None:
    broker = own_broker(
        {"replica.high.watermark.checkpoint.interval.ms": "200", "log.segment.bytes": "20000", "log.retention.ms": "-1"}
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 5, "batch.size": 10_000})
    errors: list[object] = []
    for i in range(3000):
        producer.produce(
            "live",
            b"%d " % i * 10,
            b"k",
            timestamp=START_MS + i,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not errors
    producer.close()
    assert table(session, broker.data_dir, topic="live", until="logEnd").count() == 3000
    broker.stop()
    frame = table(session, broker.data_dir, topic="live")
    assert frame.rdd.getNumPartitions() > 1  # one for each segment
    found = [(row.offset, bytes(row.value)) for row in frame.orderBy("offset").collect()]
    assert found == [(i, b"%d " % i * 10) for i in range(3000)]


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"topic": "nope"}, None, "no topic nope in .*/data: the topics are events"),
        ({"topics": "events"}, None, "pybroker has no option topics"),
        ({"columns": "offset,colour"}, None, "there is no column colour; the columns are topic, partition, offset"),
        ({}, "offset int", "the column offset is of type bigint, not int"),
        ({"startingOffsets": '{"events": {"0": 99}}'}, None, "events-0 ends at offset 3, before the requested offset 99"),
        ({"partitions": "a"}, None, "partitions must be numbers separated by commas, not a"),
        ({"path": "/nowhere/at/all"}, None, "there is no data directory /nowhere/at/all"),
    ],
)
def test_errors_name_what_is_wrong(
    session: SparkSession, tmp_path: Path, options: dict[str, str], schema: str | None, message: str
) -> None:
    data = DataDirectory(tmp_path / "data")
    data.append(3)
    data.checkpoint()
    reader = session.read.format("pybroker").options(**{"path": str(data.path), **options})
    with pytest.raises(Exception, match=message) as raised:
        (reader if schema is None else reader.schema(schema)).load().collect()
    assert len(str(raised.value).strip().partition(" SQLSTATE")[0].splitlines()) == 1
