"""Consumers notice that records are gone, and notice nothing where none are (KIP-320): librdkafka's consumer and Java's.

The same stories run against Apache Kafka 3.9 with
    PYBROKER_TEST_COMMAND='python -m testing.process.kafka_peer start' python -m pytest integration/clients/test_truncation.py
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, OffsetSpec

from testing.clients.epoch_watchers import JavaWatcher, LibrdkafkaWatcher, Watcher
from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka

POLICIES = {"t-earliest": "earliest", "t-latest": "latest", "t-none": "none"}
CHECKPOINTS = {"log_initial_task_delay_ms": "0", "log_flush_start_offset_checkpoint_interval_ms": "100"}
RECORDS = 1_000
BATCH = 100
TIMEOUT_S = 60
NEEDS_JAVA = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)

StartBroker = Callable[..., BrokerProcess]
Watch = Callable[[BrokerProcess], Watcher]


@pytest.fixture(params=[LibrdkafkaWatcher, pytest.param(JavaWatcher, marks=NEEDS_JAVA)], ids=["librdkafka", "java"])
def watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Return a function that makes watchers: the first reads from the beginning, each later one from the committed offsets."""
    watchers: list[Watcher] = []

    def make(broker: BrokerProcess) -> Watcher:
        watchers.append(watchers[0].another() if watchers else request.param(broker.bootstrap, POLICIES))
        return watchers[-1]

    yield make
    for watcher in watchers:
        watcher.close()


def produce(broker: BrokerProcess, name: str) -> list[str]:
    """Send RECORDS values with acks=all in several batches, and return them when all are acknowledged."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 2})
    failures: list[object] = []
    values = [f"{name}-{number}" for number in range(RECORDS)]
    for start in range(0, RECORDS, BATCH):
        for topic in POLICIES:
            for value in values[start : start + BATCH]:
                producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failures.append(error))
        assert producer.flush(TIMEOUT_S) == 0
    assert not failures
    return values


def end_of(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 2})
    with closing(consumer):
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=TIMEOUT_S)
    return low, high


def lose_half(broker: BrokerProcess) -> None:
    """Cut the log as a crash of the machine may do, when the end of a file had not reached the disk."""
    for topic in POLICIES:
        (file,) = broker.data_dir.glob(f"**/{topic}-0/{0:020}.log")
        os.truncate(file, file.stat().st_size // 2)


def await_new_epoch(broker: BrokerProcess) -> None:
    """Return when a new leader epoch is in force.

    That is at once, except with Kafka, which accepts records with the old epoch for a moment.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    places = {confluent_kafka.TopicPartition(topic, 0): OffsetSpec.latest() for topic in POLICIES}
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            epochs = [future.result(TIMEOUT_S).leader_epoch for future in admin.list_offsets(places).values()]
        except confluent_kafka.KafkaException:
            epochs = [0]
        if min(epochs) > 0:
            return
        assert is_kafka(), "the start has raised it"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def filled(start_broker: StartBroker, **settings: str) -> tuple[BrokerProcess, list[str]]:
    broker = start_broker({key.replace("_", "."): value for key, value in settings.items()})
    for topic in POLICIES:
        create_topic(broker.bootstrap, topic)
    return broker, produce(broker, "old")


def consumed(watcher: Watcher, old: list[str]) -> None:
    """Watch until the consumer has read all that there is, and has committed it."""
    watcher.until(lambda: all(len(watcher.values(topic)) == RECORDS for topic in POLICIES))
    assert all(watcher.values(topic) == old for topic in POLICIES)
    watcher.commit()


def test_a_consumer_beyond_the_end_of_what_is_left_misses_nothing(start_broker: StartBroker, watch: Watch) -> None:
    broker, old = filled(start_broker)
    connected = watch(broker)
    consumed(connected, old)
    broker.kill()
    lose_half(broker)
    broker.start()
    for topic in POLICIES:
        assert 0 < end_of(broker, topic)[1] < RECORDS
    if is_kafka():  # one node of 3.9.2 that is back at once keeps the old epoch; its next clean stop raises it
        broker.stop()
        broker.start()
    await_new_epoch(broker)
    new = produce(broker, "new")  # beyond the offset that was read
    # the second watcher begins at what was committed, with its epoch
    for watcher, before in ((connected, RECORDS), (watch(broker), 0)):
        if is_kafka() and watcher is connected:
            continue  # the watcher has asked for 1,000 in the old epoch, and the response was that there is no such offset
        watcher.until_last(new[-1], ["t-earliest", "t-latest"])
        watcher.until(partial(watcher.troubles, "t-none"))
        for topic in ("t-earliest", "t-latest"):
            assert watcher.values(topic)[before:] == new, "everything that was acknowledged later, from where the log was cut"
        assert watcher.troubles("t-none") == ["truncated"]
        assert watcher.values("t-none")[before:] == []


def empty(broker: BrokerProcess) -> None:
    """Delete all records, and return when no crash brings them back."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    everything = [confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END) for topic in POLICIES]
    deleted = [future.result(TIMEOUT_S).low_watermark for future in admin.delete_records(everything).values()]
    deadline = time.monotonic() + TIMEOUT_S
    (file,) = broker.data_dir.glob("**/log-start-offset-checkpoint")
    while not {f"{topic} 0 {deleted[0]}" for topic in POLICIES} <= {*file.read_text().splitlines()}:
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.05)


def test_a_log_that_was_emptied_is_no_truncation(start_broker: StartBroker, watch: Watch) -> None:
    broker, values = filled(start_broker, **CHECKPOINTS)
    connected = watch(broker)
    consumed(connected, values)
    for name, end in (("stopped", broker.stop), ("killed", broker.kill)):
        empty(broker)
        end()
        broker.start()
        begun = watch(broker)  # at what was committed, in a log that has nothing
        values = produce(broker, name)
        for watcher in (connected, begun):
            watcher.until_last(values[-1], POLICIES)
            for topic in POLICIES:
                assert watcher.values(topic)[-RECORDS:] == values
                assert watcher.troubles(topic) == []
        assert all(begun.values(topic) == values for topic in POLICIES), "what was deleted does not come back"
        connected.commit()
