"""The replay writes an archive back to topics as they were, once, whatever process is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.plans import interpreted_job
from pybroker.model import Offset
from pybroker.spark import generate
from pybroker.spark.archive.job import ArchiveOptions
from pybroker.spark.archive.job import run as archive
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.generate import GenerateOptions
from pybroker.spark.replay.job import ReplayOptions, run
from pybroker.spark.replay.rows import Piece, Selection, rows
from testing.clients.stock import create_topic, unique
from testing.waiting import LONG_WAIT_S, joined, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

START_MS = 1_790_000_000_000
SPECIAL: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
    (None, b"no key", [], START_MS + 5),
    (b"", b"", [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2")], START_MS + 3),
    (b"no value", None, [], 1),
    (b"\xff\x00", b"\x00\xfe", [("binary", b"\xff")], START_MS - 86_400_000),
]


@pytest.fixture(scope="module")
def archived(spark: SparkSession, spark_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Make a topic with 3 partitions, several days, keys, headers and nulls, and its archive."""
    from confluent_kafka import Producer  # noqa: PLC0415

    topic, path = unique("source"), tmp_path_factory.mktemp("archived") / "archive"
    made = {"size": 60, "partitions": 3, "keys": 30, "headers": 2, "tombstones": 9, "step_ms": 40_000}
    generate.run(spark, GenerateOptions(bootstrap=spark_broker.bootstrap, topic=topic, count=6000, start_ms=START_MS, **made))  # type: ignore[arg-type]
    producer = Producer({"bootstrap.servers": spark_broker.bootstrap})
    for key, value, headers, stamp in SPECIAL:
        producer.produce(topic, value, key, 1, timestamp=stamp, headers=headers or None)
        producer.flush(30)
    archive(
        spark, ArchiveOptions(bootstrap=spark_broker.bootstrap, path=path, topics=(topic,), batch_records=2500, compact_after=4)
    )
    return topic, path


def log_of(bootstrap: str, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """Read all records as a stock client sees them, by partition, in order."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    ends = {partition: extent for (_, partition), extent in Cluster(bootstrap).extents({topic: 3}).items()}
    found: dict[int, list[tuple[object, ...]]] = {partition: [] for partition in ends}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
    deadline = time.monotonic() + 60
    while sum(map(len, found.values())) < sum(extent.end - extent.start for extent in ends.values()):
        for message in consumer.consume(1000, 1):
            assert message.error() is None
            headers = tuple(message.headers() or ())
            found[message.partition()].append((message.key(), message.value(), headers, message.timestamp()))
        assert time.monotonic() < deadline
    consumer.close()
    return found


def test_a_replay_is_the_same_log_and_is_written_once(
    spark: SparkSession, spark_broker: BrokerProcess, archived: tuple[str, Path]
) -> None:
    topic, path = archived
    copy = unique("copy")
    options = ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=copy, codec="lz4")
    result = run(spark, options)
    assert (result.records, result.there_before) == (6004, 0)
    log = log_of(spark_broker.bootstrap, topic)
    assert log_of(spark_broker.bootstrap, copy) == log
    assert Cluster(spark_broker.bootstrap).topics()[copy] == 3
    special = [(key, value, tuple(headers), (1, stamp)) for key, value, headers, stamp in SPECIAL]
    assert log[1][-4:] == special
    again = run(spark, options)
    assert (again.records, again.there_before) == (0, 6004)
    once_more = ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=copy, is_again=True)
    assert run(spark, once_more).records == 6004
    assert log_of(spark_broker.bootstrap, copy) == {partition: rows + rows for partition, rows in log.items()}


def test_a_range_of_offsets_or_times_is_chosen(
    spark: SparkSession, spark_broker: BrokerProcess, archived: tuple[str, Path]
) -> None:
    topic, path = archived
    log = log_of(spark_broker.bootstrap, topic)
    by_offset, by_time = unique("offsets"), unique("times")
    chosen = Selection(from_offset=Offset(10), to_offset=Offset(25))
    run(spark, ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=by_offset, selection=chosen))
    assert log_of(spark_broker.bootstrap, by_offset) == {partition: rows[10:25] for partition, rows in log.items()}
    chosen = Selection(from_ms=START_MS + 40_000_000, to_ms=START_MS + 80_000_000)
    result = run(spark, ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=by_time, selection=chosen, rate=2000))
    assert result.records == 1000
    assert result.seconds >= 0.45
    expected = {
        partition: [row for row in rows if START_MS + 40_000_000 <= row[3][1] < START_MS + 80_000_000]  # type: ignore[index]
        for partition, rows in log.items()
    }
    assert log_of(spark_broker.bootstrap, by_time) == expected


def test_kills_and_ctrl_c_lose_and_double_nothing(
    spark: SparkSession, spark_broker: BrokerProcess, archived: tuple[str, Path]
) -> None:
    topic, path = archived
    copy = unique("killed")
    where = ["--bootstrap-server", spark_broker.bootstrap, "--master", "local[2]", "--to", copy]
    command = interpreted_job("replay", str(path), *where)
    cluster, kills = Cluster(spark_broker.bootstrap), 0

    def arrived() -> int:
        there = cluster.topics().get(copy, 0)
        return sum(extent.end for extent in cluster.extents({copy: there}).values())

    def has_gone_on(process: subprocess.Popen[bytes], before: int) -> bool:
        return process.poll() is not None or arrived() > before

    for rate, number in (("800", signal.SIGKILL), ("600", signal.SIGINT)):
        before = arrived()
        process = subprocess.Popen([*command, "--rate", rate], stderr=subprocess.PIPE, process_group=0)
        try:
            until(partial(has_gone_on, process, before), "replayed records", LONG_WAIT_S)
            kills += process.poll() is None
            os.killpg(process.pid, number)
            process.communicate(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert kills == 2
    result = run(spark, ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=copy))
    assert result.there_before > 0
    assert log_of(spark_broker.bootstrap, copy) == log_of(spark_broker.bootstrap, topic)


def test_a_refusal_is_one_line(
    spark: SparkSession, spark_broker: BrokerProcess, archived: tuple[str, Path], tmp_path: Path
) -> None:
    topic, path = archived
    bootstrap = spark_broker.bootstrap

    def refusal(**changes: object) -> str:
        options = {"path": path, "bootstrap": bootstrap} | changes
        with pytest.raises(PipelineError) as caught:
            run(spark, ReplayOptions(**options))  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        return str(caught.value)

    small, append_time, short = unique("small"), unique("append"), unique("short")
    create_topic(bootstrap, small, 1, {"retention.ms": "-1"})
    create_topic(bootstrap, append_time, 3, {"message.timestamp.type": "LogAppendTime"})
    create_topic(bootstrap, short, 3, {"retention.ms": "3600000"})
    assert refusal() == f"topic {topic} is the topic that was archived: name another topic with --to"
    assert "has no records of topic nowhere" in refusal(topics=("nowhere",))
    assert refusal(to=small) == f"topic {small} has 1 partitions, but the archive of {topic} has 3"
    assert "its message.timestamp.type is not CreateTime" in refusal(to=append_time)
    assert "deletes records after 3600000 ms, and some are older" in refusal(to=short)
    assert "is not an archive" in refusal(path=tmp_path)
    assert "no such directory" in refusal(path=tmp_path / "nowhere")


def test_another_writer_is_noticed(spark: SparkSession, spark_broker: BrokerProcess, archived: tuple[str, Path]) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415

    _, path = archived
    copy = unique("shared")
    part = Selection(to_offset=Offset(20))
    options = ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=copy, selection=part)
    run(spark, options)
    producer = Producer({"bootstrap.servers": spark_broker.bootstrap})
    producer.produce(copy, b"mine", partition=0)
    producer.flush(30)
    with pytest.raises(
        PipelineError, match=f"{copy}-0 got 21 records since the replay began, not 20: another producer wrote to it"
    ):
        run(spark, options)


def test_files_that_overlap_or_are_unsorted_come_in_the_order_of_offsets(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

    def piece(name: str, offsets: list[int], partition: int = 0) -> Piece:
        columns = {
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([offset * 1000 for offset in offsets], pa.timestamp("us", tz="UTC")),
            "key": pa.array([b"%d" % offset for offset in offsets], pa.binary()),
            "value": pa.array([None] * len(offsets), pa.binary()),
            "headers": pa.array([None] * len(offsets), header),
        }
        pq.write_table(pa.table(columns), tmp_path / name)
        return Piece(str(tmp_path / name), Offset(min(offsets)))

    pieces = [piece("c", [20, 21]), piece("a", [0, 3, 4, 9]), piece("b", [8, 1, 2]), piece("d", [5, 6, 7])]
    found = list(rows(0, pieces, Selection()))
    assert [row.offset for row in found] == [*range(10), 20, 21]
    assert [row.timestamp_ms for row in found] == [row.offset for row in found]
    assert found[5] == (5, 5, b"5", None, ())
    assert [row.offset for row in rows(0, pieces, Selection(from_offset=Offset(3), to_ms=21))] == [*range(3, 10), 20]
    with pytest.raises(PipelineError, match="holds records of another partition than 0"):
        list(rows(0, [piece("e", [1], partition=1)], Selection()))


def test_foreign_and_broken_parquet_is_one_line(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    topic, path = unique("broken"), tmp_path / "archive"
    generate.run(spark, GenerateOptions(bootstrap=spark_broker.bootstrap, topic=topic, count=20, size=10))
    archive(spark, ArchiveOptions(bootstrap=spark_broker.bootstrap, path=path, topics=(topic,)))
    [file] = path.glob("topic=*/date=*/*.parquet")
    content = file.read_bytes()
    options = ReplayOptions(path=path, bootstrap=spark_broker.bootstrap, to=unique("target"))
    file.write_bytes(content[:100])
    with pytest.raises(PipelineError, match=r"\.parquet cannot be read: ") as caught:
        run(spark, options)
    assert "\n" not in str(caught.value)
    pq.write_table(pa.table({"offset": [1, 2], "name": ["a", "b"]}), file)
    with pytest.raises(PipelineError, match=r"is not a file of an archive: it lacks partition, timestamp, key, value, headers"):
        run(spark, options)
    file.write_bytes(content)
    assert run(spark, options).records == 20


def test_a_broker_that_goes_away_ends_it_and_it_continues_later(
    spark: SparkSession, own_broker: Callable[..., BrokerProcess], archived: tuple[str, Path], spark_broker: BrokerProcess
) -> None:
    import threading  # noqa: PLC0415

    topic, path = archived
    broker = own_broker({"log.retention.ms": "-1"})
    cluster = Cluster(broker.bootstrap)

    def kill_when_it_writes() -> None:
        until(
            lambda: sum(extent.end for extent in cluster.extents({topic: cluster.topics().get(topic, 0)}).values()) > 0,
            "a replayed record",
            LONG_WAIT_S,
        )
        broker.kill()

    killer = threading.Thread(target=kill_when_it_writes, daemon=True)
    killer.start()
    options = ReplayOptions(path=path, bootstrap=broker.bootstrap, rate=1500, timeout_s=3)
    with pytest.raises(PipelineError) as caught:
        run(spark, options)
    joined(killer, "records in the broker that is to be killed")
    assert "\n" not in str(caught.value)
    assert broker.bootstrap in str(caught.value)
    broker.start()
    result = run(spark, ReplayOptions(path=path, bootstrap=broker.bootstrap))
    assert result.there_before > 0
    assert log_of(broker.bootstrap, topic) == log_of(spark_broker.bootstrap, topic)
