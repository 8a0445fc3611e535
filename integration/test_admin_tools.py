"""Kafka's own tools manage the broker. What they print was taken from Apache Kafka 3.9.2 in the same state."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.kafka_peer import classpath
from integration.clients import KafkaPython, create_topic, unique
from integration.samples import varied

RELEASE, TIMEOUT_S = "3.9.2", 180
TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars"
)


def completed(bootstrap: str, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end."""
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath(RELEASE)]  # short runs: compile little
    command = [*java, tool, "--bootstrap-server", bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def run(bootstrap: str, tool: str, *arguments: str, code: int = 0) -> str:
    """What the tool says on standard output."""
    done = completed(bootstrap, tool, *arguments)
    assert done.returncode == code, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def settings(text: str) -> dict[str, str]:
    """The lines of a description: what stands behind each name."""
    return dict(line[2:].split("=", 1) for line in text.splitlines() if line.startswith("  "))


def test_topics_grow(bootstrap: str) -> None:
    topic = unique("tools-grow")
    create_topic(bootstrap, topic, 2, {"retention.ms": "5000"})
    assert run(bootstrap, TOPICS, "--alter", "--topic", topic, "--partitions", "4") == ""
    refused = run(bootstrap, TOPICS, "--alter", "--topic", topic, "--partitions", "3", code=1)
    assert f"The topic {topic} currently has 4 partition(s); 3 would not be an increase." in refused
    head, *lines = run(bootstrap, TOPICS, "--describe", "--topic", topic).splitlines()
    assert re.fullmatch(
        rf"Topic: {topic}\tTopicId: [\w-]{{22}}\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: retention.ms=5000", head
    )
    assert lines == [f"\tTopic: {topic}\tPartition: {n}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: " for n in range(4)]
    assert run(bootstrap, TOPICS, "--describe", "--topic", topic, "--unavailable-partitions") == ""


def test_settings_of_topics(bootstrap: str) -> None:
    topic = unique("tools-configs")
    create_topic(bootstrap, topic, 1, {"retention.ms": "5000"})
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    added = "cleanup.policy=[compact,delete],max.message.bytes=2000"
    assert (
        run(bootstrap, CONFIGS, *of_topic, "--alter", "--add-config", added) == f"Completed updating config for topic {topic}.\n"
    )
    assert settings(run(bootstrap, CONFIGS, *of_topic, "--describe")) == {
        "cleanup.policy": "compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "max.message.bytes": "2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}",
        "retention.ms": "5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}",
    }
    run(bootstrap, CONFIGS, *of_topic, "--alter", "--delete-config", "retention.ms")
    everything = settings(run(bootstrap, CONFIGS, *of_topic, "--describe", "--all"))
    assert len(everything) == 36
    assert everything["retention.ms"] == "604800000 sensitive=false synonyms={}"
    assert everything["min.cleanable.dirty.ratio"] == (
        "0.5 sensitive=false synonyms={DEFAULT_CONFIG:log.cleaner.min.cleanable.ratio=0.5}"
    )
    for bad in ("foo=bar", "retention.ms=abc"):
        done = completed(bootstrap, CONFIGS, *of_topic, "--alter", "--add-config", bad)
        assert done.returncode == 1
        assert "InvalidConfigurationException" in done.stdout + done.stderr


def test_settings_of_brokers(bootstrap: str) -> None:
    this, every = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    added = "log.retention.ms=77777"
    assert run(bootstrap, CONFIGS, *this, "--alter", "--add-config", added) == "Completed updating config for broker 1.\n"
    assert run(bootstrap, CONFIGS, *every, "--alter", "--add-config", "log.retention.ms=88888") == (
        "Completed updating default config for brokers in the cluster.\n"
    )
    try:
        dynamic = "DYNAMIC_BROKER_CONFIG:log.retention.ms=77777"
        last = "DEFAULT_CONFIG:log.retention.hours=168"
        default = "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=88888"
        assert run(bootstrap, CONFIGS, *this, "--describe").splitlines() == [
            "Dynamic configs for broker 1 are:",
            f"  log.retention.ms=77777 sensitive=false synonyms={{{dynamic}, {default}, {last}}}",
        ]
        assert run(bootstrap, CONFIGS, *every, "--describe").splitlines() == [
            "Default configs for brokers in the cluster are:",
            f"  log.retention.ms=88888 sensitive=false synonyms={{{default}}}",
        ]
        refused = completed(bootstrap, CONFIGS, *this, "--alter", "--add-config", "num.partitions=3")
        assert refused.returncode == 1
        assert "InvalidRequestException" in refused.stdout + refused.stderr
    finally:
        run(bootstrap, CONFIGS, *this, "--alter", "--delete-config", "log.retention.ms")
        run(bootstrap, CONFIGS, *every, "--alter", "--delete-config", "log.retention.ms")


def test_levels_of_loggers(bootstrap: str) -> None:
    name = "pybroker.metadata.controller"
    of_loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    assert run(bootstrap, CONFIGS, *of_loggers, "--alter", "--add-config", f"{name}=WARN") == (
        "Completed updating config for broker-logger 1.\n"
    )
    described = settings(run(bootstrap, CONFIGS, *of_loggers, "--describe"))
    assert described[name] == "WARN sensitive=false synonyms={}"
    run(bootstrap, CONFIGS, *of_loggers, "--alter", "--delete-config", name)


def test_records_offsets_and_directories(bootstrap: str, tmp_path: Path) -> None:
    topic = unique("tools-records")
    create_topic(bootstrap, topic, 2)
    KafkaPython().produce(bootstrap, topic, varied(20))
    wanted = [{"topic": topic, "partition": 0, "offset": 10}, {"topic": topic, "partition": 1, "offset": -1}]
    file = tmp_path / "delete.json"
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    said = run(bootstrap, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert sorted(said.splitlines()[2:]) == [
        f"partition: {topic}-0\tlow_watermark: 10",
        f"partition: {topic}-1\tlow_watermark: 0",
    ]
    offsets = "org.apache.kafka.tools.GetOffsetShell"
    assert run(bootstrap, offsets, "--topic", topic, "--time", "-2").splitlines() == [f"{topic}:0:10", f"{topic}:1:0"]
    assert run(bootstrap, offsets, "--topic", topic).splitlines() == [f"{topic}:0:20", f"{topic}:1:0"]
    said = run(bootstrap, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    (broker,) = json.loads(said.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert (broker["broker"], directory["error"]) == (1, None)
    found = {one["partition"]: (one["size"] > 0, one["offsetLag"], one["isFuture"]) for one in directory["partitions"]}
    assert found == {f"{topic}-0": (True, 0, False), f"{topic}-1": (False, 0, False)}


def test_elections_reassignments_and_features(bootstrap: str, tmp_path: Path) -> None:
    topic = unique("tools-move")
    create_topic(bootstrap, topic)
    elect = ("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred")
    said = run(bootstrap, *elect, "--topic", topic, "--partition", "0")
    assert said == f"Valid replica already elected for partitions {topic}-0\n"
    assert run(bootstrap, *elect, "--all-topic-partitions") == ""
    reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    assert run(bootstrap, reassign, "--list") == "No partition reassignments found.\n"
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    assert f"Successfully started partition reassignment for {topic}-0" in run(
        bootstrap, reassign, "--execute", "--reassignment-json-file", str(file)
    )
    assert f"Reassignment of partition {topic}-0 is completed." in run(
        bootstrap, reassign, "--verify", "--reassignment-json-file", str(file)
    )
    assert run(bootstrap, "org.apache.kafka.tools.FeatureCommand", "describe") == ""


def test_every_served_version_is_listed(bootstrap: str) -> None:
    said = run(bootstrap, "kafka.admin.BrokerApiVersionsCommand")
    for line in ("DescribeConfigs(32): 0 to 4", "CreatePartitions(37): 0 to 3", "IncrementalAlterConfigs(44): 0 to 1"):
        assert f"\t{line} [usable: " in said
