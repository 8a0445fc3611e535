"""Compaction under real clients: the newest record of each key is there, at its offset, also after kill -9 in the middle."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from kafka import KafkaConsumer, TopicPartition

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.process.kafka_tools import run_tool
from testing.waiting import Deadline, until

pytestmark = pytest.mark.skipif(is_kafka(), reason="looks at when our cleaner has finished")

KEYS = 300
EAGER = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "80000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    "message.timestamp.type": "CreateTime",
}


def size_of(path: Path) -> int:
    """Return the size of a file, 0 for one that the cleaner has replaced since it was listed."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class Writer:
    """A producer that writes random keys in rounds, idempotently, and knows which records must be there in the end."""

    def __init__(self, bootstrap: str, topic: str, codec: str) -> None:
        self.latest: dict[bytes, tuple[int, bytes | None]] = {}
        self._topic, self._seeded, self._number = topic, random.Random(11), 0
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 2,
                "log_level": 2,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            key = b"key-%d" % self._seeded.randrange(KEYS)
            value = None if self._seeded.random() < 0.1 else b"%d " % self._number * 20
            self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            if self._number % 100 == 0:
                assert self._producer.flush(60) == 0  # batches that fit into a segment
        assert self._producer.flush(60) == 0

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        assert error is None
        offset, key = message.offset(), message.key()
        assert isinstance(offset, int)
        assert isinstance(key, bytes)
        if offset > self.latest.get(key, (-1, None))[0]:
            self.latest[key] = (offset, message.value())

    def close(self, key: bytes) -> None:
        """Write two records of more than half a segment; the second begins a new segment, so all before it may be compacted."""
        for _ in range(2):
            self._producer.produce(self._topic, self._seeded.randbytes(45_000), key)
            assert self._producer.flush(60) == 0


def read(broker: BrokerProcess, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of every record that is there."""
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 2}
    consumer = confluent_kafka.Consumer(config | {"enable.partition.eof": True})
    found: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        deadline = Deadline("the end of the partition")
        while True:
            deadline.check()
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    return found
                found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def is_compacted(broker: BrokerProcess, topic: str, writer: Writer) -> bool:
    """Return whether every old version of the keys has gone; tombstones may be there or not."""
    found = [one for one in read(broker, topic) if one[1] is not None and one[1].startswith(b"key-")]
    return {key: (offset, value) for offset, key, value in found if value is not None} == {
        key: one for key, one in writer.latest.items() if one[1] is not None
    } and len({key for _, key, _ in found}) == len(found)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_newest_record_of_each_key_is_kept(start_broker: Callable[..., BrokerProcess], tmp_path: Path, codec: str) -> None:
    broker = start_broker(EAGER)
    create_topic(broker.bootstrap, "kept", 1, CONFIGS)
    writer = Writer(broker.bootstrap, "kept", codec)
    writer.write(5000)
    writer.close(b"end-0")
    until(lambda: is_compacted(broker, "kept", writer), "one record of each key")
    folder = broker.data_dir / "kept-0"
    logs, indexes = ([path for path in sorted(folder.glob(kind)) if path.stat().st_size] for kind in ("*.log", "*.index"))
    printed = run_tool("kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, logs))).stdout
    assert printed.count("isvalid: true") >= len(logs)
    assert "isvalid: false" not in printed
    printed = run_tool("kafka.tools.DumpLogSegments", "--index-sanity-check", "--files", ",".join(map(str, indexes))).stdout
    assert printed.count("passed sanity check") == len(indexes), printed
    partition = TopicPartition("kept", 0)
    old = KafkaConsumer(bootstrap_servers=broker.bootstrap, api_version=(0, 10), auto_offset_reset="earliest")
    old.assign([partition])
    (end,) = old.end_offsets([partition]).values()
    found = {}
    while old.position(partition) < end:
        for one in old.poll(timeout_ms=60_000).get(partition, []):
            found[one.key] = (one.offset, one.value)
    old.close()
    del found[b"end-0"]
    assert {key: one for key, one in found.items() if one[1] is not None} == {
        key: one for key, one in writer.latest.items() if one[1] is not None
    }, "a client of 0.10 reads the topic converted"
    writer.write(500)
    writer.close(b"end-1")
    until(lambda: is_compacted(broker, "kept", writer), "the second round")
    before = read(broker, "kept")
    broker.stop()
    broker.start()
    after = read(broker, "kept")
    assert [one for one in after if one[2] is not None] == [one for one in before if one[2] is not None]


def test_kill_9_in_the_middle_loses_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    broker, seeded = start_broker(EAGER | {"log.cleaner.backoff.ms": "0"}), random.Random(5)
    create_topic(broker.bootstrap, "kept", 1, CONFIGS)
    writer = Writer(broker.bootstrap, "kept", "lz4")
    for number in range(6):
        writer.write(3000)
        writer.close(b"end-%d" % number)
        time.sleep(seeded.random() * 0.2)  # at some moment of a cleaning
        broker.kill()
        broker.start()
        found = {key: (offset, value) for offset, key, value in read(broker, "kept")}
        for key, one in writer.latest.items():
            assert found.get(key, (0, None)) == one or (one[1] is None and key not in found)
    until(lambda: is_compacted(broker, "kept", writer), "one record of each key")
    assert "Traceback" not in broker.log_text


def test_committed_offsets_are_compacted_and_loaded(start_broker: Callable[..., BrokerProcess]) -> None:
    small = {
        "offsets.topic.segment.bytes": "20000",
        "offsets.topic.num.partitions": "1",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    broker = start_broker(EAGER | small)
    create_topic(broker.bootstrap, "read", 4, {})
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False}
    )
    for round_number in range(1, 201):
        consumer.commit(
            offsets=[confluent_kafka.TopicPartition("read", p, round_number * 10 + p) for p in range(4)], asynchronous=False
        )
    folder = broker.data_dir / "__consumer_offsets-0"

    def size() -> int:
        return sum(size_of(path) for path in folder.glob("*.log"))

    until(lambda: size() < 40_000, "the topic of offsets became small")
    for is_clean in (True, False):
        broker.stop() if is_clean else broker.kill()
        broker.start()
        committed = consumer.committed([confluent_kafka.TopicPartition("read", p) for p in range(4)], timeout=60)
        assert [one.offset for one in committed] == [2000 + p for p in range(4)]
    consumer.close()
