"""Spark's own source and the jobs see what is committed, wherever markers, aborted records and open transactions lie."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.transactions import ABORTED_LAST, OPEN_LAST, PARTITIONS, RECORDS, Scene, Values, values_of
from pybroker.model import Offset
from pybroker.records.batch import batches
from pybroker.spark.archive.job import ArchiveOptions
from pybroker.spark.archive.job import run as archive
from pybroker.spark.archive.verify import verify
from pybroker.spark.datasource import register
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation
from pybroker.spark.mirror import partition as mirroring
from pybroker.spark.mirror.job import MirrorOptions
from pybroker.spark.mirror.job import run as mirror
from pybroker.spark.mirror.offset_map import Arrived, OffsetMap
from pybroker.spark.replay.job import ReplayOptions
from pybroker.spark.replay.job import run as replay
from pybroker.spark.report.job import ReportOptions
from pybroker.spark.report.job import run as report
from pybroker.spark.report.plan import Wanted
from pybroker.spark.wire.client import WireClient

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
    register(spark)
    # the checkpoint from which readers of files learn what was deleted is up to a minute old
    starts = {str(partition): extent.start for (_, partition), extent in scene.extents(level).items()}
    options = {
        "topic": scene.topic,
        "until": "logEnd",
        "kafka.isolation.level": level,
        "startingOffsets": json.dumps({scene.topic: starts}),
    }
    directory = str(spark_broker.data_dir)
    assert values_of(spark.read.format("pybroker").options(**options).load(directory)) == scene.seen[level]
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def follow() -> None:
        records = spark.readStream.format("pybroker").options(**options).option("maxOffsetsPerTrigger", 12).load(directory)
        query = records.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start(table, format="parquet").awaitTermination()

    follow()
    assert values_of(spark.read.parquet(table)) == scene.seen[level]
    scene.abort_the_open()
    follow()
    assert values_of(spark.read.parquet(table)) == scene.seen[level]


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


def copied(scene: Scene, copy: str) -> Values:
    """Return the values of a mirror's target, whose batches must show nothing of the source's producers."""
    found: Values = {}
    with WireClient(scene.bootstrap) as client:
        for partition in range(PARTITIONS):
            fetched, values, offset = (
                client.fetch(copy, partition, offset=Offset(0), wait_ms_max=0),
                found.setdefault(partition, []),
                0,
            )
            for batch in batches(fetched.data):
                batch.ensure_valid()
                assert not batch.is_transactional
                assert (batch.base_offset, batch.base_sequence) == (offset, offset), "no gaps, whatever the source has"
                offset = batch.next_offset
                values += [bytes(record.value or b"") for record in batch.records()]
            assert (fetched.high_watermark, fetched.last_stable_offset) == (offset, offset), "and no markers"
    return found


def test_a_mirror_copies_what_is_committed_and_nothing_of_the_transactions(
    spark: SparkSession, scene: Scene, tmp_path: Path
) -> None:
    options = MirrorOptions(
        path=tmp_path / "mirror", source=scene.bootstrap, target=scene.bootstrap, topics=(scene.topic,), prefix="copy."
    )
    committed, copy = scene.seen[Isolation.READ_COMMITTED], f"copy.{scene.topic}"
    assert mirror(spark, options).counts.records == sum(map(len, committed.values()))
    assert copied(scene, copy) == committed
    scene.abort_the_open()
    assert mirror(spark, options).counts.records == 1, "the record that the open transaction hid"
    assert copied(scene, copy) == committed
    assert mirror(None, options).counts.records == 0


def test_a_mirror_of_transactions_is_exact_wherever_it_is_cut(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirroring, "FETCH_BYTES", 100)  # a batch in each fetch
    mark, marks = OffsetMap.mark, 0
    while True:
        copy = f"{scene.topic}-{marks}"
        options = MirrorOptions(
            path=tmp_path / copy,
            source=scene.bootstrap,
            target=scene.bootstrap,
            topics=(scene.topic,),
            renamed={scene.topic: copy},
            workers=1,
        )
        left = marks

        def cut(offsets: OffsetMap, arrived: Arrived) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PipelineError("cut")
            mark(offsets, arrived)

        with monkeypatch.context() as patch:
            patch.setattr(OffsetMap, "mark", cut)
            with contextlib.suppress(PipelineError):
                mirror(None, options)
        mirror(None, options)
        assert copied(scene, copy) == scene.seen[Isolation.READ_COMMITTED], marks
        if left >= 0:
            break  # it was not cut
        marks += 1
    assert marks > 20, "each batch, marker and gap was the place of a cut"


def test_a_report_counts_what_is_committed_aborted_and_open(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    seen = scene.seen
    options = ReportOptions(bootstrap=scene.bootstrap, path=tmp_path / "report.html", topics=(scene.topic,))
    found = report(spark, options).report.topics[0]
    for one in found.partitions:
        counted, everything = one.tally.numbers, seen[Isolation.READ_UNCOMMITTED][one.number]
        plain = sum(value in {b"plain", b"hidden"} for value in everything)
        open_ = RECORDS if one.number == OPEN_LAST else 0
        committed = sum(value not in {b"plain", b"hidden"} for value in seen[Isolation.READ_COMMITTED][one.number])
        assert counted.records == len(everything)
        assert (counted.committed, counted.undecided) == (committed, open_)
        assert counted.aborted == len(everything) - plain - committed - open_
        assert counted.missing == 0
    total = found.total.numbers
    assert (total.control, total.commits, total.aborts) == (11, 6, 5)
    part = (
        report(spark, replace(options, wanted=Wanted(from_offset=Offset(5), to_offset=Offset(7))))
        .report.topics[0]
        .partitions[ABORTED_LAST]
    )
    counted = part.tally.numbers
    assert (counted.records, counted.aborted, counted.control) == (2, 2, 0), "neither begin nor end of the transaction was read"
