"""`spark.readStream.format("pybroker")`: every committed record once, over restarts of the query, limits and losses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pybroker.model import Offset, TopicPartition
from testing.scenes.data_directories import DataDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TIMEOUT_S = 240


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Callable[..., list[tuple[int, int]]]:
    """Run the stream over `tmp_path / "data"` to its present end. Return what the table has."""
    from pybroker.spark.datasource import register  # noqa: PLC0415 (not every run of the tests comes here)

    register(spark)

    sizes: list[list[int]] = []

    def once(**options: Any) -> list[tuple[int, int]]:
        reader = spark.readStream.format("pybroker").options(**{"columns": "partition,offset,value", **options})
        query = (
            reader.load(str(tmp_path / "data"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "table"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(TIMEOUT_S)
        sizes.append([progress.numInputRows for progress in query.recentProgress if progress.numInputRows])
        rows = spark.read.schema("partition int, offset bigint, value binary").parquet(str(tmp_path / "table"))
        return sorted((row.partition, row.offset) for row in rows.collect())

    once.sizes = sizes  # type: ignore[attr-defined]
    return once


def offsets(partition: int, *ranges: range) -> list[tuple[int, int]]:
    return [(partition, offset) for one in ranges for offset in one]


def test_a_stream_continues_where_it_was(run: Callable[..., list[tuple[int, int]]], tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data", segment_bytes=2000)
    for _ in range(20):
        data.append(5, size=100)
    data.checkpoint()
    assert run() == offsets(0, range(100))
    made: dict[str, Any] = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data.append(10)
    data.append(3, tp=TopicPartition("events", 1))
    data.append(2, **made)  # open: the transaction and what follows wait
    data.append(4)
    data.checkpoint()
    expected = offsets(0, range(110)) + offsets(1, range(3))
    assert run() == expected
    data.end_transaction(4, commit=False)
    data.append(1)
    data.checkpoint()
    assert run() == offsets(0, range(110), range(112, 116), range(117, 118)) + offsets(1, range(3))


def test_micro_batches_are_limited(run: Callable[..., list[tuple[int, int]]], tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    for _ in range(10):
        data.append(5)
    data.checkpoint()
    assert run(maxOffsetsPerTrigger="20") == offsets(0, range(50))
    assert run.sizes == [[20, 20, 10]]  # type: ignore[attr-defined]


def test_offsets_that_are_gone_stop_the_stream(run: Callable[..., list[tuple[int, int]]], tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data", segment_bytes=2000)
    data.append(5)
    data.checkpoint()
    assert run() == offsets(0, range(5))
    for _ in range(20):
        data.append(5, size=100)
    data.log().increment_log_start_offset(Offset(40), high_watermark=Offset(105))
    data.checkpoint()
    with pytest.raises(Exception, match="35 offsets of events-0, from 5 to 39, are gone"):
        run()
    assert run(failOnDataLoss="false") == offsets(0, range(5), range(40, 105))
    shutil.rmtree(data.log().path)
    DataDirectory(tmp_path / "data").append(1, tp=TopicPartition("another", 0))
    with pytest.raises(Exception, match=r"of events-0, .* the topic was deleted"):
        run()
