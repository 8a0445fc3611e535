"""An audit of transactional producers, and of topics in which transactions are open or were aborted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest

from integration.spark.audits import BUCKET_MS, START_MS, Flow, follow, numbers, rows
from integration.spark.transactions import MARKERS_ONLY, OPEN_MS_MAX, TIMEOUT_S, Scene, transactional_producer
from pybroker.spark.audit import incremental, job, sources
from pybroker.spark.audit.options import AuditOptions
from pybroker.spark.audit.passes import closed_until
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.tagging import AuditedKafkaProducer, AuditedProducer
from pybroker.spark.isolation import Isolation
from testing.clients.stock import unique

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

NOW_MS = 10 * BUCKET_MS


@pytest.fixture
def transactional(flow: Flow) -> Iterator[confluent_kafka.Producer]:
    client = transactional_producer(flow.bootstrap)
    try:
        yield client
    finally:
        client.close()


def write(producer: Any, send: Any, flow: Flow, partition: int) -> None:
    """Write a committed transaction of 5 records, an aborted one of 3, and 2 records of an open one."""
    producer.init_transactions()
    for count, end in ((5, "commit_transaction"), (3, "abort_transaction"), (2, "flush")):
        producer.begin_transaction()
        for _ in range(count):
            send(flow.topic, b"v", partition=partition)
        producer.flush(TIMEOUT_S)
        if end != "flush":
            getattr(producer, end)()


def test_what_transactional_producers_committed_is_expected_and_what_they_aborted_is_refused(
    spark: SparkSession, flow: Flow, transactional: confluent_kafka.Producer, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"counts_topic": flow.counts, "interval_s": 0, "clock_ms": lambda: START_MS}
    confluent = AuditedProducer(transactional, "confluent", counts=flow.plain, **how)
    write(confluent, confluent.produce, flow, 0)
    client = kafka.KafkaProducer(
        bootstrap_servers=flow.bootstrap, transactional_id=unique("id"), transaction_timeout_ms=OPEN_MS_MAX
    )
    counts = kafka.KafkaProducer(bootstrap_servers=flow.bootstrap)
    python = AuditedKafkaProducer(client, "kafka-python", counts=counts, **how)
    write(python, python.send, flow, 1)
    confluent.close()
    python.close()
    counts.close()
    options = flow.options(tmp_path / "audit", NOW_MS, is_all_closed=True)
    options = replace(options, tiers=options.tiers[:1])
    assert job.run(spark, options).is_good
    found = rows(options.path)
    for producer in ("confluent", "kafka-python"):
        for tier in ("producer", "cluster"):
            row = found[producer, tier, 0]
            assert numbers(row, "expected", "present", "lost", "refused", "unknown") == (5, 5, 0, 3, 2), (producer, tier)
    assert job.run(spark, replace(options, isolation=Isolation.READ_UNCOMMITTED)).is_good
    row = rows(options.path)["confluent", "cluster", 0]
    assert numbers(row, "expected", "present", "lost", "refused", "unknown") == (10, 10, 0, 0, 0), "aborted and open ones, too"


def test_records_that_an_open_transaction_hides_are_pending_and_not_lost(
    spark: SparkSession, flow: Flow, transactional: confluent_kafka.Producer, tmp_path: Path
) -> None:
    transactional.init_transactions(TIMEOUT_S)
    transactional.begin_transaction()
    flow.send(*range(0, BUCKET_MS, 2000))  # 30, of which every third goes to partition 0
    transactional.produce(flow.topic, b"open", partition=0, timestamp=START_MS + BUCKET_MS)
    assert transactional.flush(TIMEOUT_S) == 0
    flow.send(*range(BUCKET_MS, 2 * BUCKET_MS, 2000))
    options = flow.options(tmp_path / "audit", NOW_MS)
    options = replace(options, tiers=options.tiers[:1])
    assert job.run(spark, replace(options, is_all_closed=True)).is_good
    once = rows(options.path)
    following = replace(options, path=tmp_path / "following", incremental=follow())
    assert incremental.run(spark, following).is_good
    for found in (once, rows(following.path)):
        row = found["p", "cluster", 1]
        assert (row["state"], *numbers(row, "expected", "present", "lost", "pending")) == ("open", 30, 20, 0, 10)
    transactional.abort_transaction(TIMEOUT_S)
    assert incremental.run(spark, following).is_good
    for bucket in (0, 1):
        row = rows(following.path)["p", "cluster", bucket]
        assert (row["state"], *numbers(row, "expected", "present", "lost", "pending")) == ("closed", 30, 30, 0, 0)


def test_a_partition_that_has_only_a_marker_left_is_surveyed(spark_broker: BrokerProcess) -> None:
    scene, now_ms = Scene(spark_broker.bootstrap), 1 << 42
    try:
        tier = Tier("cluster", scene.bootstrap)
        piece = sources.survey(tier, [scene.topic], now_ms)
        assert piece.horizons == {scene.topic: now_ms}, "all records of a partition were deleted"
        assert piece.extents == scene.extents(Isolation.READ_COMMITTED)
        assert piece.extents[scene.topic, MARKERS_ONLY].end == piece.extents[scene.topic, MARKERS_ONLY].start + 1
        assert piece.held_ms is not None
        options = AuditOptions(path=Path(), tiers=(tier,), topics=(scene.topic,), grace_s=1)
        assert closed_until(options, now_ms, [piece]) == piece.held_ms - 1000
        assert closed_until(replace(options, is_all_closed=True), now_ms, [piece]) == piece.held_ms - 1000
        piece = sources.survey(tier, [scene.topic], now_ms, isolation=Isolation.READ_UNCOMMITTED)
        assert piece.extents == scene.extents(Isolation.READ_UNCOMMITTED)
        assert piece.held_ms is None
        assert closed_until(options, now_ms, [piece]) == now_ms - 1000
        assert closed_until(replace(options, is_all_closed=True), now_ms, [piece]) is None
        scene.abort_the_open()
        assert sources.survey(tier, [scene.topic], now_ms).held_ms is None
    finally:
        scene.close()
