"""`pybroker leave`: Apache Kafka starts with the directories of this broker, and serves everything that was in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec, ResourceType

from integration.adoption.kafka_directory import (
    CODECS,
    OVERRIDES,
    TIMEOUT_S,
    TOPICS,
    KafkaDirectory,
    Read,
    committed,
    consume_and_commit,
    fill,
    is_compacted,
    kafka_directory,
    read_all,
    transaction,
)
from pybroker.log.checkpoints import checkpoint
from pybroker.log.files.filesystem import Filesystem
from testing.process.broker import BrokerProcess
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.waiting import until

READ = ("orders", "users", "tx", "later")
GROUPS = (("classic", "orders"), ("modern", "tx"), ("by-transaction", "orders"))
FS = Filesystem()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pybroker", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def leave(kafka: KafkaDirectory, *options: str) -> subprocess.CompletedProcess[str]:
    return run("leave", *map(str, kafka.log_dirs), *options)


def adopt(kafka: KafkaDirectory) -> subprocess.CompletedProcess[str]:
    return run("adopt", *map(str, kafka.log_dirs))


def epochs(kafka: KafkaDirectory) -> dict[str, int]:
    """Return the last leader epoch of each partition's checkpoint."""
    return {
        path.parent.name: int(checkpoint.read_entries(FS, str(path), fields=2)[-1][0])
        for folder in kafka.log_dirs
        for path in folder.glob("[a-z]*/leader-epoch-checkpoint")
        if checkpoint.read_entries(FS, str(path), fields=2)
    }


def refuse_complaints(kafka: KafkaDirectory) -> None:
    """Fail if the last run of Kafka logged an error, or took a log for a stray."""
    lines = (kafka.folder / "server.log").read_text().splitlines()
    lines = [line for line in lines if "EventPerformanceMonitor" not in line]  # which reports that the machine is slow
    assert not [line for line in lines if "ERROR" in line or "stray" in line.lower()]
    assert not [path for folder in kafka.log_dirs for path in folder.glob("[a-z]*-stray")]


def tool(kafka: KafkaDirectory, name: str, *arguments: str) -> str:
    """Run a tool of the release, and return what it printed."""
    command = [*quick_java(classpath(kafka.release)), "-Xmx256m", name, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


class Served:
    """The state that clients see of the broker at `bootstrap`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap, self._admin = bootstrap, AdminClient({"bootstrap.servers": bootstrap})

    def everything(self) -> tuple[object, ...]:
        return self.topics(), self.records(), self.offsets(), self.starts()

    def records(self) -> dict[str, Read]:
        return {topic: read_all(self._bootstrap, topic) for topic in self._read()}

    def _read(self) -> list[str]:
        return [topic for topic in self._admin.list_topics(timeout=TIMEOUT_S).topics if topic in READ]

    def offsets(self) -> dict[tuple[str, str], list[int]]:
        return {(group, topic): committed(self._bootstrap, group, topic) for group, topic in GROUPS}

    def topics(self) -> dict[str, tuple[str, int]]:
        names = [name for name in self._admin.list_topics(timeout=TIMEOUT_S).topics if name != "__transaction_state"]
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=TIMEOUT_S)
        found = {name: future.result(TIMEOUT_S) for name, future in futures.items()}
        return {name: (str(topic.topic_id), len(topic.partitions)) for name, topic in found.items()}

    def starts(self) -> dict[str, int]:
        asked = {TopicPartition(topic, number): OffsetSpec.earliest() for topic in self._read() for number in range(2)}
        found = self._admin.list_offsets(asked, request_timeout=TIMEOUT_S)
        return {f"{tp.topic}-{tp.partition}": future.result(TIMEOUT_S).offset for tp, future in found.items()}

    def settings(self, kind: ResourceType, name: str) -> dict[str, str]:
        (future,) = self._admin.describe_configs([ConfigResource(kind, name)]).values()
        return {key: one.value for key, one in future.result(TIMEOUT_S).items()}

    def set(self, kind: ResourceType, name: str, **values: str) -> None:
        entries = [
            ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for key, value in values.items()
        ]
        (future,) = self._admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values()
        future.result(TIMEOUT_S)

    def create(self, *topics: NewTopic) -> None:
        for future in self._admin.create_topics(list(topics)).values():
            future.result(TIMEOUT_S)

    def delete(self, *topics: str) -> None:
        for future in self._admin.delete_topics(list(topics)).values():
            future.result(TIMEOUT_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        for future in self._admin.delete_records([TopicPartition(topic, partition, before)]).values():
            future.result(TIMEOUT_S)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "ours", {name: OVERRIDES[name] for name in OVERRIDES if "transaction" not in name})
    yield broker
    broker.close()


def fill_ours(bootstrap: str, served: Served, idempotent: Producer) -> None:
    """Write to every topic, commit offsets of both kinds of groups, delete records and a topic, and change settings."""
    served.create(*(NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()))
    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
        for number in range(100):
            producer.produce("orders", f"{codec}-{number}".encode(), key=f"k{number}".encode(), partition=number % 2)
            producer.produce("users", f"{codec}-{number}".encode() * 20, key=f"u{number % 10}".encode(), partition=number % 2)
            producer.produce("tx", f"{codec}-{number}".encode(), partition=number % 2)
        assert producer.flush(TIMEOUT_S) == 0
    idempotent.produce("orders", b"first", partition=0)
    assert idempotent.flush(TIMEOUT_S) == 0
    consume_and_commit(bootstrap, "classic", "orders", 300, protocol="classic")
    consume_and_commit(bootstrap, "modern", "tx", 10, protocol="consumer")
    served.delete_records("orders", 0, 57)
    served.set(ResourceType.TOPIC, "tx", retention_ms="123456789", retention_granularity="segment")
    served.set(ResourceType.BROKER, "1", log_cleaner_threads="2")
    served.delete("gone")


def check_tools(kafka: KafkaDirectory) -> None:
    """Let Kafka's own tools read the metadata that was written, and what Kafka made of it."""
    snapshot = min((kafka.log_dirs[0] / "__cluster_metadata-0").glob("*.checkpoint"))
    dump = tool(kafka, "kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(snapshot))
    assert "Exception" not in dump
    payloads = [json.loads(line.partition("payload: ")[2]) for line in dump.splitlines() if "payload: " in line]
    assert {one["type"] for one in payloads} >= {"FEATURE_LEVEL_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"}
    at = ("--bootstrap-server", kafka.bootstrap)
    quorum = tool(kafka, "org.apache.kafka.tools.MetadataQuorumCommand", *at, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", quorum)
    features = tool(kafka, "org.apache.kafka.tools.FeatureCommand", *at, "describe")
    assert re.search(r"metadata\.version.*FinalizedVersionLevel: 3\.9-IV0", features)


def test_kafka_serves_the_directories_of_this_broker(tmp_path: Path, ours: BrokerProcess) -> None:
    kafka = KafkaDirectory(tmp_path / "kafka", "3.9.2")
    ours.data_dir = Path(",".join(map(str, kafka.log_dirs)))
    ours.start()
    kafka.port = ours.port
    idempotent = Producer({"bootstrap.servers": ours.bootstrap, "enable.idempotence": True})
    served = Served(ours.bootstrap)
    fill_ours(ours.bootstrap, served, idempotent)
    until(lambda: is_compacted(kafka), "the cleaner has worked on users", TIMEOUT_S)
    ours.stop()
    ours.start()
    before, starts = served.everything(), served.starts()
    assert starts["orders-0"] == 57
    refused = leave(kafka)
    assert refused.returncode == 1
    assert "A broker uses the log directories" in refused.stderr
    ours.stop()

    epochs_before = epochs(kafka)
    dry = leave(kafka, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert not (kafka.log_dirs[0] / "__cluster_metadata-0").exists()
    left = leave(kafka)
    assert left.returncode == 0, left.stderr
    assert left.stdout == dry.stdout.replace("would be given back; nothing was changed", "given back")
    assert "tx: a setting is not carried over, because Kafka does not have it: retention.granularity=segment" in left.stdout
    try:
        kafka.start()
        check_tools(kafka)
        assert served.everything() == before
        assert served.offsets()["classic", "orders"] != [-1001, -1001]
        assert served.settings(ResourceType.TOPIC, "tx")["retention.ms"] == "123456789"
        assert served.settings(ResourceType.TOPIC, "users")["cleanup.policy"] == "compact"
        assert served.settings(ResourceType.BROKER, "1")["log.cleaner.threads"] == "2"
        idempotent.produce("orders", b"second", partition=0)
        assert idempotent.flush(TIMEOUT_S) == 0
        values = [value for _, value in read_all(kafka.bootstrap, "orders").values()]
        assert (values.count(b"first"), values.count(b"second")) == (1, 1)
        assert epochs(kafka)["orders-0"] > epochs_before["orders-0"]
        kafka.stop()
        refuse_complaints(kafka)
    finally:
        kafka.close()


def test_directories_go_to_and_fro(tmp_path: Path, ours: BrokerProcess) -> None:
    with kafka_directory(tmp_path / "kafka", "4.3.1") as kafka:
        idempotent = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
        fill(kafka, idempotent)
        kafka.stop()
        adopted = adopt(kafka)
        assert adopted.returncode == 0, adopted.stderr
        ours.data_dir, ours.port = Path(",".join(map(str, kafka.log_dirs))), kafka.port
        ours.start()
        served = Served(ours.bootstrap)
        served.create(NewTopic("later", 2, 1, config={"retention.ms": "-1", "retention.granularity": "segment"}))
        producer = Producer({"bootstrap.servers": ours.bootstrap, "compression.type": "zstd"})
        for number in range(100):
            for topic in ("orders", "later"):
                producer.produce(topic, f"ours-{number}".encode(), partition=number % 2)
        idempotent.produce("orders", b"second", partition=0)
        assert producer.flush(TIMEOUT_S) == idempotent.flush(TIMEOUT_S) == 0
        served.delete_records("orders", 1, 33)
        served.delete("tx")
        before = served.everything()
        ours.stop()
        epochs_before = epochs(kafka)
        left = leave(kafka, "--release-version", "4.3")
        assert left.returncode == 0, left.stderr
        assert len([*kafka.log_dirs[0].glob("__cluster_metadata-0.*-stray")]) == 1, "that which was adopted"

        kafka.start()
        assert served.everything() == before
        idempotent.produce("orders", b"third", partition=0)
        assert idempotent.flush(TIMEOUT_S) == 0
        transaction(kafka.bootstrap, "committed", Producer.commit_transaction, topic="later")
        assert min(epochs(kafka)[name] - epochs_before[name] for name in ("orders-0", "later-0", "later-1")) > 0
        epochs_before, before = epochs(kafka), served.everything()
        kafka.stop()
        refuse_complaints(kafka)
        again = adopt(kafka)
        assert again.returncode == 0, again.stderr
        ours.start()
        assert served.everything() == before
        assert served.settings(ResourceType.TOPIC, "later")["retention.granularity"] == "segment"
        idempotent.produce("orders", b"fourth", partition=0)
        assert idempotent.flush(TIMEOUT_S) == 0
        values = [value for _, value in read_all(ours.bootstrap, "orders").values()]
        assert [values.count(one) for one in (b"first", b"second", b"third", b"fourth")] == [1, 1, 1, 1]
        ours.stop()
        assert epochs(kafka)["orders-0"] > epochs_before["orders-0"]
