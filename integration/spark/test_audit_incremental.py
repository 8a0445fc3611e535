"""The incremental audit adds what is new once, whatever process is killed; buckets close; late records still count."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest

from integration.spark.audits import (
    BUCKET_MS,
    PARTITIONS,
    START_MS,
    Flow,
    follow,
    invoke,
    judged,
    numbers,
    rows,
    spans,
)
from pybroker.spark.audit import incremental, job
from pybroker.spark.audit.options import AuditOptions, Incremental
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.state import State
from pybroker.spark.audit.tagging import AuditedProducer
from pybroker.spark.cluster import Cluster
from testing.waiting import LONG_WAIT_S, Deadline, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


def test_pass_after_pass_finds_what_one_pass_over_everything_finds(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path, whole = tmp_path / "followed", tmp_path / "whole"
    rng = random.Random(5)
    for step in range(3):
        times = [step * 40_000 + rng.randrange(60_000) for _ in range(500)]
        flow.send(*times)
        first = step * 500
        flow.pass_on(without=(first + 7, first + 8, first + 90), twice=(first + 100,))
        if step:
            flow.catch_up(first - 500 + 90)
        if step == 1:
            flow.plain.produce(flow.topic, b"untagged", timestamp=START_MS)
            assert flow.plain.flush(30) == 0
        incremental.run(spark, flow.options(path, step * 40_000 + 60_000, incremental=follow()))
    flow.producer.close()
    now_ms = 10 * BUCKET_MS
    passed = incremental.run(spark, flow.options(path, now_ms, incremental=follow(), is_all_closed=True))
    once = job.run(spark, flow.options(whole, now_ms, is_all_closed=True))
    assert judged(path) == judged(whole)
    assert passed.summary.tiers == once.summary.tiers
    assert passed.summary.findings == once.summary.findings
    assert passed.summary.tiers["copy"]["lost"] == 7
    assert passed.summary.tiers["copy"]["doubled"] == 3
    assert passed.summary.tiers["copy"]["untagged"] == 0
    assert passed.summary.tiers["cluster"]["untagged"] == 1
    assert passed.summary.header == once.summary.header
    assert {entry.name for entry in path.iterdir()} == {"counts", "summary.json", "completeness.png", "index.html", "state"}


def test_a_late_record_turns_lost_into_present_until_its_bucket_is_final(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path, keep = tmp_path / "audit", follow(keep_s=2 * BUCKET_MS / 1000)

    def look(now_ms: int) -> dict[str, Any]:
        incremental.run(spark, flow.options(path, now_ms, incremental=keep))
        return rows(path)["p", "copy", 0]

    tardy = AuditedProducer(flow.plain, "tardy", counts_topic=flow.counts, interval_s=0)
    tardy.produce(flow.topic, b"v", partition=1, timestamp=START_MS)
    assert tardy.flush(30) == 0
    flow.send(*range(0, BUCKET_MS, 1000))  # 60 in bucket 0
    flow.pass_on(without=(3, 4, 5))
    row = look(BUCKET_MS + 10_000)  # open: the grace is 30 s
    assert (row["state"], *numbers(row, "present", "lost", "pending")) == ("open", 57, 0, 3)
    flow.catch_up(4)
    row = look(BUCKET_MS + 30_000)
    assert (row["state"], *numbers(row, "present", "lost", "pending")) == ("closed", 58, 2, 0)
    assert spans(row, "lost_ranges") == [(3, 3), (5, 5)]
    flow.send(4 * BUCKET_MS)  # the copy gets a newer record first
    flow.pass_on()
    flow.catch_up(3)  # partition 0, as is number 60
    row = look(2 * BUCKET_MS + 50_000)
    assert numbers(row, "present", "lost", "late") == (59, 1, 1)
    look(5 * BUCKET_MS)  # now bucket 0 is final
    state = State.read(path)
    assert state is not None
    assert state.final_ms == START_MS + 2 * BUCKET_MS
    flow.catch_up(5)
    tardy.close()
    result = incremental.run(spark, flow.options(path, 30 * BUCKET_MS, incremental=keep))
    assert "1 records came too late to be compared" in list(result.summary.lines())
    assert "1 counts of producers came too late to be compared, so the audit may miss losses" in list(result.summary.lines())
    assert numbers(rows(path)["p", "copy", 0], "present", "lost") == (59, 1)
    look(31 * BUCKET_MS)  # only what can still change is kept
    assert spark.read.parquet(str(path / "state/words")).count() == 0
    assert spark.read.parquet(str(path / "state/counts")).count() == 0
    assert numbers(rows(path)["p", "copy", 0], "present", "lost") == (59, 1)


def test_buckets_close_by_the_watermark_while_there_is_more_to_read(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    """In a backlog, the records' own times count, and no bucket closes before all partitions are past it."""
    path = tmp_path / "audit"
    flow.send(10 * 24 * 3_600_000, *range(500, 10 * BUCKET_MS, 500))  # 1200, the first with a wrong clock
    flow.pass_on()
    passes: list[incremental.Passed] = []
    closed: list[tuple[int, int, int]] = []

    def note(passed: incremental.Passed) -> None:
        passes.append(passed)
        found = [row for (_, tier, _), row in rows(path).items() if tier == "copy"]
        closed.append((passed.closed_ms, sum(row["lost"] for row in found), sum(row["state"] == "closed" for row in found)))

    how = follow(pass_records=800, keep_s=3600)
    incremental.run(spark, flow.options(path, 100 * BUCKET_MS, incremental=how), note)
    assert [passed.is_behind for passed in passes] == [True, True, False]
    # 800 of 2400: the first third of each partition, to about minute 3:20; the 16th record before is in minute 2 (then 6)
    assert [(at - START_MS) // 1000 for at, _, _ in closed] == [120 - 30, 360 - 30, 100 * 60 - 30]
    assert [lost for _, lost, _ in closed] == [0, 0, 0]
    assert [count for _, _, count in closed] == [1, 5, 10]
    assert passes[-1].result.summary.tiers["copy"]["present"] == 1200


def test_numbers_with_times_of_two_buckets_are_kept_together(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    """A tier has times of arrival, and a record is doubled with a new time: it is not compared with what was dropped."""
    path, keep = tmp_path / "audit", follow(keep_s=60 * BUCKET_MS / 1000)

    def look(minute: int) -> list[dict[str, int]]:
        result = incremental.run(spark, flow.options(path, minute * BUCKET_MS, incremental=keep))
        return [{name: found[name] for name in ("present", "lost", "doubled")} for found in result.summary.tiers.values()]

    flow.send(*range(0, BUCKET_MS, 1000))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": flow.bootstrap, "group.id": "late"})
    consumer.assign([confluent_kafka.TopicPartition(flow.topic, number, 0) for number in range(PARTITIONS)])
    read: list[Any] = []
    deadline = Deadline("60 records")
    while len(read) < 60:
        deadline.check()
        read += consumer.consume(60 - len(read), 1.0)
    consumer.close()
    for message in read:
        flow.plain.produce(flow.copy, b"v", timestamp=START_MS + 10 * BUCKET_MS, headers=message.headers())
    for message in read[:5]:
        flow.plain.produce(flow.topic, b"v", timestamp=START_MS + 10 * BUCKET_MS, headers=message.headers())
    assert flow.plain.flush(30) == 0
    everything = [
        {"present": 60, "lost": 0, "doubled": 0},
        {"present": 60, "lost": 0, "doubled": 5},
        {"present": 60, "lost": 0, "doubled": 0},
    ]
    assert look(12) == everything
    assert look(65) == everything  # bucket 0 is final, bucket 10 is not
    assert look(68) == everything
    # long after that, a copy with a new time belongs to what was dropped
    look(200)
    flow.plain.produce(flow.topic, b"v", timestamp=START_MS + 200 * BUCKET_MS, headers=read[7].headers())
    assert flow.plain.flush(30) == 0
    assert look(201) == everything
    state = State.read(path)
    assert state is not None
    assert state.too_late == 1


def test_a_topic_that_a_pattern_finds_later_is_missing_where_it_is_not(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    options = AuditOptions(
        path=tmp_path / "audit",
        tiers=(Tier("cluster", flow.bootstrap), Tier("copy", flow.bootstrap, "{topic}-copy")),
        pattern=f"{flow.topic}(-new)?",
        counts=flow.bootstrap,
        counts_topic=flow.counts,
        is_all_closed=True,
        now_ms=START_MS + BUCKET_MS,
        incremental=Incremental(),
    )
    flow.send(0, 1, 2)
    flow.pass_on()
    new = f"{flow.topic}-new"
    flow.producer.produce(new, b"v", timestamp=START_MS)  # creates the topic
    assert flow.producer.flush(30) == 0
    found = incremental.run(spark, options).summary
    assert found.header.topics == (flow.topic, new)
    assert (found.tiers["copy"]["present"], found.tiers["copy"]["lost"]) == (3, 1)
    Cluster(flow.bootstrap).create_topic(f"{new}-copy", 1)
    flow.plain.produce(f"{new}-copy", b"v", timestamp=START_MS, headers=_tags(flow.bootstrap, new))
    assert flow.plain.flush(30) == 0
    found = incremental.run(spark, options).summary
    assert (found.tiers["copy"]["present"], found.tiers["copy"]["lost"]) == (4, 0)


def _tags(bootstrap: str, topic: str) -> Any:
    """Return the headers of the first record of a topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "tags"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(30)
        assert message is not None
        return message.headers()
    finally:
        consumer.close()


def test_a_folder_of_another_audit_and_records_that_are_gone_are_one_line(
    spark: SparkSession, flow: Flow, tmp_path: Path
) -> None:
    path, how = tmp_path / "audit", ("--incremental", "--counts-topic", flow.counts)
    here = ("--topic", flow.topic, "--tier", f"cluster={flow.bootstrap}")
    flow.send(*range(30))
    assert invoke(spark, str(path), *here, *how).exit_code == 0
    cases = [
        ((*here, "--incremental", "--no-counts"), "is an audit with counts "),
        ((*here, *how, "--bucket-s", "120"), "is an audit with bucket-s 60, not 120: give another folder"),
        (("--topic", flow.copy, *here[2:], *how), f"is an audit with topics {flow.topic}, not {flow.copy}"),
        (here, "belongs to an incremental audit: continue it with --incremental or --every, or give another folder"),
    ]
    for arguments, line in cases:
        result = invoke(spark, str(path), *arguments)
        assert (result.exit_code, len(result.output.splitlines())) == (1, 1), result.output
        assert line in result.output
    flow.send(*range(30))
    admin = kafka.KafkaAdminClient(bootstrap_servers=flow.bootstrap)
    try:
        admin.delete_records({kafka.TopicPartition(flow.topic, 0): 15})
    finally:
        admin.close()
    result = invoke(spark, str(path), *here, *how)
    assert result.exit_code == 1
    assert f"5 records were deleted before they were read: {flow.topic}-0 from 10 to 14; --allow-loss continues" in result.output
    result = invoke(spark, str(path), *here, *how, "--allow-loss")
    assert result.exit_code == 0, result.output
    assert "5 records were deleted before they could be read" in result.stdout
    cluster = Cluster(flow.bootstrap)
    cluster.delete_topic(flow.topic)
    until(lambda: flow.topic not in cluster.topics(), "the topic's deletion", LONG_WAIT_S)
    cluster.create_topic(flow.topic, PARTITIONS)
    result = invoke(spark, str(path), *here, *how)
    assert result.exit_code == 1
    assert f"topic {flow.topic} at {flow.bootstrap} was deleted and created again since it was read" in result.output
