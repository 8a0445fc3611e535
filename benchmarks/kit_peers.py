"""Brokers for tests beside each other: pybroker's, librdkafka's mock cluster, franz-go's kfake, and Apache Kafka.

Each is started, then a client writes a record and reads it: that is when it is ready. All have the same client,
confluent-kafka, and make the topic when the client names it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.places import ROOT
from testing.process import go, kafka_peer, procstat

TOPIC, GROUP = "orders", "billing"
TIMEOUT_S = 120
NOT_YET = {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 10, "log_level": 0}


class Running(NamedTuple):
    """A broker that has been started."""

    bootstrap: str
    pid: int | None
    """None for a broker in this process."""

    clean: Callable[[], object]
    """Removes everything, also by a new broker."""


class Kind(NamedTuple):
    """A way to have a broker."""

    name: str
    start: Callable[[], AbstractContextManager[Running]]
    cleaned_by: str
    is_slow: bool = False


def kinds(*, with_kafka: bool) -> list[Kind]:
    """Return what can be measured here, and print what cannot."""
    found = [
        Kind("pybroker in a thread", in_thread, "reset()"),
        Kind("pybroker as a process", as_process, "reset()"),
        Kind("librdkafka's mock", mock, "a new mock"),
    ]
    if shutil.which("go"):
        go.built("kfake")
        found.append(Kind("kfake as a process", kfake, "an admin client"))
    else:
        print("not measured: kfake, which needs Go")
    if with_kafka:
        kafka_peer.require()
        found.append(Kind(f"Apache Kafka {kafka_peer.RELEASE}, no container", kafka, "an admin client", is_slow=True))
    return found


def measure(rounds: int, *, with_kafka: bool) -> None:
    """Print the table; slow brokers have three rounds at most."""
    from benchmarks import peers  # noqa: PLC0415 (it imports parts of pybroker, whose memory counts)

    load = os.getloadavg()[0]
    rows = []
    for kind in kinds(with_kafka=with_kafka):
        times = [once(kind) for _ in range(1 + (min(rounds, 3) if kind.is_slow else rounds))][1:]
        ready, clean = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
        rows.append((kind.name, ready, memory_bytes(kind) / 1e6, clean, kind.cleaned_by))
    header = ["broker", "ready, ms", "memory, MB", "clean, ms", "cleaned by"]
    peers.table(f"Beside each other; load of the machine {load:.1f}, then {os.getloadavg()[0]:.1f}", header, rows)


def once(kind: Kind) -> tuple[float, float]:
    """Return the seconds until a record has gone through, and until nothing is left of it and of a group."""
    began = time.perf_counter()
    with kind.start() as running:
        round_trip(running.bootstrap)
        ready = time.perf_counter()
        commit(running.bootstrap)
        used = time.perf_counter()
        running.clean()
        return ready - began, time.perf_counter() - used


def round_trip(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUICK})
    producer.produce(TOPIC, b"value", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUICK})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


def commit(bootstrap: str) -> None:
    """Commit an offset; Kafka makes the topic of offsets for the first one, and refuses until it is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUICK})
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
            break
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
    consumer.close()


def memory_bytes(kind: Kind) -> int:
    """Return the RSS of the broker's process after a record; of one inside of a process, how much that grows, client included."""
    with kind.start() as running:
        if running.pid is not None:
            round_trip(running.bootstrap)
            return procstat.memory_bytes(running.pid)
    program = f"from benchmarks import kit_peers; kit_peers.print_growth(kit_peers.{kind.start.__name__})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout)


def print_growth(start: Callable[[], AbstractContextManager[Running]]) -> None:
    before = procstat.memory_bytes(os.getpid())
    with start() as running:
        round_trip(running.bootstrap)
        print(procstat.memory_bytes(os.getpid()) - before)


@contextmanager
def in_thread() -> Iterator[Running]:
    from pybroker.testing import Broker  # noqa: PLC0415 (its memory counts)

    with Broker.in_thread() as broker:
        yield Running(broker.bootstrap, None, broker.reset)


@contextmanager
def as_process() -> Iterator[Running]:
    from pybroker.testing import Broker  # noqa: PLC0415

    with Broker.subprocess() as broker:
        yield Running(broker.bootstrap, broker.pid, broker.reset)


def new_mock() -> tuple[Producer, str]:
    """Return the client that has the mock, and the mock's address. Python has no other access to it."""
    client = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "", **QUICK})
    (broker,) = client.list_topics(timeout=TIMEOUT_S).brokers.values()
    return client, f"{broker.host}:{broker.port}"


@contextmanager
def mock() -> Iterator[Running]:
    kept, bootstrap = new_mock()
    yield Running(bootstrap, None, new_mock)
    del kept


@contextmanager
def kfake() -> Iterator[Running]:
    process = subprocess.Popen([go.built("kfake")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().removeprefix("READY ").strip()
        yield Running(bootstrap, process.pid, lambda: delete_all(bootstrap))
        process.communicate()


@contextmanager
def kafka() -> Iterator[Running]:
    """Start a JVM with the options of Kafka's own script; its directory is formatted by another JVM, as in Kafka's image."""
    with tempfile.TemporaryDirectory() as folder:
        port = kafka_peer.free_port()
        command = kafka_peer.command(Path(folder), port)
        with (Path(folder) / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        with process:
            try:
                yield Running(f"127.0.0.1:{port}", process.pid, lambda: delete_all(f"127.0.0.1:{port}"))
            finally:
                process.terminate()


def delete_all(bootstrap: str) -> None:
    """Delete the topic and the group, and wait until a list of topics has it no more."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    for future in (*admin.delete_topics([TOPIC]).values(), *admin.delete_consumer_groups([GROUP]).values()):
        future.result(TIMEOUT_S)
    while TOPIC in admin.list_topics(timeout=TIMEOUT_S).topics:
        time.sleep(0.001)
