"""The audit as a stream of passes: what is new is added once, whatever is killed; buckets close; what is late still counts."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest

from integration.clients import unique
from integration.spark.audits import BUCKET_MS, START_MS, invoke, numbers, rows, spans
from pybroker.pipeline.archive.job import ArchiveOptions
from pybroker.pipeline.archive.job import run as archive
from pybroker.pipeline.audit import incremental, job
from pybroker.pipeline.audit.options import AuditOptions, Incremental
from pybroker.pipeline.audit.sources import Tier
from pybroker.pipeline.audit.state import State
from pybroker.pipeline.audit.tagging import AuditedProducer
from pybroker.pipeline.cluster import Cluster
from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration.broker import BrokerProcess

pytestmark = pytest.mark.spark

PARTITIONS = 3
JUDGED = ("expected", "present", "lost", "lost_here", "doubled", "doubled_here", "pending", "unknown", "refused", "late")
OTHERS = ("untagged", "damaged", "other_version")


class Flow:
    """A topic that is copied record by record, so that a test says what the copy lacks, has twice, or gets late."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.topic, self.counts = bootstrap, unique("flow"), unique("counts")
        self.copy = f"{self.topic}-copy"
        cluster = Cluster(bootstrap)
        for name, partitions in ((self.topic, PARTITIONS), (self.copy, PARTITIONS), (self.counts, 1)):
            cluster.create_topic(name, partitions)
        self.plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        client = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.producer = AuditedProducer(client, "p", counts_topic=self.counts, interval_s=0)
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "copy"})
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        self._sent = 0
        self._copied = 0
        self._held: dict[int, Any] = {}

    def send(self, *times_ms: int) -> None:
        """Records of these times, one after the other from partition to partition; and what was counted of them."""
        for time_ms in times_ms:
            self.producer.produce(self.topic, b"v", partition=self._sent % PARTITIONS, timestamp=START_MS + time_ms)
            self._sent += 1
        assert self.producer.flush(30) == 0
        self.producer.trail.report()
        assert self.producer.flush(30) == 0

    def pass_on(self, *, without: tuple[int, ...] = (), twice: tuple[int, ...] = ()) -> None:
        """Copy what is new but for some numbers, which `catch_up` copies."""
        while self._copied < self._sent:
            for message in self._consumer.consume(self._sent - self._copied, 1.0):
                tags = dict(message.headers() or ())
                if not tags.get("audit.producer", b"").startswith(b"p/"):
                    continue
                self._copied += 1
                number = int.from_bytes(tags["audit.sequence"][1:], "big")
                if number in without:
                    self._held[number] = message
                    continue
                for _ in range(2 if number in twice else 1):
                    self._produce(message)
        assert self.plain.flush(30) == 0

    def catch_up(self, *late: int) -> None:
        """Copy what was held back."""
        for number in late:
            self._produce(self._held.pop(number))
        assert self.plain.flush(30) == 0

    def _produce(self, message: Any) -> None:
        self.plain.produce(
            self.copy, None, None, message.partition(), timestamp=message.timestamp()[1], headers=message.headers()
        )

    def close(self) -> None:
        """Send the last counts."""
        self.producer.close()
        self._consumer.close()

    def options(self, path: Path, now_ms: int, **others: Any) -> AuditOptions:
        """An audit of topic and copy at a time after START_MS."""
        return AuditOptions(
            path=path,
            tiers=(Tier("cluster", self.bootstrap), Tier("copy", self.bootstrap, self.copy)),
            topics=(self.topic,),
            counts=self.bootstrap,
            counts_topic=self.counts,
            grace_s=30,
            now_ms=START_MS + now_ms,
            **others,
        )


@pytest.fixture
def flow(spark_broker: BrokerProcess) -> Iterator[Flow]:
    flow = Flow(spark_broker.bootstrap)
    try:
        yield flow
    finally:
        flow.close()


def follow(**how: Any) -> Incremental:
    return Incremental(**{"keep_s": 10 * BUCKET_MS / 1000, **how})


def judged(path: Path) -> dict[tuple[str | None, str, int], tuple[int, ...]]:
    return {key: numbers(row, *JUDGED, *OTHERS) for key, row in rows(path).items()}


def test_pass_after_pass_says_what_one_pass_over_everything_says(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
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
    flow.send(4 * BUCKET_MS)  # the copy gets something newer first
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
    assert "1 counts of producers came too late to be compared: losses may not be seen" in list(result.summary.lines())
    assert numbers(rows(path)["p", "copy", 0], "present", "lost") == (59, 1)
    look(31 * BUCKET_MS)  # what is kept is no more than can still change
    assert spark.read.parquet(str(path / "state/words")).count() == 0
    assert spark.read.parquet(str(path / "state/counts")).count() == 0
    assert numbers(rows(path)["p", "copy", 0], "present", "lost") == (59, 1)


def test_buckets_close_by_the_watermark_while_there_is_more_to_read(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    """In a backlog, what is read goes by the records' own times, and no bucket is closed before all partitions are past it."""
    path = tmp_path / "audit"
    flow.send(10 * 24 * 3_600_000, *range(500, 10 * BUCKET_MS, 500))  # 1200, the first with a wrong clock
    flow.pass_on()
    passes: list[incremental.Passed] = []
    closed: list[tuple[int, int, int]] = []

    def told(passed: incremental.Passed) -> None:
        passes.append(passed)
        found = [row for (_, tier, _), row in rows(path).items() if tier == "copy"]
        closed.append((passed.closed_ms, sum(row["lost"] for row in found), sum(row["state"] == "closed" for row in found)))

    how = follow(pass_records=800, keep_s=3600)
    incremental.run(spark, flow.options(path, 100 * BUCKET_MS, incremental=how), told)
    assert [passed.is_behind for passed in passes] == [True, True, False]
    # 800 of 2400: the first third of each partition, to about minute 3:20; the 16th record from there is of minute 2 (then 6)
    assert [(at - START_MS) // 1000 for at, _, _ in closed] == [120 - 30, 360 - 30, 100 * 60 - 30]
    assert [lost for _, lost, _ in closed] == [0, 0, 0]
    assert [count for _, _, count in closed] == [1, 5, 10]
    assert passes[-1].result.summary.tiers["copy"]["present"] == 1200


def test_numbers_with_times_of_two_buckets_are_kept_together(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    """A tier has times of arrival, and a record is doubled with a new time: nothing of it is compared with what was dropped."""
    path, keep = tmp_path / "audit", follow(keep_s=60 * BUCKET_MS / 1000)

    def look(minute: int) -> list[dict[str, int]]:
        result = incremental.run(spark, flow.options(path, minute * BUCKET_MS, incremental=keep))
        return [{name: found[name] for name in ("present", "lost", "doubled")} for found in result.summary.tiers.values()]

    flow.send(*range(0, BUCKET_MS, 1000))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": flow.bootstrap, "group.id": "late"})
    consumer.assign([confluent_kafka.TopicPartition(flow.topic, number, 0) for number in range(PARTITIONS)])
    read: list[Any] = []
    while len(read) < 60:
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


def test_kills_neither_lose_nor_double_what_is_counted(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audits" / "flow"
    arguments = [
        *(str(path), "--topic", flow.topic, "--tier", f"cluster={flow.bootstrap}", "--tier", f"copy={flow.bootstrap}"),
        *("--rename", f"copy={flow.copy}", "--counts-topic", flow.counts, "--keep-s", "1e9"),
    ]
    command = [sys.executable, "-m", "pybroker", "spark", "audit", *arguments, "--every", "0", "--pass-records", "600"]
    rng = random.Random(3)
    flow.send(*sorted(rng.randrange(120_000) for _ in range(1800)))
    flow.pass_on(without=(9, 999), twice=(10, 1010))
    for number, name in ((0, "state/words"), (1, "index.html")):  # in the first pass, and in the one after the next
        process = subprocess.Popen([*command, "--master", "local[1]"], stdout=subprocess.DEVNULL, process_group=0)
        try:
            _wait(partial(_is_moment, path, number, name, process))
            assert process.poll() is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    flow.producer.close()
    followed = invoke(spark, *arguments, "--incremental", "--close-all")
    assert followed.exit_code == 3, followed.output
    whole = invoke(spark, str(tmp_path / "whole"), *arguments[1:], "--close-all")
    assert followed.stdout == whole.stdout
    assert followed.stdout.splitlines()[-1] == "copy: 2 lost, 2 doubled"
    assert judged(path) == judged(tmp_path / "whole")
    assert [entry.name for entry in path.parent.iterdir()] == ["flow"]


def test_a_run_for_ever_closes_idle_tails_and_tells_what_is_lost(flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    command = [
        *(sys.executable, "-m", "pybroker", "spark", "audit", str(path), "--topic", flow.topic),
        *("--tier", f"cluster={flow.bootstrap}", "--tier", f"copy={flow.bootstrap}", "--rename", f"copy={flow.copy}"),
        *("--counts-topic", flow.counts, "--grace-s", "1", "--every", "0.2", "--master", "local[1]"),
    ]
    lines: list[str] = []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        _wait(lambda: bool(lines) or process.poll() is not None)
        now = time.time_ns() // 1_000_000 - START_MS
        flow.send(now - 2 * BUCKET_MS, now - 2 * BUCKET_MS, now - 2 * BUCKET_MS)
        flow.pass_on(without=(1,))
        _wait(lambda: any("copy: 1 lost, 0 doubled" in line for line in lines) or process.poll() is not None)
        assert any(line.startswith(f"lost 1: p, {flow.topic}, copy, ") for line in lines)
        flow.catch_up(1)
        _wait(lambda: "nothing is lost or doubled" in lines[-1] or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()  # type: ignore[union-attr]
    assert lines[0].endswith("nothing is lost or doubled\n")
    assert (path / "summary.json").exists()


def test_a_cluster_that_goes_away_between_passes_is_waited_for(
    spark: SparkSession, own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = own_broker()
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce("t", b"v", headers=[])
    assert plain.flush(30) == 0
    told: list[int] = []

    def tell(passed: incremental.Passed) -> None:
        told.append(passed.result.records)
        if len(told) == 2:
            raise KeyboardInterrupt
        plain.produce("t", b"v")
        assert plain.flush(30) == 0
        broker.kill()

    wait = Cluster.wait_until_there

    def start_and_wait(cluster: Cluster, seconds: float) -> None:
        broker.start()
        wait(cluster, seconds)

    options = AuditOptions(
        path=tmp_path / "audit",
        tiers=(Tier("cluster", broker.bootstrap),),
        topics=("t",),
        incremental=Incremental(interval_s=0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "wait_until_there", start_and_wait)
        with pytest.raises(KeyboardInterrupt):
            incremental.run(spark, options, tell)
    assert told == [1, 1]


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
    flow.producer.produce(new, b"v", timestamp=START_MS)  # makes the topic
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
    """Those of the first record of a topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "tags"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        message = consumer.poll(30)
        assert message is not None
        return message.headers()
    finally:
        consumer.close()


def test_an_archive_is_followed_through_its_compactions(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path, lake = tmp_path / "audit", tmp_path / "lake"

    def step(now_ms: int, compact_after: int) -> dict[str, Any]:
        archive(spark, ArchiveOptions(bootstrap=flow.bootstrap, path=lake, topics=(flow.copy,), compact_after=compact_after))
        options = flow.options(path, now_ms, incremental=follow(), is_all_closed=True)
        options = replace(options, tiers=(*options.tiers, Tier("lake", f"archive:{lake}", flow.copy)))
        return incremental.run(spark, options).summary.tiers

    for number in range(3):
        flow.send(*range(number * 1000, number * 1000 + 300))
        flow.pass_on(without=(number * 300 + 1,))
        found = step(BUCKET_MS * (number + 1), 0 if number == 0 else 1)
        for tier in ("copy", "lake"):
            assert (found[tier]["present"], found[tier]["lost"]) == (299 * (number + 1), number + 1)
            assert found[tier]["doubled"] == 0
        assert found["lake"]["lost_here"] == 0


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
        (here, "belongs to passes over what is new: go on with --incremental or --every, or give another folder"),
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
    assert f"5 records were deleted before they were read: {flow.topic}-0 from 10 to 14; --allow-loss goes on" in result.output
    result = invoke(spark, str(path), *here, *how, "--allow-loss")
    assert result.exit_code == 0, result.output
    assert "5 records were deleted before they could be read" in result.stdout
    cluster = Cluster(flow.bootstrap)
    cluster.delete_topic(flow.topic)
    _wait(lambda: flow.topic not in cluster.topics())
    cluster.create_topic(flow.topic, PARTITIONS)
    result = invoke(spark, str(path), *here, *how)
    assert result.exit_code == 1
    assert f"topic {flow.topic} at {flow.bootstrap} was deleted and made again since it was read" in result.output


def test_two_at_once_are_told(spark: SparkSession, flow: Flow, tmp_path: Path) -> None:
    path = tmp_path / "audit"
    flow.send(*range(30))
    options = flow.options(path, BUCKET_MS, incremental=follow())
    report = incremental.write_report

    def report_after_another(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as second:
            second.setattr(incremental, "write_report", report)
            incremental.run(spark, options)
        report(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "write_report", report_after_another)
        with pytest.raises(PipelineError, match="another audit writes to"):
            incremental.run(spark, options)
    state = State.read(path)
    assert state is not None
    assert state.number == 1
    path.rename(tmp_path / ".audit.0.old")  # as a kill between two renames leaves it
    assert incremental.run(spark, options).summary.tiers["cluster"]["present"] == 30
    state = State.read(path)
    assert state is not None
    assert state.number == 2


def _is_moment(path: Path, number: int, name: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether so many passes are done, and the next one has written that."""
    return process.poll() is not None or (_number(path) >= number and any(path.parent.glob(f".flow.*.new/{name}")))


def _number(path: Path) -> int:
    try:
        state = State.read(path)
    except PipelineError:  # read in the moment when it is replaced
        return 0
    return state.number if state is not None else 0


def _wait(condition: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
