"""The commands of people with a broker of ours and with Apache Kafka 3.9 and 4.x: the same words, the same results.

Most run in this process, because the start of an interpreter is most of what a command costs. Those that end by a signal, or
whose reader goes away, are processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException, Producer

from pybroker.cli.main import _TASKS, cli
from pybroker.model import Offset, ProducerEpoch, ProducerId
from pybroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pybroker.records.batch import Record
from pybroker.records.build import build_batch
from pybroker.terminal.profiles import target_of
from pybroker.terminal.wire import wire_client
from testing.clients.stock import unique
from testing.process.broker import BrokerProcess, external_bootstrap, read_line
from testing.waiting import until

OURS = "pybroker"
KAFKAS = ("3.9.2", "4.3.1")
AT = "2026-11-21T08:00:00Z"
AT_MS = 1_795_248_000_000
TIMEOUT_S = 120


@pytest.fixture(scope="module", params=[OURS, *KAFKAS])
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker, and return its address; a broker that already runs stands in for ours."""
    running = external_bootstrap()
    if running is not None:
        if request.param != OURS:
            pytest.skip("another broker is tested")
        yield running
        return
    command = None
    if request.param != OURS:
        if shutil.which("java") is None or shutil.which("mvn") is None:
            pytest.skip("needs Java, and Maven for the jars")
        command = [sys.executable, "-m", "testing.process.kafka_peer", "start", "--release", request.param, "--heap", "512m"]
    broker = BrokerProcess(tmp_path_factory.mktemp("people"), {"group.initial.rebalance.delay.ms": "0"}, start_command=command)
    broker.start()
    try:
        yield broker.bootstrap
    finally:
        broker.close()


@pytest.fixture
def topic(at: str) -> str:
    """Return a topic of the test's own, with two partitions."""
    name = unique("people")
    lines(at, "topics", "create", name, "-p", "2", "--config", "retention.ms=-1")
    lines(at, "wait", "--topic", name)
    return name


def lines(at: str, *words: str, given: str | None = None, code: int = 0) -> list[str]:
    """Return the lines that a command prints: on stderr those of a command that ends with another code than 0."""
    environment = {"PYBROKER_BOOTSTRAP": at, "PYBROKER_PROFILES": "/nonexistent"}
    done = CliRunner(env=environment).invoke(cli, words, input=given, prog_name="pybroker", catch_exceptions=False)
    assert done.exit_code == code, done.output
    return (done.stderr if code else done.stdout).splitlines()


def objects(at: str, *words: str) -> list[dict[str, Any]]:
    """Return the objects that a command prints with --json."""
    return [json.loads(line) for line in lines(at, *words, "--json")]


def started(at: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a command as a process."""
    command = [sys.executable, "-m", "pybroker", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYBROKER_BOOTSTRAP": at})


def test_topics_and_settings(at: str, topic: str) -> None:
    lines(at, "produce", topic, "1", "2", "-p", "1")
    (row,) = objects(at, "topics", "list", topic)
    assert (row["partitions"], row["replicas"], row["records"], row["offline"]) == (2, 1, 2, 0)
    assert row["bytes"] > 60
    (found,) = objects(at, "topics", "describe", topic)
    assert found["configs"]["retention.ms"] == "-1"
    assert [(one["leader"], one["first"], one["end"]) for one in found["of_partitions"]] == [(1, 0, 0), (1, 0, 2)]
    lines(at, "topics", "alter", topic, "-p", "3", "--unset", "retention.ms", "--config", "cleanup.policy=compact")
    assert {row["name"]: row["value"] for row in objects(at, "configs", "get", "--topic", topic)} == {"cleanup.policy": "compact"}
    lines(at, "configs", "set", "--topic", topic, "cleanup.policy=delete")
    assert objects(at, "records", "delete", f"{topic}:1", "--before", "1", "--yes")[0]["first"] == 1
    assert lines(at, "topics", "create", topic, code=1)[0].startswith(f"Error: topic {topic}: TOPIC_ALREADY_EXISTS: ")
    assert "INVALID_CONFIG" in lines(at, "configs", "set", "--topic", topic, "retention.ms=x", code=1)[0]
    assert lines(at, "topics", "delete", topic, "--yes") == [f"Deleted topic {topic}"]
    assert lines(at, "topics", "describe", topic, code=1)[0].startswith(f"Error: topic {topic}: UNKNOWN_TOPIC_OR_PARTITION")


def test_settings_of_brokers_and_quotas(at: str) -> None:
    lines(at, "configs", "set", "--broker", "1", "log.cleaner.threads=2")

    def value() -> str:
        return str(objects(at, "configs", "get", "--broker", "1", "log.cleaner.threads")[0]["value"])

    until(lambda: value() == "2", "the setting of a broker that learns of it a little later", TIMEOUT_S)
    lines(at, "configs", "unset", "--broker", "1", "log.cleaner.threads")
    lines(at, "configs", "set", "--client", "c", "producer_byte_rate=1000")
    until(lambda: objects(at, "configs", "get", "--client", "c"), "the quota", TIMEOUT_S)
    (row,) = objects(at, "configs", "get", "--client", "c")
    assert (row["name"], row["value"]) == ("producer_byte_rate", 1000.0)
    lines(at, "configs", "unset", "--client", "c", "producer_byte_rate")


def test_records_come_back_as_they_were_written(at: str, topic: str) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        lines(at, "produce", topic, codec, "-k", "k", "-H", "h=1", "--timestamp", AT, "-p", "0", "-z", codec)
    rows = objects(at, "consume", topic)
    assert [(row["offset"], row["key"], row["value"], row["timestamp_ms"]) for row in rows] == [
        (offset, "k", codec, AT_MS) for offset, codec in enumerate(codecs)
    ]
    assert rows[0]["headers"] == [{"name": "h", "value": "1"}]
    assert lines(at, "consume", topic, "--from", "2026-11-21", "--until", "1") == ["none"]
    assert lines(at, "consume", topic, "--from", "10m") == []


def test_transactions(at: str, topic: str) -> None:
    name = unique("id")
    lines(at, "produce", topic, "1", "-p", "0", "--transactional-id", name)
    lines(at, "produce", topic, "2", "-p", "0", "--transactional-id", name, "--abort")
    lines(at, "produce", topic, "3", "-p", "0", "--acks", "1")
    assert lines(at, "consume", topic) == ["1", "3"]
    assert lines(at, "consume", topic, "--uncommitted") == ["1", "2", "3"]
    assert name in {row["transactional_id"] for row in objects(at, "transactions", "list")}
    assert objects(at, "transactions", "describe", name)[0]["state"] in ("CompleteAbort", "PrepareAbort", "Empty")
    assert lines(at, "transactions", "find-hanging", topic, "--older-than", "0s") == ["No transaction hangs."]


def test_an_open_transaction_is_aborted(at: str, topic: str) -> None:
    name = unique("id")
    producer = Producer({"bootstrap.servers": at, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"lost", partition=0)
    producer.flush(TIMEOUT_S)
    lines(at, "produce", topic, "kept", "-p", "0")
    assert lines(at, "consume", topic) == []
    assert f"Did you mean '{name}'" in lines(at, "transactions", "describe", f"{name}x", code=1)[0]
    assert lines(at, "transactions", "abort", name, "--yes") == [f"Aborted the transaction of {name}"]
    assert lines(at, "consume", topic) == ["kept"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def test_a_transaction_that_hangs_is_aborted(at: str, topic: str) -> None:
    verification = "transaction.partition.verification.enable"
    lines(at, "configs", "set", "--all-brokers", f"{verification}=false")
    try:
        until(lambda: open_without_coordinator(at, topic) == 0, "the setting of a broker that learns of it later", TIMEOUT_S)
    finally:
        lines(at, "configs", "unset", "--all-brokers", verification)
    lines(at, "produce", topic, "kept", "-p", "0")
    assert lines(at, "consume", topic) == []
    (row,) = objects(at, "transactions", "find-hanging", topic, "--older-than", "0s")
    assert (row["topic"], row["partition"], row["start_offset"], row["producer_id"]) == (topic, 0, 0, 7000)
    words = ("--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")
    assert lines(at, "transactions", "abort", *words) == [f"Aborted the transaction of producer 7000 in {topic}-0"]
    assert lines(at, "consume", topic) == ["kept"]


def open_without_coordinator(at: str, topic: str) -> int:
    """Write a record of a transaction that no coordinator knows, and return the error code."""
    with wire_client(target_of({}, bootstrap=at)) as client:
        record = Record(Offset(0), AT_MS, None, b"lost")
        batch = build_batch(
            [record], producer_id=ProducerId(7000), producer_epoch=ProducerEpoch(0), base_sequence=0, is_transactional=True
        )
        client.topic(topic)
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=[data])
        return int(client.leader(topic, 0).call(request, 9).responses[0].partition_responses[0].error_code)


def test_groups(at: str, topic: str) -> None:
    lines(at, "produce", topic, *"0123", "-p", "0")
    assert lines(at, "consume", topic, "-g", topic, "-n", "2") == ["0", "1"]
    found = {row["partition"]: (row["offset"], row["lag"]) for row in objects(at, "groups", "describe", topic)}
    assert found[0] == (2, 2)
    assert lines(at, "wait", "--group", topic, "--for", "0", code=3) == [
        f"Error: not ready after 0 s: group {topic} is 2 records behind"
    ]
    assert lines(at, "consume", topic, "-g", topic) == ["2", "3"]
    assert lines(at, "wait", "--group", topic) == ["Ready"]
    lines(at, "groups", "reset", topic, "--topic", f"{topic}:0", "--to", "beginning", "--execute")
    assert next(row["lag"] for row in objects(at, "groups", "list") if row["group"] == topic) == 4
    lines(at, "groups", "delete-offsets", topic, f"{topic}:1", "--yes")
    assert lines(at, "groups", "delete", topic, "--yes") == [f"Deleted group {topic}"]
    assert "GROUP_ID_NOT_FOUND" in lines(at, "groups", "describe", topic, code=1)[0]


def test_two_members_share_a_topic_and_ctrl_c_ends_them(at: str, topic: str) -> None:
    lines(at, "produce", topic, "0", "-p", "0")
    with (
        started(at, "consume", topic, "--follow", "-g", topic) as one,
        started(at, "consume", topic, "--follow", "-g", topic) as two,
    ):
        try:
            shared = wait_for_members(at, topic, 2)
            assert sorted(row["partition"] for row in shared) == [0, 1]
            lines(at, "wait", "--group", topic)
            for member in (one, two):
                member.send_signal(signal.SIGINT)
            ended = [(member.communicate(timeout=TIMEOUT_S), member.returncode) for member in (one, two)]
        finally:
            one.kill()
            two.kill()
    assert sorted(ended) == [((b"", b""), 130), ((b"0\n", b""), 130)], "the record is read once"
    assert lines(at, "groups", "describe", topic)[0].startswith(f"{topic}: Empty"), "the members have left"


def wait_for_members(at: str, group: str, count: int) -> list[dict[str, Any]]:
    """Return the rows of a group as soon as `count` members read its partitions."""
    found: list[dict[str, Any]] = []

    def is_shared() -> bool:
        if group not in {row["group"] for row in objects(at, "groups", "list")}:
            return False
        found[:] = objects(at, "groups", "describe", group)
        return len({row["member"] for row in found if row["member"] is not None and row["topic"] is not None}) == count

    until(is_shared, f"{count} members", TIMEOUT_S)
    return found


def test_a_reader_that_goes_away_ends_the_command(at: str, topic: str) -> None:
    lines(at, "produce", topic, given="".join(f"{number:01000d}\n" for number in range(2000)))
    with started(at, "consume", topic, "--follow") as command:
        assert command.stdout is not None
        assert command.stderr is not None
        assert read_line(command, TIMEOUT_S)
        command.stdout.close()
        assert (command.wait(TIMEOUT_S), command.stderr.read()) == (141, b"")


def test_the_cluster_on_one_screen(at: str, topic: str) -> None:
    (found,) = objects(at, "status")
    assert (found["brokers"], found["under_replicated"], found["offline"]) == ([1], 0, 0)
    (row,) = objects(at, "cluster", "brokers")
    assert (row["broker"], row["address"]) == (1, at)
    assert "Kafka " in row["software"]
    (row,) = objects(at, "cluster", "listeners")
    assert (row["address"], "PLAINTEXT://" in row["listeners"]) == (at, True)
    assert lines(at, "cluster", "health") == ["Every partition has a leader, and all replicas are in sync."]
    assert lines(at, "doctor", at)[0].startswith("Bootstrap ")
    assert lines(at, "doctor") == lines(at, "doctor", at)


@pytest.mark.parametrize("form", ["jsonl", "batches"])
def test_an_export_is_imported(at: str, topic: str, form: str, tmp_path: Path) -> None:
    lines(at, "produce", topic, "1", "2", "-H", "h=1", "--timestamp", AT, "-p", "0")
    lines(at, "produce", topic, "x", "-p", "0", "--transactional-id", unique("id"), "--abort")
    lines(at, "produce", topic, "3", "-p", "0")
    assert lines(at, "consume", topic, "-g", topic, "-n", "2") == ["1", "2"]
    lines(at, "export", str(tmp_path / "e"), topic, "--format", form)
    assert objects(at, "import", str(tmp_path / "e"), "--prefix", "i.")[0]["records"] == 3
    assert [(row["offset"], row["value"]) for row in objects(at, "consume", f"i.{topic}")] == [(0, "1"), (1, "2"), (2, "3")]
    moved = next(row for row in objects(at, "groups", "describe", topic) if row["topic"] == f"i.{topic}")
    assert (moved["offset"], moved["lag"]) == (2, 1)


def test_a_topic_is_copied(at: str, topic: str, tmp_path: Path) -> None:
    lines(at, "produce", topic, "1", "2")
    done = lines(at, "copy", topic, "--from", at, "--to", at, "--prefix", "c.", "--state", str(tmp_path / "state"))
    assert done[0].startswith("Copied 2 records in ")
    assert lines(at, "consume", f"c.{topic}") == ["1", "2"]


def test_a_page_reports_on_a_topic(at: str, topic: str, tmp_path: Path) -> None:
    for package in ("numpy", "pyarrow", "matplotlib"):
        pytest.importorskip(package)
    lines(at, "produce", topic, "1", "2", "3", "-k", "k")
    (found,) = objects(at, "report", str(tmp_path / "report"), topic, "--from", "-2", "--summary")
    assert (found["topics"], found["records"]) == ([topic], 2)
    assert topic in Path(found["page"]).read_text()
    assert json.loads(Path(found["summary"]).read_text())["topics"][0]["topic"] == topic


def test_what_may_have_been_meant_is_suggested(at: str, topic: str) -> None:
    lines(at, "consume", topic, "-g", topic)
    for words, meant in (
        (("topics", "describe", f"{topic}x"), topic),
        (("groups", "describe", f"{topic}x"), topic),
        (("topics", "create", unique("new"), "--config", "retention.mss=1"), "retention.ms"),
        (("configs", "set", "--topic", topic, "retention.mss=1"), "retention.ms"),
        (("configs", "unset", "--topic", topic, "retention.mss"), "retention.ms"),
        (("configs", "set", "--client", "c", "producer_byte_rat=1"), "producer_byte_rate"),
    ):
        refused = lines(at, *words, code=1)[0]
        assert f"Did you mean '{meant}'" in refused, refused


def test_shells_complete_names(at: str, topic: str) -> None:
    variables = {"COMP_WORDS": f"pybroker consume {topic[:-1]}", "COMP_CWORD": "2", "_PYBROKER_COMPLETE": "bash_complete"}
    done = CliRunner(env={**variables, "PYBROKER_BOOTSTRAP": at, "PYBROKER_PROFILES": "/nonexistent"}).invoke(
        cli, [], prog_name="pybroker"
    )
    assert f"plain,{topic}" in done.stdout.splitlines()


def test_each_command_for_a_cluster_is_here() -> None:
    text, context = Path(__file__).read_text(), click.Context(cli)
    for name in (name for task in list(_TASKS.values())[1:3] for name in task):
        command = cli.get_command(context, name)
        for one in command.list_commands(context) if isinstance(command, click.Group) else ():
            assert f'"{name}", "{one}"' in text, one
        assert f'"{name}"' in text, name
