"""The audit finds what was lost and doubled on purpose, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
import pytest

from integration.spark.audits import BUCKET_MS, START_MS, invoke, numbers, rows, spans
from integration.spark.plans import interpreted_job
from pybroker.spark.archive.job import ArchiveOptions
from pybroker.spark.archive.job import run as archive
from pybroker.spark.audit import sources
from pybroker.spark.audit.job import run
from pybroker.spark.audit.options import AuditOptions
from pybroker.spark.audit.sources import Tier
from pybroker.spark.audit.tagging import AuditedKafkaProducer, AuditedProducer
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from testing.clients.stock import unique
from testing.waiting import LONG_WAIT_S, WAIT_S, Deadline, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from testing.process.broker import BrokerProcess

pytestmark = pytest.mark.spark

PARTITIONS = 3
DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE, OVERVIEW = DOCS / "audit.md", DOCS / "spark.md"

DOOMED = """
import os, signal, sys
import confluent_kafka
from pybroker.spark.audit.tagging import AuditedProducer

bootstrap, topic, counts, start = sys.argv[1:]
producer = AuditedProducer(
    confluent_kafka.Producer({"bootstrap.servers": bootstrap}), "doomed", counts_topic=counts, interval_s=0
)
for number in range(30):
    if number == 20:
        assert producer.flush(60) == 0
        producer.trail.report()
    if number == 25:
        producer.trail.send(topic, int(start))  # waits in the client when the kill comes
    producer.produce(topic, b"v", timestamp=int(start))
assert producer.flush(60) == 0
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass(frozen=True)
class Scene:
    """A topic with everything that can happen, a damaged copy of it, and an archive of the copy."""

    bootstrap: str
    topic: str
    copy: str
    counts: str
    lake: Path

    @property
    def tiers(self) -> tuple[Tier, ...]:
        return (
            Tier("cluster", self.bootstrap),
            Tier("mirror", self.bootstrap, self.copy),
            Tier("lake", f"archive:{self.lake}", "{topic}-copy"),
        )


@pytest.fixture(scope="module")
def scene(spark: SparkSession, spark_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    bootstrap, topic = spark_broker.bootstrap, unique("audited")
    made = Scene(bootstrap, topic, f"{topic}-copy", unique("counts"), tmp_path_factory.mktemp("lake") / "copy")
    cluster = Cluster(bootstrap)
    for name, partitions in ((made.topic, PARTITIONS), (made.copy, PARTITIONS), (made.counts, 1)):
        cluster.create_topic(name, partitions)
    _produce(made)
    _copy(made)
    archive(spark, ArchiveOptions(bootstrap=bootstrap, path=made.lake, topics=(made.copy,), compact_after=0))
    return made


def _produce(scene: Scene) -> None:
    with _client(scene) as client, AuditedProducer(client, "c", counts_topic=scene.counts) as producer:
        for number in range(600):
            producer.produce(scene.topic, b"v", b"%d" % number, timestamp=START_MS + number * 300)
        with pytest.raises(confluent_kafka.KafkaException):  # number 600 is refused
            producer.produce(scene.topic, b"v" * 2_000_000, timestamp=START_MS)
    with AuditedKafkaProducer(kafka.KafkaProducer(bootstrap_servers=scene.bootstrap), "k", counts_topic=scene.counts) as old:
        for number in range(300):
            old.send(scene.topic, b"v", partition=number % PARTITIONS, timestamp_ms=START_MS + number * 600)
    with _client(scene) as client, AuditedProducer(client, "c", counts_topic=scene.counts) as producer:  # started again
        producer.produce(scene.topic, b"v", partition=0, timestamp=START_MS + 10 * BUCKET_MS)
        producer.produce(scene.topic, b"v", partition=0, timestamp=START_MS + 1)  # ten minutes late
    doomed = [sys.executable, "-c", DOOMED, scene.bootstrap, scene.topic, scene.counts, str(START_MS)]
    assert subprocess.run(doomed, check=False, timeout=60).returncode == -signal.SIGKILL
    with _client(scene) as plain:
        _produce_with_other_tags(scene, plain)


def _produce_with_other_tags(scene: Scene, plain: confluent_kafka.Producer) -> None:
    name = b"x/" + b"0" * 20
    for headers in (
        None,
        [("mine", b"1")],
        [("audit.producer", name), ("audit.tier", b"producer"), ("audit.sequence", b"\x02" + bytes(8))],
        [("audit.producer", name), ("audit.tier", b"producer"), ("audit.sequence", b"\x01" + bytes(3))],
        [("audit.producer", b"\xff" + name), ("audit.tier", b"producer"), ("audit.sequence", b"\x01" + bytes(8))],
        [("audit.producer", name), ("audit.tier", None), ("audit.sequence", b"\x01" + bytes(8))],
        [("audit.producer", name)] * 3,
        # another helper might put the tags first, in another order
        [("audit.sequence", b"\x01" + bytes(8)), ("audit.tier", b"gate"), ("audit.producer", b"y/" + b"a" * 20), ("mine", b"1")],
    ):
        plain.produce(scene.topic, b"v", partition=1, timestamp=START_MS, headers=headers)
    plain.produce(scene.counts, b"no count")
    assert plain.flush(30) == 0


def _copy(scene: Scene) -> None:
    """Copy like a mirror, except that c's numbers 3 and 5-7 and k's 299 are left out, and c's 10 and k's 250 doubled."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": scene.bootstrap, "group.id": "copy", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(scene.topic, number, 0) for number in range(PARTITIONS)])
    left = sum(extent.end for extent in Cluster(scene.bootstrap).extents({scene.topic: PARTITIONS}).values())
    with _client(scene) as plain:
        _copy_some(scene, consumer, plain, left)
    consumer.close()


def _copy_some(scene: Scene, consumer: confluent_kafka.Consumer, plain: confluent_kafka.Producer, left: int) -> None:
    first: dict[bytes, bytes] = {}
    deadline = Deadline("all records of the topic")
    while left:
        deadline.check()
        for message in consumer.consume(left, 1.0):
            left -= 1
            sent_headers = dict(message.headers() or ())
            name, number = (
                sent_headers.get("audit.producer", b"").split(b"/")[0],
                int.from_bytes(sent_headers.get("audit.sequence", b"")[1:], "big"),
            )
            times = 1
            if name in {b"c", b"k"} and first.setdefault(name, sent_headers["audit.producer"]) == sent_headers["audit.producer"]:
                left_out, doubled = {b"c": ((3, 5, 6, 7), (10,)), b"k": ((299,), (250,))}[name]
                times = 0 if number in left_out else 2 if number in doubled else 1
            for _ in range(times):
                plain.produce(
                    scene.copy, None, None, message.partition(), timestamp=message.timestamp()[1], headers=message.headers()
                )
    assert plain.flush(30) == 0


@contextlib.contextmanager
def _client(scene: Scene) -> Iterator[confluent_kafka.Producer]:
    """Yield a client, and close it at the end: otherwise it would report for the rest of the run that its broker has gone."""
    client = confluent_kafka.Producer({"bootstrap.servers": scene.bootstrap, "enable.idempotence": True})
    try:
        yield client
    finally:
        client.close()


def arguments_for(scene: Scene, path: Path) -> list[str]:
    tiers = [part for tier in scene.tiers for part in ("--tier", f"{tier.name}={tier.source}")]
    renames = [part for tier in scene.tiers[1:] for part in ("--rename", f"{tier.name}={tier.rename}")]
    return [str(path), "--topic", scene.topic, *tiers, *renames, "--counts-topic", scene.counts]


def test_a_kill_leaves_no_result_and_the_next_run_finds_all_that_was_damaged(
    spark: SparkSession, scene: Scene, tmp_path: Path
) -> None:
    path = tmp_path / "audits" / "orders"
    command = interpreted_job("audit", *arguments_for(scene, path), "--master", "local[2]")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, process_group=0)
    try:
        until(
            lambda: process.poll() is not None or any(tmp_path.glob("audits/.orders.*.new/counts")),
            "the audit's counts",
            LONG_WAIT_S,
        )
        assert process.poll() is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT_S)
    assert not path.exists()
    result = invoke(spark, *arguments_for(scene, path))
    assert result.exit_code == 3, result.output
    assert [entry.name for entry in path.parent.iterdir()] == ["orders"]
    assert {entry.name for entry in path.iterdir()} == {"counts", "summary.json", "completeness.png", "index.html"}
    assert (path / "completeness.png").read_bytes().startswith(b"\x89PNG")
    printed = result.stdout.splitlines()
    assert printed[0] == f"{scene.topic}: 4 producers, 4 buckets of 60 s"
    assert printed[-1] == "mirror: 5 lost, 2 doubled; lake: 5 lost, 2 doubled"
    for line in (
        "6 records without tags are not compared",
        "12 records have tags that are damaged or of another program",
        "3 records have tags of an unknown version",
        "1 messages in the topic of the producers' counts cannot be read",
        "1 incarnations of producers have not ended their counts: they still run, or were killed",
    ):
        assert line in printed
    assert printed[-1] in (path / "index.html").read_text()
    _check_table(rows(path))


def _check_table(found: dict[tuple[str | None, str, int], dict[str, Any]]) -> None:
    counted = ("expected", "present", "lost", "doubled", "unknown", "refused", "late")
    # c has 600 numbers in three buckets, of which 1 was refused; 1 of the second incarnation is late, in the first bucket
    assert numbers(found["c", "producer", 0], *counted) == (201, 201, 0, 0, 0, 1, 0)
    assert numbers(found["c", "cluster", 0], *counted) == (201, 201, 0, 0, 0, 1, 1)
    assert numbers(found["c", "mirror", 0], *counted) == (201, 197, 4, 1, 0, 1, 1)
    assert spans(found["c", "mirror", 0], "lost_ranges") == [(3, 3), (5, 7)]
    assert spans(found["c", "mirror", 0], "doubled_ranges") == [(10, 10)]
    assert numbers(found["c", "mirror", 0], "lost_here", "doubled_here") == (4, 1)
    assert numbers(found["c", "lake", 0], *counted) == (201, 197, 4, 1, 0, 1, 1)
    assert numbers(found["c", "lake", 0], "lost_here", "doubled_here") == (0, 0)  # it has what the mirror has
    for tier in ("producer", "cluster", "mirror", "lake"):
        assert numbers(found["c", tier, 1], *counted) == (200, 200, 0, 0, 0, 0, 0)
        assert numbers(found["c", tier, 10], *counted) == (1, 1, 0, 0, 0, 0, 0)
    # k has lost 1 record and doubled another: the count is as it should be
    assert numbers(found["k", "mirror", 2], *counted) == (100, 99, 1, 1, 0, 0, 0)
    assert spans(found["k", "mirror", 2], "lost_ranges") == [(299, 299)]
    assert spans(found["k", "mirror", 2], "doubled_ranges") == [(250, 250)]
    # the killed producer had reported 20; the others arrived except for 1, about which nothing is known
    assert numbers(found["doomed", "producer", 0], *counted) == (20, 20, 0, 0, 11, 0, 0)
    for tier in ("cluster", "mirror", "lake"):
        assert numbers(found["doomed", tier, 0], *counted[:-1]) == (30, 30, 0, 0, 1, 0)
        assert numbers(found["y", tier, 0], *counted[:-1]) == (1, 1, 0, 0, 0, 0)
        assert numbers(found[None, tier, 0], "untagged", "damaged", "other_version", "lost") == (2, 4, 1, 0)
    assert {row["state"] for row in found.values()} == {"closed"}


def test_open_buckets_are_not_judged_and_a_result_is_replaced(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    options = AuditOptions(
        path=tmp_path / "audit",
        tiers=scene.tiers[:2],
        topics=(scene.topic,),
        counts=scene.bootstrap,
        counts_topic=scene.counts,
        from_ms=START_MS + BUCKET_MS,
        to_ms=START_MS + 3 * BUCKET_MS,
        now_ms=START_MS + 2 * BUCKET_MS + 30_000,
        grace_s=30,
    )
    options.path.mkdir()
    result = run(spark, options)
    assert result.summary.tiers["mirror"]["lost"] == 0
    found = rows(options.path)
    assert {(bucket, row["state"]) for (_, _, bucket), row in found.items()} == {(1, "closed"), (2, "open")}
    assert numbers(found["k", "mirror", 2], "expected", "present", "lost", "pending") == (100, 99, 0, 1)
    assert "2 buckets of 60 s, 1 of them open" in next(iter(result.summary.lines()))
    first = json.loads((options.path / "summary.json").read_text())
    closed = AuditOptions(**{name: getattr(options, name) for name in options.__slots__} | {"is_all_closed": True})
    run(spark, closed)
    assert rows(options.path)["k", "mirror", 2]["lost"] == 1
    assert json.loads((options.path / "summary.json").read_text()) != first
    assert [entry.name for entry in tmp_path.iterdir()] == ["audit"]


def test_what_is_missing_or_foreign_is_one_line(spark: SparkSession, scene: Scene, tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    path, here = tmp_path / "audit", f"here={scene.bootstrap}"
    lake = scene.lake
    file = next(lake.glob("topic=*/date=*/*.parquet"))
    content = file.read_bytes()
    in_lake = ["--tier", f"lake=archive:{lake}", "--rename", f"lake={scene.copy}", "--topic", scene.topic]
    cases = [
        (["--topic", "nowhere", "--tier", here], "no topic nowhere at 127.0.0.1"),
        (["--topic", scene.topic, "--tier", here, "--counts-topic", "none"], "no topic none at 127.0.0.1"),
        (["--topic", scene.topic, "--tier", f"lake=archive:{tmp_path}/no", "--no-counts"], "no: no such directory"),
        (["--topic", scene.topic, "--tier", f"lake=archive:{lake}", "--no-counts"], f"has no records of topic {scene.topic}"),
        ([*in_lake, "--no-counts"], "cannot be read: "),
        ([*in_lake, "--no-counts"], "is not a file of an archive: it lacks offset, timestamp, headers"),
        (
            ["--topic", scene.topic, "--tier", here, "--counts-topic", scene.counts, "--bucket-s", "30"],
            "counts in buckets of 60 s, and buckets of 30 s are not a multiple of them",
        ),
    ]
    try:
        for arguments, line in cases:
            if "cannot be read" in line:
                file.write_bytes(b"no Parquet")
            elif "is not a file of an archive" in line:
                pq.write_table(pa.table({"a": [1]}), file)
            result = invoke(spark, str(path), *arguments)
            assert result.exit_code == 1, result.output
            assert line in result.output
            progress = re.compile(r"audit: \d+ rows, ")  # of a pass that takes longer than a second
            assert len([text for text in result.output.splitlines() if not progress.match(text)]) == 1
            assert not path.exists()
    finally:
        file.write_bytes(content)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/other").touch()
    result = invoke(spark, str(tmp_path / "taken"), "--topic", scene.topic, "--tier", here)
    assert "taken is not empty and is not the result of an audit: its summary.json is missing" in result.output
    assert [entry.name for entry in (tmp_path / "taken").iterdir()] == ["other"]


def test_what_may_have_been_deleted_because_of_its_age_is_known(spark_broker: BrokerProcess) -> None:
    topic, bootstrap = unique("old"), spark_broker.bootstrap
    Cluster(bootstrap).create_topic(topic, 2)
    plain = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        plain.produce(topic, b"v", partition=0, timestamp=START_MS + number)
    assert plain.flush(30) == 0
    plain.close()
    tier = Tier("cluster", bootstrap, f"{topic}")
    assert sources.survey(tier, ["orders"], START_MS + 99).horizons == {}
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.delete_records({kafka.TopicPartition(topic, 0): 4})
        assert sources.survey(tier, ["orders"], START_MS + 99).horizons == {"orders": START_MS + 4}
        admin.delete_records({kafka.TopicPartition(topic, 0): 10})
        assert sources.survey(tier, ["orders"], START_MS + 99).horizons == {"orders": START_MS + 99}
    finally:
        admin.close()


def test_a_broker_that_goes_away_in_the_middle_leaves_nothing_and_is_one_line(
    spark: SparkSession, own_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker, topic = own_broker(), unique("gone")
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, b"v")
    assert plain.flush(30) == 0
    plain.close()
    survey = sources.survey

    def survey_and_kill(*arguments: Any, **others: Any) -> sources.Piece:
        found = survey(*arguments, **others)
        broker.kill()
        return found

    options = AuditOptions(path=tmp_path / "audit", tiers=(Tier("cluster", broker.bootstrap),), topics=(topic,), retry_s=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pybroker.spark.audit.job.survey", survey_and_kill)
        patch.setattr(sources, "POLL_MS", 1500)
        with pytest.raises(PipelineError, match=r"no broker at 127\.0\.0\.1:\d+ for 1 s; run the same command again to continue"):
            run(spark, options)
    assert list(tmp_path.glob("*audit*")) == []


def test_the_examples_of_the_page_work(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(), re.MULTILINE)
    there = spark_broker.bootstrap
    texts = [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip().replace("localhost:9092", there) for block in blocks]
    code, command, stream = (text for text in texts if text.startswith(("from", "pybroker")))
    exec(code, {})
    before = ["pybroker", "spark", "audit", "audits/payments"]
    words = shlex.split(command)
    assert words[:4] == before
    assert " ".join([*before, *words[4:]]).replace(there, "localhost:9092") in OVERVIEW.read_text()
    result = invoke(spark, str(tmp_path / "audits/payments"), *words[4:])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "nothing is lost or doubled"
    assert " ".join(result.stdout.split()).count("5,000 5,000 0 0") == 2
    words = shlex.split(stream)
    assert words[:4] == [*before[:3], "audits/following"]
    result = invoke(spark, str(tmp_path / "audits/following"), *words[4:])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("nothing is lost or doubled")
    assert " ".join(result.stdout.split()).count("5,000 5,000 0 0") == 2
