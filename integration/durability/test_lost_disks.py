"""Acknowledged records are there after a topic's name was used again, a disk was not mounted, or the metadata was lost."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.clients.stock import create_topic
from testing.process.broker import BrokerProcess, is_kafka

pytestmark = pytest.mark.skipif(is_kafka(), reason="looks into our data directories")

TIMEOUT_S = 60


class Broker(BrokerProcess):
    """A broker with two data directories, `one` and `two`."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        super().__init__(folder, overrides)
        self.directories = [folder / "one", folder / "two"]
        self.data_dir = Path(",".join(map(str, self.directories)))

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ["--data-dir", str(self.data_dir)]
        return subprocess.run(
            [sys.executable, "-m", "pybroker", *arguments, *where], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def produce(self, topic: str, count: int, *, partitions: int = 1, label: str = "") -> None:
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(count):
            producer.produce(
                topic, f"{label}{number}", partition=number % partitions, on_delivery=lambda error, _: errors.append(error)
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == [None] * count

    def values(self, topic: str, partition: int = 0) -> list[str]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False})
        try:
            place = TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            consumer.assign([TopicPartition(topic, partition, low)])
            found: list[str] = []
            while len(found) < high - low:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None
                assert message.error() is None
                found.append(message.value().decode())
            return found
        finally:
            consumer.close()


@contextlib.contextmanager
def broker_in(folder: Path, **overrides: str) -> Iterator[Broker]:
    broker = Broker(folder, **overrides)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()


def test_a_topic_that_is_created_again_keeps_its_records_after_kill_9(tmp_path: Path) -> None:
    """Delete the old topic's records up to 500, and let the broker checkpoint that."""
    with broker_in(
        tmp_path, **{"log.flush.start.offset.checkpoint.interval.ms": "100", "log.initial.task.delay.ms": "100"}
    ) as broker:
        create_topic(broker.bootstrap, "orders")
        broker.produce("orders", 500)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for deleted in admin.delete_records([TopicPartition("orders", 0, 500)]).values():
            assert deleted.result(TIMEOUT_S).low_watermark == 500
        (checkpoint,) = [one / "log-start-offset-checkpoint" for one in broker.directories if (one / "orders-0").exists()]
        _wait_for(checkpoint, "orders 0 500")
        stale = {path: path.read_bytes() for path in checkpoint.parent.glob("log-start-offset-checkpoint*")}
        for topic in admin.delete_topics(["orders"]).values():
            topic.result(TIMEOUT_S)
        create_topic(broker.bootstrap, "orders")
        broker.produce("orders", 300, label="new")
        broker.kill()
        for path, content in stale.items():  # as if the topic had been deleted and created again before the next pass
            path.write_bytes(content)
        broker.start()
        assert broker.values("orders") == [f"new{number}" for number in range(300)]


def _wait_for(path: Path, text: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def test_a_missing_directory_comes_back_and_another_is_given_up(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        create_topic(broker.bootstrap, "orders", 4)
        broker.produce("orders", 40, partitions=4)
        broker.stop()
        two, unmounted = broker.directories[1], tmp_path / "unmounted"
        lost = sorted(int(one.name[-1]) for one in two.glob("orders-?"))
        assert len(lost) == 2
        two.rename(unmounted)
        two.mkdir()
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "any"})
        ends = {}
        for number in range(4):
            with contextlib.suppress(Exception):
                ends[number] = consumer.get_watermark_offsets(TopicPartition("orders", number), timeout=2)[1]
        consumer.close()
        assert ends == {number: 10 for number in range(4) if number not in lost}, (
            "no partition is given up, and none is created again"
        )
        broker.stop()
        listed = [line.split() for line in broker.command("directories", "list").stdout.splitlines()]
        assert sorted(state for _, _, state, _ in listed) == ["STATE", "missing", "present"]
        (missing,) = [directory_id for directory_id, _, state, _ in listed if state == "missing"]
        two.rmdir()
        unmounted.rename(two)
        broker.start()
        assert [len(broker.values("orders", number)) for number in range(4)] == [10] * 4, "the disk is mounted again"
        broker.stop()
        two.rename(unmounted)
        given_up = broker.command("directories", "forget", missing)
        assert given_up.returncode == 0, given_up.stderr
        broker.start()
        assert [len(broker.values("orders", number)) for number in range(4)] == [0 if n in lost else 10 for n in range(4)]
        in_use = broker.command("directories", "list")
        assert in_use.returncode == 1
        assert "is in use by another process or container; stop the broker first" in in_use.stderr


def test_lost_metadata_is_rebuilt_from_the_directories(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        create_topic(broker.bootstrap, "orders", 3)
        old = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "enable.idempotence": True})
        old.produce("orders", "from the old producer", partition=0)
        assert old.flush(TIMEOUT_S) == 0
        broker.produce("orders", 30, partitions=3)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
        consumer.close()
        before = [broker.values("orders", number) for number in range(3)]
        broker.stop()
        for path in broker.directories[0].glob("metadata.sqlite*"):
            path.unlink()

        refused = broker.command("start", "--port", "0")
        assert refused.returncode == 1
        (line,) = [line for line in refused.stderr.splitlines() if line.startswith("Error:")]
        assert "metadata.sqlite is new" in line
        assert "pybroker directories adopt" in line
        assert not list(broker.directories[0].glob("metadata.sqlite*")), "nothing is created where a disk may be missing"

        adopted = broker.command("directories", "adopt", "--set", "retention.ms=-1")
        assert adopted.returncode == 0, adopted.stderr
        assert "orders: partitions=3, retention.ms=-1" in adopted.stdout
        broker.start()
        assert [broker.values("orders", number) for number in range(3)] == before
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        assert consumer.committed([TopicPartition("orders", 1)], timeout=TIMEOUT_S)[0].offset == 7
        consumer.close()
        old.produce("orders", "once more", partition=0)
        assert old.flush(TIMEOUT_S) == 0
        broker.produce("orders", 30, partitions=3, label="later")
        assert [len(broker.values("orders", number)) for number in range(3)] == [22, 20, 20], "nothing is a duplicate"
        assert not [path for one in broker.directories for path in one.glob("*-stray")]
