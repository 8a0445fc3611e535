"""Spark's own source and the jobs see what is committed, wherever markers, aborted records and open transactions lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.transactions import Scene, values_of
from pybroker.pipeline.archive.job import ArchiveOptions
from pybroker.pipeline.archive.job import run as archive
from pybroker.pipeline.archive.verify import verify
from pybroker.pipeline.datasource import register
from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.isolation import Isolation
from pybroker.pipeline.replay.job import ReplayOptions
from pybroker.pipeline.replay.job import run as replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

LEVELS = pytest.mark.parametrize("level", list(Isolation))


@pytest.fixture
def scene(spark_broker: BrokerProcess) -> Iterator[Scene]:
    scene = Scene(spark_broker.bootstrap)
    try:
        yield scene
    finally:
        scene.close()


def kafka_options(scene: Scene, topic: str | None = None, level: Isolation = Isolation.READ_COMMITTED) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": scene.bootstrap,
        "kafka.isolation.level": level,
        "subscribe": topic or scene.topic,
        "startingOffsets": "earliest",
    }


@LEVELS
def test_the_kafka_source_of_spark_reads_what_its_isolation_level_shows(
    spark: SparkSession, scene: Scene, tmp_path: Path, level: Isolation
) -> None:
    options = kafka_options(scene, level=level)
    assert values_of(spark.read.format("kafka").options(**options).load()) == scene.seen[level]
    scene.abort_the_open()
    table, records = str(tmp_path / "table"), spark.readStream.format("kafka").options(**options)
    records = records.option("maxOffsetsPerTrigger", 12)  # so that batches end at markers and within aborted transactions
    query = records.load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(table, format="parquet").awaitTermination()
    assert values_of(spark.read.parquet(table)) == scene.seen[level]


@LEVELS
def test_the_data_source_reads_what_its_isolation_level_shows(
    spark: SparkSession, scene: Scene, spark_broker: BrokerProcess, tmp_path: Path, level: Isolation
) -> None:
    session = spark.newSession()
    register(session)
    # the checkpoint from which readers of files learn what was deleted is up to a minute old
    starts = {str(partition): extent.start for (_, partition), extent in scene.extents(level).items()}
    options = {
        "topic": scene.topic,
        "until": "logEnd",
        "kafka.isolation.level": level,
        "startingOffsets": json.dumps({scene.topic: starts}),
    }
    directory = str(spark_broker.data_dir)
    assert values_of(session.read.format("pybroker").options(**options).load(directory)) == scene.seen[level]
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def follow() -> None:
        records = session.readStream.format("pybroker").options(**options).option("maxOffsetsPerTrigger", 12).load(directory)
        query = records.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start(table, format="parquet").awaitTermination()

    follow()
    assert values_of(session.read.parquet(table)) == scene.seen[level]
    scene.abort_the_open()
    follow()
    assert values_of(session.read.parquet(table)) == scene.seen[level]


def test_an_archive_and_its_replay_have_what_is_committed(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    options = ArchiveOptions(bootstrap=scene.bootstrap, path=tmp_path / "archive", topics=(scene.topic,), batch_records=12)
    committed = scene.seen[Isolation.READ_COMMITTED]
    assert archive(spark, options).records == sum(map(len, committed.values()))
    scene.abort_the_open()
    assert archive(spark, options).records == 1, "the record that the open transaction hid"
    assert values_of(spark.read.parquet(str(options.path))) == committed
    assert verify(spark, options.path).records == sum(map(len, committed.values()))
    copy = f"{scene.topic}-copy"
    replay(spark, ReplayOptions(path=options.path, bootstrap=scene.bootstrap, to=copy))
    assert values_of(spark.read.format("kafka").options(**kafka_options(scene, copy)).load()) == committed
    other = replace(options, isolation=Isolation.READ_UNCOMMITTED)
    with pytest.raises(PipelineError, match=r"is an archive with isolation level read_committed, not read_uncommitted$"):
        archive(spark, other)
    everything = replace(other, path=tmp_path / "everything")
    archive(spark, everything)
    assert values_of(spark.read.parquet(str(everything.path))) == scene.seen[Isolation.READ_UNCOMMITTED]
