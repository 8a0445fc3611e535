"""`mirror` with Spark: each partition is a task. test_mirror_clusters.py tests without Spark what it does to batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pybroker.model import Offset
from pybroker.records.batch import Record, batches
from pybroker.records.build import build_batch
from pybroker.records.compression import CompressionType
from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.job import MirrorOptions, run
from pybroker.spark.mirror.state import Origin, State
from pybroker.spark.wire.client import WireClient
from testing.clients.stock import unique

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    with WireClient(bootstrap) as client:
        client.create_topic(topic, partitions)
        for partition in range(partitions):
            for codec in CompressionType:
                records = [Record(Offset(n), 1_700_000_000_000 + n, b"%d" % partition, b"v" * 100) for n in range(partition + 1)]
                client.produce(topic, partition, build_batch(records, compression=codec))


def payloads(bootstrap: str, topic: str, partitions: int) -> list[list[bytes]]:
    with WireClient(bootstrap) as client:
        return [[bytes(one.payload) for one in batches(client.fetch(topic, n, offset=Offset(0)).data)] for n in range(partitions)]


def test_tasks_mirror_partitions_and_continue_where_they_were(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, bootstrap = unique("mirror"), spark_broker.bootstrap
    fill(bootstrap, topic, 3)
    options = MirrorOptions(path=tmp_path / "m", source=bootstrap, target=bootstrap, pattern=f"(copy.)?{topic}", prefix="copy.")
    first = run(spark, options)
    assert (first.counts.records, first.counts.verbatim, first.counts.rebuilt, first.lost) == (30, 15, 0, 0)
    fill(bootstrap, topic, 2)
    assert run(spark, options).counts.records == 15
    assert run(None, options).counts.records == 0, "without Spark it is the same mirror"
    assert payloads(bootstrap, f"copy.{topic}", 3) == payloads(bootstrap, topic, 3)
    assert State.read(tmp_path / "m").origin(f"copy.{topic}", 1, offset=Offset(19)) == Origin(topic, 1, Offset(19))
    with WireClient(bootstrap) as client:
        client.produce(f"copy.{topic}", 2, build_batch([Record(Offset(0), 0, b"", b"")]))
    with pytest.raises(
        PipelineError,
        match=f"^copy.{topic}-2 has a batch at offset 15 that this mirror did not write: another producer writes to it$",
    ):
        run(spark, replace(options, retry_s=5.0))
