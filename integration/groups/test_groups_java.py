"""Java's group consumers from 0.9 on, Kafka's own tools for groups, and Kafka's readers of our `__consumer_offsets`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import chain

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.clients.stock import create_topic, record_count, unique
from testing.places import JAVA_SOURCES
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.maven import old_client_jars
from testing.process.tool_runner import Tool

TIMEOUT_S = 180
OLD_RELEASES = ("0.9.0.1", "0.10.0.1", "0.10.2.2")
OLD_PROGRAM = JAVA_SOURCES / "OldGroupConsumer.java"
COMMAND = "consumer-groups"
CONSUMER = "console-consumer"

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars"
)


def rows(text: str) -> list[list[str]]:
    """Return the lines of a tool's table as words."""
    return [line.split() for line in text.splitlines() if line.strip()]


def filled_topic(bootstrap: str, count: int, partitions: int = 1) -> str:
    topic = unique("java-group")
    create_topic(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, partition=number % partitions)
    assert producer.flush(60) == 0
    return topic


def commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def test_the_console_consumer_reads_in_a_group(bootstrap: str, tool: Tool) -> None:
    topic, group = filled_topic(bootstrap, 100, 2), unique("console")
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group]
    printed = tool(CONSUMER, *arguments, "--from-beginning", "--max-messages", "100")
    assert sorted(printed.split("\n")[:-1]) == sorted(f"value {n}" for n in range(100))
    assert tool(CONSUMER, *arguments, "--timeout-ms", "15000") == "", "everything was committed"
    described = tool(COMMAND, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    assert sorted(row[:6] for row in rows(described) if row[0] == group) == [
        [group, topic, "0", "50", "50", "0"],
        [group, topic, "1", "50", "50", "0"],
    ]


def test_the_tool_lists_describes_resets_and_deletes_groups(bootstrap: str, tool: Tool, release: str) -> None:
    topic, group, other = filled_topic(bootstrap, 10), unique("tooled"), unique("offsets-only")
    commit(bootstrap, other, TopicPartition(topic, 0, 4))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "me", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while consumer.poll(0.5) is None:
        pass

    def groups(*arguments: str, code: int = 0) -> list[list[str]]:
        # The tool gives up after 5 s by itself, which is short for a Java program beside others.
        return rows(tool(COMMAND, "--bootstrap-server", bootstrap, "--timeout", "60000", *arguments, code=code))

    assert {group, other} <= {row[0] for row in groups("--list")}
    states = {row[0]: row[1] for row in groups("--list", "--state")}
    assert (states[group], states[other]) == ("Stable", "Empty")
    assert other not in {row[0] for row in groups("--list", "--state", "Stable")}
    (member,) = [row for row in groups("--describe", "--group", group, "--members", "--verbose") if row[0] == group]
    assert member[1].startswith("me-")
    assert member[2:5] == ["/127.0.0.1", "me", "1"]
    assert ("(0)" if release == "3.9.2" else f"{topic}:0") in member  # 3.9 leaves out the topic
    (state,) = [row for row in groups("--describe", "--group", group, "--state") if row[0] == group]
    assert state[-3:] == ["range", "Stable", "1"]
    assert any("not empty" in " ".join(row).lower() for row in groups("--delete", "--group", group, code=0))
    consumer.close()
    for how, expected in (("--to-earliest", "0"), ("--to-latest", "10"), ("--shift-by=-3", "7"), ("--to-offset=5", "5")):
        reset = groups("--reset-offsets", "--group", other, "--topic", topic, *how.split("="), "--execute")
        assert [*chain.from_iterable(reset)][-4:] == [other, topic, "0", expected]  # 3.9 has no end of line before that
    deleted = groups("--delete-offsets", "--group", other, "--topic", topic)
    assert [*chain.from_iterable(deleted)][-3:] == [topic, "0", "Successful"]
    groups("--delete", "--group", group)
    assert group not in {row[0] for row in groups("--list")}


def test_kafka_reads_our_records(start_broker: Callable[..., BrokerProcess], tool: Tool, release: str) -> None:
    broker = start_broker({"offsets.topic.num.partitions": "1"})
    topic = filled_topic(broker.bootstrap, 10)
    commit(broker.bootstrap, "simple", TopicPartition(topic, 0, 4))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "members", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while consumer.poll(0.5) is None:
        pass
    consumer.close()
    formatters = "org.apache.kafka.tools.consumer"
    where = ["--bootstrap-server", broker.bootstrap, "--topic", "__consumer_offsets", "--from-beginning"]
    where += ["--max-messages", str(record_count(broker.bootstrap, "__consumer_offsets"))]
    offsets = tool(CONSUMER, *where, "--formatter", f"{formatters}.OffsetsMessageFormatter")
    (first, *_) = [json.loads(line) for line in re.sub(r"\}\{\"key", '}\n{"key', offsets).splitlines()]
    assert first["key"]["data"] == {"group": "simple", "topic": topic, "partition": 0}
    assert first["value"]["data"]["offset"] == 4
    groups = tool(CONSUMER, *where, "--formatter", f"{formatters}.GroupMetadataMessageFormatter")
    assert '"group":"members"' in groups
    assert '"protocolType":"consumer"' in groups
    broker.stop()
    (segment,) = (broker.data_dir / "__consumer_offsets-0").glob("*.log")
    dumped = tool("dump-log", "--offsets-decoder", "--files", str(segment))
    assert "isvalid: false" not in dumped
    assert '"group":"simple"' in dumped
    assert '"offset":4' in dumped


@pytest.mark.parametrize("version", OLD_RELEASES)
def test_java_consumers_of_the_first_releases_read_in_a_group(start_broker: Callable[..., BrokerProcess], version: str) -> None:
    """Give padding to old Java consumers.

    They get padding when the records are in several batches; this broker has the padding that they can read.
    """
    bootstrap = start_broker({"pybroker.down.conversion.padding": "fitted"}).bootstrap
    topic, group = filled_topic(bootstrap, 100), unique(f"old-{version}")
    classes = ":".join(map(str, old_client_jars(version)))
    command = [*quick_java(classes, OLD_PROGRAM), OLD_PROGRAM.stem, bootstrap, topic, group, "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["100", "100"]
