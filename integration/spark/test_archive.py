"""The archive has every record once, with every field, whatever process is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.plans import interpreted_job
from pybroker.spark import generate
from pybroker.spark.archive.files import read as read_files
from pybroker.spark.archive.job import ArchiveOptions, run
from pybroker.spark.archive.manifest import Archive
from pybroker.spark.archive.verify import verify
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.generate import GenerateOptions
from testing.clients.stock import unique
from testing.waiting import LONG_WAIT_S, WAIT_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

START_MS = 1_790_000_000_000
FIELDS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def make(spark: SparkSession, bootstrap: str, count: int, **changes: object) -> str:
    """Fill a topic with records of three days, keys, headers and nulls."""
    defaults = {"topic": unique("archived"), "size": 60, "partitions": 3, "keys": 30, "headers": 2, "tombstones": 9}
    times = {"start_ms": START_MS, "step_ms": 200_000_000 / count}
    made = GenerateOptions(bootstrap=bootstrap, count=count, **(defaults | times | changes))  # type: ignore[arg-type]
    assert generate.run(spark, made).records == count
    return made.topic


def as_tuples(rows: list[object]) -> list[tuple[object, ...]]:
    return sorted(
        (
            (
                *(getattr(row, name) for name in FIELDS[:5]),
                *(None if getattr(row, name) is None else bytes(getattr(row, name)) for name in ("key", "value")),
                None if row.headers is None else tuple((header.key, bytes(header.value)) for header in row.headers),  # type: ignore[attr-defined]
            )
            for row in rows
        ),
        key=lambda row: row[:3],
    )


def in_the_log(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return as_tuples(reader.option("includeHeaders", True).load().select(*FIELDS).collect())


def in_the_archive(spark: SparkSession, path: Path) -> list[tuple[object, ...]]:
    """Read what is in the existing files, whatever the manifest has."""
    files = sorted(path.resolve().glob("topic=*/date=*/*.parquet"))
    return as_tuples(read_files(spark, files, path.resolve()).select(*FIELDS).collect())


def test_every_field_of_every_record_is_kept_and_what_is_new_comes_next(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = make(spark, spark_broker.bootstrap, 2000)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=tmp_path / "archive", topics=(topic,), batch_records=1500)
    assert run(spark, options).records == 2000
    assert in_the_archive(spark, options.path) == in_the_log(spark, spark_broker.bootstrap, topic)
    make(spark, spark_broker.bootstrap, 500, topic=topic)
    assert run(spark, options).records == 500
    log = in_the_log(spark, spark_broker.bootstrap, topic)
    assert in_the_archive(spark, options.path) == log
    assert run(spark, options).records == 0
    # one file for each day of each partition, because small files were joined
    files = list(Archive.read(options.path).contents.files.values())
    assert len(files) == len({(file.date, file.partition) for file in files}) == 9
    noted = json.loads((options.path / "_pybroker/manifest.json").read_text())["partitions"][topic]
    assert {int(partition): (found["first"], found["last"], found["count"]) for partition, found in noted.items()} == {
        number: (0, offsets[-1], len(offsets)) for number in range(3) for offsets in [[row[2] for row in log if row[1] == number]]
    }
    assert verify(spark, options.path).records == 2500


def test_a_changed_file_is_found(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = make(spark, spark_broker.bootstrap, 300, partitions=1)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=tmp_path / "archive", topics=(topic,), compact_after=0)
    run(spark, options)
    first, second, *_ = sorted(options.path.glob("topic=*/date=*/*.parquet"))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(PipelineError, match="does not hold the records that the manifest names"):
        verify(spark, options.path)
    first.write_bytes(content[: len(content) // 2])
    with pytest.raises(PipelineError) as caught:
        verify(spark, options.path)
    assert "\n" not in str(caught.value)
    first.unlink()
    with pytest.raises(PipelineError, match="is missing, though the manifest names it"):
        verify(spark, options.path)


def test_another_topic_or_cluster_a_gone_checkpoint_and_a_topic_created_again_are_refused(
    spark: SparkSession, spark_broker: BrokerProcess, own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    topic = make(spark, spark_broker.bootstrap, 50, partitions=1)
    other = make(spark, spark_broker.bootstrap, 50, partitions=1)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=tmp_path / "archive", topics=(topic,))
    run(spark, options)
    wrong = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=options.path, topics=(other,))
    with pytest.raises(PipelineError, match=f"is an archive of {topic}: archive other topics to another folder"):
        run(spark, wrong)
    elsewhere = own_broker().bootstrap
    make(spark, elsewhere, 50, partitions=1, topic=topic)
    with pytest.raises(PipelineError, match="cluster"):
        run(spark, ArchiveOptions(bootstrap=elsewhere, path=options.path, topics=(topic,)))
    missing = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=tmp_path / "new", topics=("nowhere",))
    with pytest.raises(PipelineError, match=r"no topic nowhere at 127\.0\.0\.1"):
        run(spark, missing)
    checkpoint = options.path / "_pybroker/checkpoint"
    checkpoint.rename(tmp_path / "away")
    with pytest.raises(PipelineError, match="checkpoint is gone, so the next offsets are not known"):
        run(spark, options)
    (tmp_path / "away").rename(checkpoint)
    assert run(spark, options).records == 0
    cluster = Cluster(spark_broker.bootstrap)
    cluster.delete_topic(topic)
    deadline = time.monotonic() + 60
    while topic in cluster.topics():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    make(spark, spark_broker.bootstrap, 50, partitions=1, topic=topic)
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted and created again"):
        run(spark, options)


def test_records_that_are_gone_stop_it_unless_loss_is_allowed(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    from kafka.admin import KafkaAdminClient  # noqa: PLC0415
    from kafka.structs import TopicPartition  # noqa: PLC0415

    topic = make(spark, spark_broker.bootstrap, 100, partitions=1, keys=0)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=tmp_path / "archive", topics=(topic,))
    run(spark, options)
    make(spark, spark_broker.bootstrap, 100, topic=topic, keys=0)
    admin = KafkaAdminClient(bootstrap_servers=spark_broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 130})
    admin.close()
    news = rf"30 records were deleted before they were archived: {topic}-0 from 100 to 129; --allow-loss continues without them"
    with pytest.raises(PipelineError, match=news):
        run(spark, options)
    allowed = ArchiveOptions(bootstrap=options.bootstrap, path=options.path, topics=(topic,), is_loss_allowed=True)
    result = run(spark, allowed)
    assert (result.records, result.lost) == (70, 30)
    assert [row[2] for row in in_the_archive(spark, options.path)] == [*range(100), *range(130, 200)]


def test_kills_in_the_middle_of_batches_lose_and_double_nothing(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = make(spark, spark_broker.bootstrap, 6000)
    path = tmp_path / "archive"
    where = ["--bootstrap-server", spark_broker.bootstrap, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    job = ["--topic", topic, "--batch-records", "250", "--compact-after", "20"]
    command = interpreted_job("archive", str(path), *where, *job)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, process_group=0)
    try:
        until(lambda: process.poll() is not None or _commits(path) > 0, "a commit of the archive", LONG_WAIT_S)
        time.sleep(random.Random(1).random())  # somewhere in the batches that follow
        assert process.poll() is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
    log = in_the_log(spark, spark_broker.bootstrap, topic)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=path, topics=(topic,), batch_records=2000)
    for left in _left_by_kills_at_a_commit(spark, options):
        run(spark, replace(options, path=left))
        assert in_the_archive(spark, left) == log
        assert verify(spark, left).records == 6000


def test_ctrl_c_stops_a_continuous_run_that_continues_later(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = make(spark, spark_broker.bootstrap, 1000)
    path = tmp_path / "archive"
    where = ["--bootstrap-server", spark_broker.bootstrap, "--master", "local[2]", "--pattern", topic]
    command = interpreted_job("archive", str(path), *where, "--every", "0.1")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
    try:
        until(lambda: process.poll() is not None or _commits(path) > 0, "a commit of the archive", LONG_WAIT_S)
        os.killpg(process.pid, signal.SIGINT)
        _, printed = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, printed
    assert printed.splitlines()[-1] == "archive: stopped; run the same command again to continue"
    make(spark, spark_broker.bootstrap, 200, topic=topic)
    options = ArchiveOptions(bootstrap=spark_broker.bootstrap, path=path, pattern=topic)
    run(spark, options)
    assert in_the_archive(spark, path) == in_the_log(spark, spark_broker.bootstrap, topic)


def test_the_archive_waits_for_a_broker_and_reports_its_end_in_one_line(
    spark: SparkSession, own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = own_broker({"log.retention.ms": "-1"})
    topic = make(spark, broker.bootstrap, 1000)
    path = tmp_path / "archive"
    options = ArchiveOptions(bootstrap=broker.bootstrap, path=path, topics=(topic,), batch_records=200, retry_s=1)
    archive_commit = Archive.commit

    def commit_and_kill(self: Archive, *arguments: object, **named: object) -> None:
        archive_commit(self, *arguments, **named)  # type: ignore[arg-type]
        if broker.is_running and self.contents.commit == 1:
            broker.kill()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Archive, "commit", commit_and_kill)
        patch.setattr("pybroker.spark.archive.job._POLL_MS", 3000)
        with pytest.raises(PipelineError, match=r"no broker at .* for 1 s; run the same command again to continue") as caught:
            run(spark, options)
    assert "\n" not in str(caught.value)
    verify(spark, path)
    broker.start()
    assert run(spark, options).records > 0
    assert in_the_archive(spark, path) == in_the_log(spark, broker.bootstrap, topic)


def _left_by_kills_at_a_commit(spark: SparkSession, options: ArchiveOptions) -> list[Path]:
    """Run a batch. Return copies of the archive as kills leave it before and after its commit: Spark has not noted the batch."""
    commit, copies = Archive.commit, [options.path.with_name(name) for name in ("before", "after")]

    def copy_around_commit(self: Archive, *arguments: object, **named: object) -> None:
        shutil.copytree(options.path, copies[0])
        commit(self, *arguments, **named)  # type: ignore[arg-type]
        shutil.copytree(options.path, copies[1])
        raise RuntimeError("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Archive, "commit", copy_around_commit)
        with pytest.raises(PipelineError, match="raised by the Python Proxy"):
            run(spark, options)
    assert _commits(copies[1]) == _commits(copies[0]) + 1
    return copies


def _commits(path: Path) -> int:
    """Return a number that grows with each commit."""
    numbers = [int(file.stem) for file in (path / "_pybroker/commits").glob("*.json") if file.stem.isdigit()]
    return 1 + max(numbers, default=-1)
