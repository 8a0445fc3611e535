"""`pybroker adopt` on directories that Apache Kafka has filled: everything in them is served, by stock clients' account."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from integration.adoption.kafka_directory import (
    TIMEOUT_S,
    KafkaDirectory,
    committed,
    fill,
    kafka_directory,
    read_all,
    transaction,
)
from testing.process.broker import BrokerProcess

READ = ("orders", "users", "tx")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pybroker", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def adopt(kafka: KafkaDirectory, *options: str) -> subprocess.CompletedProcess[str]:
    return run("adopt", *map(str, kafka.log_dirs), *options)


def refusal(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 1, ran.stdout
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("Error:")]
    return line


def hashes(kafka: KafkaDirectory) -> dict[str, str]:
    files = [path for folder in kafka.log_dirs for path in folder.rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "ours")
    yield broker
    broker.close()


def settings_of(bootstrap: str, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: one.value for name, one in future.result(TIMEOUT_S).items()}


@pytest.mark.parametrize(("release", "is_killed"), [("3.9.2", True), ("4.3.1", False)])
def test_a_directory_of_kafka_is_served_as_it_was(tmp_path: Path, ours: BrokerProcess, release: str, *, is_killed: bool) -> None:
    with kafka_directory(tmp_path / "kafka", release) as kafka:
        idempotent = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
        fill(kafka, idempotent)
        hanging = transaction(kafka.bootstrap, "open", None) if is_killed else None
        before = {topic: read_all(kafka.bootstrap, topic) for topic in READ}
        uncommitted = read_all(kafka.bootstrap, "tx", isolation="read_uncommitted")
        groups = {(group, topic): committed(kafka.bootstrap, group, topic) for group, topic in (
            ("classic", "orders"), ("modern", "tx"), ("by-transaction", "orders"))}  # fmt: skip
        assert "A broker uses the log directories" in refusal(adopt(kafka))
        kafka.kill() if is_killed else kafka.stop()
        assert hanging is None or hanging.purge() is None

        files = hashes(kafka)
        dry = adopt(kafka, "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert hashes(kafka) == files, "a dry run changes nothing"
        adopted = adopt(kafka)
        assert adopted.returncode == 0, adopted.stderr
        assert adopted.stdout == dry.stdout.replace("would be adopted; nothing was changed", "adopted")
        assert ("on has no end" in adopted.stdout) is is_killed
        kept = {path: digest for path, digest in files.items() if "__cluster_metadata-0" not in path}
        assert hashes(kafka).items() >= kept.items(), "no file of Kafka's is written again"

        ours.data_dir = Path(",".join(map(str, kafka.log_dirs)))
        ours.port = kafka.port
        ours.start()
        assert {topic: read_all(ours.bootstrap, topic) for topic in READ} == before
        assert not is_killed or len(uncommitted) == 30
        read = read_all(ours.bootstrap, "tx", isolation="read_uncommitted")
        assert read == uncommitted
        assert groups["by-transaction", "orders"][0] == 7
        assert {key: committed(ours.bootstrap, *key) for key in groups} == groups
        assert settings_of(ours.bootstrap, "tx")["retention.ms"] == "123456789"
        assert settings_of(ours.bootstrap, "users")["cleanup.policy"] == "compact"
        idempotent.produce("orders", b"second", partition=0)
        assert idempotent.flush(TIMEOUT_S) == 0
        values = [value for _, value in read_all(ours.bootstrap, "orders").values()]
        assert (values.count(b"first"), values.count(b"second")) == (1, 1)
        assert not [path for folder in kafka.log_dirs for path in folder.glob("[a-z]*-stray")]
        ours.stop()
        files = hashes(kafka)
        with pytest.raises(RuntimeError, match="instead of READY"):
            kafka.start()
        assert "FileAlreadyExistsException" in (kafka.folder / "server.log").read_text()
        assert hashes(kafka) == files, "Kafka without its metadata would take every log for a stray"
        assert "already has a cluster" in refusal(adopt(kafka))
        assert "already has a cluster" in refusal(adopt(kafka, "--dry-run"))
