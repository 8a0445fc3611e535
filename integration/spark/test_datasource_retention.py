"""`spark.read.format("pybroker")` on directories whose segments retention has cut: of a killed broker, and of a stopped one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from integration.retention.test_retention import EAGER, RECORDS, Scene, pair
from integration.retention.test_retention_kafka import (
    CODECS,
    FIRST_START,
    SECOND_START,
    is_cut_at,
    kill_during_a_cut,
    move_start,
    name_of,
)
from pybroker.log.checkpoints.checkpoint import REPLICATION_OFFSET_FILE
from testing.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

Rows = dict[str, list[tuple[int, bytes, bytes]]]


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., Rows]:
    """Read a directory, and return the rows of each topic in the order of their offsets."""
    from pybroker.spark.datasource import register  # noqa: PLC0415 (not every run of the tests comes here)

    register(spark)

    def rows_of(path: Path) -> Rows:
        frame = spark.read.format("pybroker").load(str(path)).orderBy("topic", "offset")
        found: Rows = {name_of(codec): [] for codec in CODECS}
        for row in frame.collect():
            found[row.topic].append((row.offset, bytes(row.key), bytes(row.value)))
        return found

    return rows_of


def from_offset(start: int) -> list[tuple[int, bytes, bytes]]:
    return [(offset, *pair(offset)) for offset in range(start, RECORDS)]


def wait_for_cuts(broker: BrokerProcess, start: int) -> None:
    for codec in CODECS:
        until(lambda codec=codec: is_cut_at(broker.data_dir, codec, start), f"{name_of(codec)} is cut at {start}")  # type: ignore[misc]


def test_exactly_the_records_from_the_log_start_offset_are_rows(
    read: Callable[..., Rows], own_broker: Callable[..., BrokerProcess]
) -> None:
    """The log start offset lies in the middle of the first batch that is left."""
    first, second = (dict.fromkeys(map(name_of, CODECS), from_offset(start)) for start in (FIRST_START, SECOND_START))
    broker = own_broker(EAGER | {"replica.high.watermark.checkpoint.interval.ms": "200"})
    scene = Scene(broker, metrics_port=0)
    for codec in CODECS:
        scene.fill(name_of(codec), codec)
    written = {f"{name_of(codec)} 0 {RECORDS}" for codec in CODECS}
    file = broker.data_dir / REPLICATION_OFFSET_FILE
    until(lambda: file.exists() and written <= {*file.read_text().splitlines()}, "the high watermarks are in their checkpoint")
    move_start(scene, FIRST_START)
    wait_for_cuts(broker, FIRST_START)
    broker.kill()
    scene.close()
    assert read(broker.data_dir) == first, "after a kill behind the cut"

    broker.start()
    scene = Scene(broker, metrics_port=0)
    kill_during_a_cut(scene, broker.data_dir)
    scene.close()
    for topic, rows in read(broker.data_dir).items():
        assert rows in (first[topic], second[topic]), f"{topic} after a kill during the cut"

    broker.start()
    wait_for_cuts(broker, SECOND_START)
    broker.stop()
    assert read(broker.data_dir) == second, "after a stop"
