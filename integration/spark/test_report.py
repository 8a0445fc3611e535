"""`report` counts what a plain reader counts, in logs of every kind and in a topic of a real broker."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition

from pybroker.model import CoordinatorEpoch, Offset
from pybroker.records.aborted import AbortedTransactions
from pybroker.records.batch import Record, TimestampType
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from pybroker.records.control import ControlType, TransactionMarker, build_transaction_marker
from pybroker.records.errors import CorruptRecordError
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.report.counting import Counting
from pybroker.spark.report.job import ReportOptions, run
from pybroker.spark.report.keys import KeyCounts, gini, summarized
from pybroker.spark.report.plan import Wanted
from pybroker.spark.report.tally import Histogram, Series
from pybroker.spark.report.task_progress import ProgressListener, reporter
from testing.clients.stock import unique
from testing.process.kafka_peer import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

NOW = 1_700_000_000_000
HOSTILE = b"<script>alert('$x$')</script>"


def records(first: int, count: int, seed: int = 0) -> list[Record]:
    """Make records with nulls, empty and long keys and values, headers, and times that jump, are missing or in the future."""
    chance = random.Random(first * 7919 + seed)
    made = []
    for offset in range(first, first + count):
        key = chance.choice([None, b"", b"a", b"b" * 300, b"\xff\x00", HOSTILE, b"key-%d" % chance.randrange(50)])
        value = chance.choice([None, b"", b"v" * chance.randrange(2000)])
        time = chance.choice(
            [NOW - 10_000 + offset * 10 + chance.randrange(-3000, 3000), NOW + 86_400_000 if not offset % 50 else NOW]
        )
        headers = tuple((f"h{n}", chance.choice([None, b"x" * n])) for n in range(chance.randrange(4)))
        made.append(Record(Offset(offset), time, key, value, headers))
    return made


@dataclass
class Expected:
    """The counts of records that are counted one by one."""

    rows: list[Record]

    def check(self, tally: Any, found: Any) -> None:
        rows, numbers = self.rows, tally.numbers
        keys = [row.key for row in rows if row.key is not None]
        values = [row.value for row in rows if row.value is not None]
        headers = [header for row in rows for header in row.headers]
        assert (numbers.records, numbers.with_key, numbers.null_keys) == (len(rows), len(keys), len(rows) - len(keys))
        assert (numbers.tombstones, numbers.key_size, numbers.value_size) == (
            len(rows) - len(values),
            sum(map(len, keys)),
            sum(map(len, values)),
        )
        assert (numbers.headers, numbers.with_headers) == (len(headers), sum(bool(row.headers) for row in rows))
        assert numbers.header_size == sum(len(name.encode()) + len(value or b"") for name, value in headers)
        assert tally.header_names == Counter(name.encode() for name, _ in headers)
        assert tally.key_sizes == histogram(map(len, keys))
        assert tally.value_sizes == histogram(map(len, values))
        self.check_times(tally)
        self.check_keys(keys, found)

    def check_times(self, tally: Any) -> None:
        latest, late, series, timed = -1, [], Series(step=tally.series.step), [row for row in self.rows if row.timestamp >= 0]
        for row in timed:
            latest = max(latest, row.timestamp)
            late.append(latest - row.timestamp)
            size = len(row.key or b"") + len(row.value or b"")
            size += sum(len(name.encode()) + len(value or b"") for name, value in row.headers)
            series.add(row.timestamp, 1, size)
        numbers, times = tally.numbers, [row.timestamp for row in timed]
        assert tally.lateness == histogram(late)
        assert tally.series == series
        assert (numbers.timeless, numbers.late) == (len(self.rows) - len(timed), sum(ms > 0 for ms in late))
        assert numbers.future == sum(time > NOW for time in times)
        expected = (times[0], times[-1], min(times), max(times)) if times else (None,) * 4
        assert (tally.first_ms, tally.last_ms, tally.least_ms, tally.greatest_ms) == expected

    def check_keys(self, keys: list[bytes], found: Any) -> None:
        summary, counted = summarized([found]), Counter(keys)
        assert (summary.is_exact, summary.error, summary.distinct) == (True, 0, len(counted))
        ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        assert list(summary.top) == ordered[:20]
        if keys:
            assert summary.top_share == sum(count for _, count in ordered[: ceil(len(ordered) / 100)]) / len(keys)
            assert summary.gini == gini(list(counted.values()))


def histogram(values: Any) -> Histogram:
    made = Histogram()
    for value in values:
        made.add(value)
    return made


def counted(log: bytes | bytearray, first: int, end: int) -> tuple[Any, Any]:
    counting = Counting(NOW, keys_max=1000, key_bytes_max=1 << 20)
    counting.add(memoryview(log), Offset(first), Offset(end))
    counting.looked(end - first, deleted=0)
    return counting.finish()


def transactional(rows: list[Record], producer_id: int) -> bytearray:
    written_by: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return build_batch(rows, **written_by, is_transactional=True)


def marker(kind: ControlType, producer_id: int, offset: int) -> bytearray:
    content, at = TransactionMarker(kind, CoordinatorEpoch(0)), Offset(offset)
    written_by: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0}
    return build_transaction_marker(content, timestamp_ms=NOW, offset=at, **written_by)


@pytest.mark.parametrize(("first", "end"), [(0, 500), (0, 7), (123, 456), (499, 500)])
def test_batches_in_every_codec_are_counted_as_one_by_one(first: int, end: int) -> None:
    rows, batches, at = records(0, 500), [], 0
    for number, count in enumerate((1, 99, 150, 50, 200)):
        mine = rows[at : at + count]
        batches.append((at, at + count, CompressionType(number), build_batch(mine, compression=CompressionType(number))))
        at += count
    tally, found = counted(b"".join(data for *_, data in batches), first, end)
    Expected([row for row in rows if first <= row.offset < end]).check(tally, found)
    seen = [batch for batch in batches if batch[0] < end and batch[1] > first]
    assert (tally.numbers.batches, tally.numbers.size) == (len(seen), sum(len(data) for *_, data in seen))
    assert tally.batch_sizes == histogram(len(data) for *_, data in seen)
    assert tally.batch_records == histogram(last - begin for begin, last, *_ in seen)
    assert dict(tally.magics) == {2: len(seen)}
    for begin, last, codec, data in seen:
        mine = tally.codecs[codec.name.lower()]
        assert (mine.batches, mine.records, mine.size) == (1, last - begin, len(data))
        assert mine.plain_size == len(build_batch(rows[begin:last]))
    assert tally.numbers.missing == 0


def test_gaps_transactions_and_producers_are_counted() -> None:
    rows = records(0, 60)
    left = [row for row in rows[:10] if row.offset in {2, 3, 7}]
    ours: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}

    log = b"".join(
        [
            build_batch(left, base_offset=Offset(0), last_offset=Offset(9)),
            build_batch([], base_offset=Offset(10), last_offset=Offset(14)),
            build_batch(rows[20:25], **ours),
            transactional(rows[25:30], 6),
            transactional(rows[30:33], 7),
            marker(ControlType.ABORT, 6, 33),
            marker(ControlType.COMMIT, 7, 34),
            transactional(rows[35:39], 6),
        ]
    )
    tally, found = counted(log, 0, 45)
    numbers = tally.numbers
    Expected([*left, *rows[20:33], *rows[35:39]]).check(tally, found)
    assert (numbers.batches, numbers.emptied, numbers.holed, numbers.control) == (6, 1, 1, 2)
    assert (numbers.commits, numbers.aborts) == (1, 1)
    assert (numbers.committed, numbers.aborted, numbers.undecided) == (3, 5, 4)
    assert (tally.idempotent, tally.transactional) == ({5}, {6, 7})
    assert numbers.missing == 45 - 20 - 2
    assert numbers.size + numbers.control_size == len(log)


def test_the_brokers_list_decides_where_the_markers_are_not_read() -> None:
    """The range begins within an aborted transaction, and ends before the markers of the last two."""
    rows = records(0, 60)
    log = b"".join(
        [
            transactional(rows[10:14], 6),
            marker(ControlType.ABORT, 6, 14),
            transactional(rows[15:20], 6),
            marker(ControlType.COMMIT, 6, 20),
            transactional(rows[21:27], 6),
            transactional(rows[27:30], 7),
        ]
    )
    counting = Counting(NOW, keys_max=1000, key_bytes_max=1 << 20)
    assert counting.add(memoryview(log), Offset(12), Offset(30), AbortedTransactions([(6, 21), (6, 0)])) == 30
    counting.looked(18, deleted=0)
    numbers = counting.finish()[0].numbers
    assert (numbers.committed, numbers.aborted, numbers.undecided) == (5 + 3, 2 + 6, 0)
    assert (numbers.commits, numbers.aborts, numbers.records, numbers.missing) == (1, 1, 16, 0)


def test_a_marker_of_another_stretch_decides_nothing() -> None:
    counting = Counting(NOW, keys_max=1000, key_bytes_max=1 << 20)
    rows = records(0, 10)
    counting.add(memoryview(transactional(rows[:3], 6)), Offset(0), Offset(3))
    counting.looked(3, deleted=0)
    counting.add(memoryview(marker(ControlType.ABORT, 6, 500)), Offset(500), Offset(501))
    counting.looked(1, deleted=0)
    numbers = counting.finish()[0].numbers
    assert (numbers.aborted, numbers.undecided, numbers.aborts) == (0, 3, 1)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_counted(magic: int, codec: CompressionType) -> None:
    rows = [row._replace(headers=(), timestamp=row.timestamp if magic else -1) for row in records(5, 40)]
    log = build_message_set(rows, magic=magic, compression=codec) + build_batch(records(45, 5))
    tally, found = counted(log, 10, 48)
    Expected([*rows[5:], *records(45, 5)[:3]]).check(tally, found)
    assert dict(tally.magics) == {magic: 1 if codec else 35, 2: 1}
    assert tally.codecs[codec.name.lower()].records == (40 if codec else 35 + 5)


def test_times_of_the_broker_are_those_of_the_batch() -> None:
    rows = records(0, 20)
    log = build_batch(rows, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW - 5)
    tally, found = counted(log, 0, 20)
    Expected([row._replace(timestamp=NOW - 5) for row in rows]).check(tally, found)


def test_logs_of_only_tombstones_or_without_times_are_counted() -> None:
    rows = [Record(Offset(offset), -1, b"%d" % offset, None) for offset in range(10)]
    tally, found = counted(build_batch(rows), 0, 10)
    Expected(rows).check(tally, found)


def test_a_damaged_batch_is_an_error() -> None:
    log = build_batch(records(0, 5))
    log[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        counted(log, 0, 5)


def test_too_many_keys_are_estimated_and_the_frequent_ones_kept() -> None:
    import pyarrow as pa  # noqa: PLC0415

    parts, true = [], Counter[bytes]()
    for number in range(2):
        counts = KeyCounts(2000, bytes_max=1 << 20)
        for chunk in range(10):
            rare = [b"%d-%d-%d" % (number, chunk, n) for n in range(10_000)]
            keys = [*rare, *[b"often"] * 500, *[b"less"] * 300]
            true.update(keys)
            counts.add(pa.array(keys, pa.binary()))
        parts.append(counts.found())
    summary = summarized(parts)
    assert not summary.is_exact
    assert summary.distinct == pytest.approx(len(true), rel=0.03)
    assert [key for key, _ in summary.top[:2]] == [b"often", b"less"]
    assert all(count <= true[key] <= count + summary.error for key, count in summary.top)
    assert (summary.gini, summary.top_share) == (None, None)


def test_histograms_and_series_of_arrays_are_those_of_single_numbers() -> None:
    import numpy as np  # noqa: PLC0415

    chance = random.Random(1)
    values = [chance.randrange(1 << chance.randrange(1, 53)) for _ in range(5000)] + [0, 511, 512, 1023, 1024]
    fast = Histogram()
    fast.add_array(np.array(values[:2000], np.int64))
    fast.add_array(np.array(values[2000:], np.int64))
    assert fast == histogram(values)


def test_the_driver_hears_how_far_tasks_are() -> None:
    with ProgressListener("localhost") as listener:
        assert listener.address is not None
        strangers = replace(listener.address, secret=b"x" * len(listener.address.secret))
        deadline = time.monotonic() + 30
        reporters = [reporter(listener.address, 1), reporter(strangers, 2), reporter(listener.address, 3), reporter(None, 4)]
        while listener.records < 12 and time.monotonic() < deadline:
            for one in reporters:
                one(5)
            time.sleep(0.01)
        assert listener.records >= 12
        assert not listener.records % 5
    with ProgressListener("nowhere.invalid") as deaf:
        assert (deaf.address, deaf.records) == (None, 0)


# --- With Spark and a broker ----------------------------------------------------------------------------------------------------


def fill(bootstrap: str, topic: str) -> None:
    """Fill three partitions, the last of them empty, from two producers with different codecs."""
    Cluster(bootstrap).create_topic(topic, 3)
    for codec, partition, count in (("lz4", 0, 700), ("none", 1, 300), ("zstd", 0, 200)):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": codec != "none"})
        for row in records(0, count, partition):
            producer.produce(
                topic,
                row.value,
                row.key,
                partition,
                timestamp=row.timestamp,
                headers=[(name, value) for name, value in row.headers],
            )
        assert producer.flush(30) == 0


def consumed(bootstrap: str, topic: str, partition: int, end: int) -> list[Record]:
    """Read the topic with a stock client."""
    rows: list[Record] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    while len(rows) < end:
        found = consumer.consume(end - len(rows), timeout=30)
        assert found, "nothing came for half a minute"
        for one in found:
            assert not one.error()
            kind, time = one.timestamp()
            headers = tuple((name, value) for name, value in one.headers() or ())
            time = -1 if kind == TIMESTAMP_NOT_AVAILABLE else time
            rows.append(Record(one.offset(), time, one.key(), one.value(), headers))
    consumer.close()
    return rows


def test_a_report_has_what_a_plain_consumer_reads(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, bootstrap = unique("report"), spark_broker.bootstrap
    fill(bootstrap, topic)
    options = ReportOptions(bootstrap=bootstrap, path=tmp_path / "r", topics=(topic,), has_summary=True)
    result = run(spark, options)
    rows = [consumed(bootstrap, topic, partition, count) for partition, count in enumerate((900, 300, 0))]
    [found] = result.report.topics
    assert (result.records, found.is_whole, found.skew) == (1200, True, 2.25)
    for partition, mine in zip(found.partitions, rows, strict=True):
        now, numbers = result.report.now_ms, partition.tally.numbers
        assert [numbers.records, numbers.future] == [len(mine), sum(row.timestamp > now for row in mine)]
        numbers.future = sum(row.timestamp > NOW for row in mine)
        assert numbers.value_size == sum(len(row.value or b"") for row in mine)
        Expected(mine).check_times(partition.tally)
    counts = Counter(row.key for mine in rows for row in mine if row.key is not None)
    assert dict(found.keys.top).items() <= counts.items()
    assert found.keys.distinct == len(counts)
    assert (set(found.total.codecs), len(found.total.idempotent)) == ({"lz4", "none", "zstd"}, 2)
    assert sum(codec.records for codec in found.total.codecs.values()) == 1200
    page, content = result.page.read_text(), json.loads((tmp_path / "r" / "summary.json").read_text())
    run(None, replace(options, path=tmp_path / "local", workers=2))
    local = json.loads((tmp_path / "local" / "summary.json").read_text())
    assert local["topics"] == content["topics"], "processes count what Spark's tasks count"
    assert page.count("data:image/png;base64,") == 2
    assert "<script" not in page
    assert content["topics"][0]["records"] == 1200
    assert content["topics"][0]["codecs"]["zstd"]["ratio"] > 1


def test_a_part_of_a_topic_and_topics_without_records(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, bootstrap = unique("report"), spark_broker.bootstrap
    fill(bootstrap, topic)
    Cluster(bootstrap).create_topic(f"{topic}.empty", 2)
    path = tmp_path / "one.html"
    wanted = Wanted(from_offset=Offset(100), last=150, sample=50)
    result = run(spark, ReportOptions(bootstrap=bootstrap, path=path, pattern=f"{topic}.*", wanted=wanted))
    assert [one.name for one in result.report.topics] == [topic, f"{topic}.empty"]
    assert (result.records, result.summary, [one.name for one in tmp_path.iterdir()]) == (100, None, ["one.html"])
    ranges = [one.extent.ranges for one in result.report.topics[0].partitions]
    assert (ranges[0][0][0], ranges[1][0][0], ranges[2]) == (750, 150, ())
    assert "Looked at 100 of 1,200 offsets." in path.read_text()
    nothing = run(spark, ReportOptions(bootstrap=bootstrap, path=path, topics=(f"{topic}.empty",)))
    assert nothing.records == 0
    assert "No records." in path.read_text()


def test_missing_topics_and_brokers_are_reported(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    bootstrap, path = spark_broker.bootstrap, tmp_path / "r"
    with pytest.raises(PipelineError, match=f"^no topic missing at {bootstrap}$"):
        run(spark, ReportOptions(bootstrap=bootstrap, path=path, topics=("missing",)))
    with pytest.raises(PipelineError, match=f"^no topic at {bootstrap} that matches 'missing'$"):
        run(spark, ReportOptions(bootstrap=bootstrap, path=path, pattern="missing"))
    away = f"127.0.0.1:{free_port()}"
    with pytest.raises(PipelineError, match=f"^no broker at {away}: Connection refused, for 0.5 s"):
        run(spark, ReportOptions(bootstrap=away, path=path, retry_s=0.5))
    assert not any(path.iterdir())
