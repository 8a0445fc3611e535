"""kill -9 at random moments under load: no acknowledged record is lost, doubled or out of order."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from testing.clients.stock import Confluent, confluent_consume, create_topic
from testing.process.broker import BrokerProcess, is_kafka
from testing.samples import assert_equal, varied

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 5
PARTITIONS = 3
TIMEOUT_S = 60


class Load:
    """An idempotent producer in a thread: it counts up in every partition and notes what was acknowledged, until it is stopped.

    Each record carries its number, so that a reader can distinguish the records. The sizes of values make segments roll at
    intervals.
    """

    def __init__(self, bootstrap: str, topic: str, codec: str) -> None:
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)  # partition -> number -> offset
        self.failed: list[confluent_kafka.KafkaError] = []
        self._topic = topic
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 2,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "message.timeout.ms": TIMEOUT_S * 5000,
                "batch.size": 65_536,
                "queue.buffering.max.messages": 20_000,
                "log_level": 2,  # it reports each broken connection
            }
        )
        self._stopped = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, more: int) -> None:
        """Wait until this many more records have been acknowledged."""
        target = self._count() + more
        with self._progress:
            assert self._progress.wait_for(lambda: self._count() >= target, TIMEOUT_S), (self._count(), target, self.failed)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(TIMEOUT_S)
        assert self._producer.flush(TIMEOUT_S) == 0

    def _count(self) -> int:
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def _run(self) -> None:
        rng = random.Random(5)
        for number in itertools.count():
            if self._stopped.is_set():
                return
            for partition in range(PARTITIONS):
                value = b"%d:" % number + b"x" * rng.choice([10, 100, 1000])
                while True:
                    try:
                        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                        break
                    except BufferError:
                        self._producer.poll(0.01)
            # some 2000 records a second for each partition: the test must not be what limits the broker
            self._producer.poll(0.0005)

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        with self._progress:
            if error is not None:
                self.failed.append(error)
            else:
                number = int(message.value().partition(b":")[0])
                self.acknowledged[message.partition()][number] = message.offset()
            self._progress.notify()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_acknowledged_records_survive_kills(codec: str, start_broker: Callable[..., BrokerProcess]) -> None:
    rng = random.Random(1)
    broker = start_broker({"log.segment.bytes": "262144", "log.index.interval.bytes": "512"})
    create_topic(broker.bootstrap, "load", PARTITIONS)
    load = Load(broker.bootstrap, "load", codec)
    for _ in range(ROUNDS):
        load.wait_for(1500)
        time.sleep(rng.random() * 0.2)  # a random moment, not an event that a test waits for
        broker.kill()
        broker.start()
    load.wait_for(1500)
    load.stop()
    assert not load.failed
    for partition in range(PARTITIONS):
        acknowledged = load.acknowledged[partition]
        received = confluent_consume({"bootstrap.servers": broker.bootstrap}, "load", len(acknowledged), partition=partition)
        numbers = [int((r.sample.value or b"").partition(b":")[0]) for r in received]
        assert numbers == list(range(len(numbers))), "every record is there once and in order"
        assert len(numbers) == len(acknowledged), "everything was acknowledged in the end"
        assert {n: r.offset for n, r in zip(numbers, received, strict=True)} == acknowledged
    broker.stop()
    broker.start()
    assert len(confluent_consume({"bootstrap.servers": broker.bootstrap}, "load", 100)) == 100


@contextmanager
def loop(action: Callable[[int], None]) -> Iterator[None]:
    """Run `action(n)` for n = 0, 1, ... in a thread while the block runs; an exception of the action fails the test."""
    stopped, errors = threading.Event(), []

    def run() -> None:
        try:
            for n in itertools.count():
                if stopped.is_set():
                    return
                action(n)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(TIMEOUT_S)
    if errors:
        raise errors[0]


def partition_folders(broker: BrokerProcess, prefix: str) -> set[str]:
    """Return the names of topics that have folders on the disk, without folders that are marked as deleted."""
    folders = (p for p in broker.data_dir.rglob(f"{prefix}*-0") if p.is_dir())
    return {folder.name.rpartition("-")[0] for folder in folders}


def test_topics_and_logs_agree_after_kills(start_broker: Callable[..., BrokerProcess]) -> None:
    rng = random.Random(2)
    broker = start_broker()
    created: set[str] = set()
    deleted: set[str] = set()
    unsure: set[str] = set()  # the request was under way when the broker was killed: it may have been done or not
    config = {"bootstrap.servers": broker.bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 200}
    admin = AdminClient(config)
    done = threading.Semaphore(0)

    def churn(n: int) -> None:
        name = f"churn{n}"
        if _tried(admin.create_topics([NewTopic(name, 1 + n % 3, 1)], request_timeout=5)[name]):
            created.add(name)
            if n % 3:
                done.release()
                return
            if _tried(admin.delete_topics([name], request_timeout=5)[name]):
                created.discard(name)
                deleted.add(name)
                done.release()
                return
        created.discard(name)
        unsure.add(name)

    with loop(churn):
        for _ in range(ROUNDS):
            for _ in range(8):
                assert done.acquire(timeout=TIMEOUT_S)
            time.sleep(rng.random() * 0.05)  # a random moment, not an event that a test waits for
            broker.kill()
            broker.start()
        for _ in range(4):
            assert done.acquire(timeout=TIMEOUT_S)
    listed = {name: topic for name, topic in admin.list_topics(timeout=TIMEOUT_S).topics.items() if name.startswith("churn")}
    assert created <= set(listed)
    assert not deleted & set(listed)
    assert set(listed) <= created | unsure
    assert len(created) > ROUNDS * 4
    for name, topic in listed.items():
        assert len(topic.partitions) == 1 + int(name.removeprefix("churn")) % 3
    samples = varied(3)
    for name in sorted(created)[::5]:
        Confluent().produce(broker.bootstrap, name, samples)
        assert_equal(Confluent().consume(broker.bootstrap, name, 3), samples)
    broker.stop()
    broker.start()
    if not is_kafka():  # the broker removes in its own time what a crash left behind
        assert partition_folders(broker, "churn") == set(listed), "every topic has its folders, and there are no others"
    assert set(listed) <= set(AdminClient(config).list_topics(timeout=TIMEOUT_S).topics)


def _tried(future: object) -> bool:
    """Return whether an admin request succeeded; False when the broker ended during the request."""
    try:
        future.result(TIMEOUT_S)  # type: ignore[attr-defined] # concurrent.futures.Future, untyped in the client
    except confluent_kafka.KafkaException:
        return False
    return True


@pytest.mark.skipif(is_kafka(), reason="writes into our own files")
def test_a_torn_tail_is_cut_off(start_broker: Callable[..., BrokerProcess]) -> None:
    """Leave half a batch at the end of a log, as a power failure does, and indexes that know nothing of it."""
    broker = start_broker()
    create_topic(broker.bootstrap, "torn")
    samples = varied(200)
    for begin in range(0, 200, 20):
        Confluent().produce(broker.bootstrap, "torn", samples[begin : begin + 20])
    broker.kill()
    (segment,) = _segments(broker.data_dir, "torn-0")
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:100])  # a header that announces more bytes than there are
    for index in segment.parent.glob("*.*index"):
        index.write_bytes(b"")
    broker.start()
    assert_equal(Confluent().consume(broker.bootstrap, "torn", 200), samples)
    assert Confluent().produce(broker.bootstrap, "torn", varied(2)) == [200, 201]
    assert segment.read_bytes()[: len(whole)] == whole


def _segments(data_dir: Path, partition: str) -> list[Path]:
    return sorted(data_dir.rglob(f"{partition}/*.log"))
