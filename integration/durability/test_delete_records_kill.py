"""After DeleteRecords and `kill -9` a log begins where the checkpoint has it, in Kafka 3.9.2 and here; nothing else is lost.

Neither broker writes the checkpoint before it responds to DeleteRecords; both write it at an interval. So records that were
deleted just before the kill may come back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from integration.adoption.kafka_directory import kafka_directory
from integration.retention.test_retention_kafka import read_from_the_start
from pybroker.log.checkpoints.checkpoint import LOG_START_OFFSET_FILE
from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.waiting import until

pytestmark = pytest.mark.skipif(is_kafka(), reason="starts both brokers itself")

RECORDS, START = 40, 23
EARLY, LATE = "early", "late"
"""The records of the first are deleted before the checkpoint is written, those of the second after that."""
OVERRIDES = {
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "log.retention.check.interval.ms": "3600000",
}
TIMEOUT_S = 60
Rows = list[tuple[int, bytes | None, bytes | None]]


def starts_in_checkpoints(broker: BrokerProcess) -> dict[str, int]:
    lines = [line.split() for path in broker.data_dir.rglob(LOG_START_OFFSET_FILE) for line in path.read_text().splitlines()]
    return {line[0]: int(line[2]) for line in lines if len(line) == 3}


def delete(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    (deletion,) = admin.delete_records([TopicPartition(topic, 0, START)]).values()
    assert deletion.result(TIMEOUT_S).low_watermark == START


def after_the_kill(broker: BrokerProcess) -> tuple[dict[str, int], dict[str, Rows]]:
    """Delete, kill and start again. Returns the checkpoint that the kill left, and what a consumer reads of each topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 5, "linger.ms": 100, "log_level": 2})
    for topic in (EARLY, LATE):
        create_topic(broker.bootstrap, topic, 1, {})
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, b"key", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    delete(broker, EARLY)
    until(lambda: starts_in_checkpoints(broker).get(EARLY) == START, "the checkpoint is written", TIMEOUT_S)
    delete(broker, LATE)
    broker.kill()
    left = starts_in_checkpoints(broker)
    broker.start()
    return left, {topic: read_from_the_start(broker.bootstrap, topic) for topic in (EARLY, LATE)}


def assert_as_in_the_checkpoint(broker: BrokerProcess) -> None:
    left, found = after_the_kill(broker)
    assert left[EARLY] == START
    for topic in (EARLY, LATE):
        assert left.get(topic, 0) in (0, START)
        assert found[topic] == [(number, b"key", b"%d" % number) for number in range(left.get(topic, 0), RECORDS)], topic


def test_ours_begins_where_the_checkpoint_is(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, OVERRIDES)
    try:
        broker.start()
        assert_as_in_the_checkpoint(broker)
    finally:
        broker.close()


@pytest.mark.skipif(shutil.which("java") is None or shutil.which("mvn") is None, reason="needs Java, and Maven for the jars")
def test_kafka_begins_where_the_checkpoint_is(tmp_path: Path) -> None:
    with kafka_directory(tmp_path, "3.9.2", OVERRIDES) as kafka:
        assert_as_in_the_checkpoint(kafka)
