"""docker-compose.cluster.yml as it is: three brokers are one cluster, and one that is killed costs no acknowledged record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from testing.containers import compose
from testing.containers.compose import Project
from testing.containers.containers import unique
from testing.containers.engine import Engine
from testing.places import ROOT
from testing.process.kafka_peer import free_port
from testing.waiting import until

TIMEOUT_S = 120
NUMBERS = (1, 2, 3)


@pytest.fixture
def cluster(engine: Engine, image: str) -> Iterator[tuple[Project, str]]:
    """Yield the project and the addresses of its brokers."""
    if compose.command(engine) is None:
        pytest.skip("no `docker compose` or podman-compose (pip install --group containers)")
    ports = {number: free_port() for number in NUMBERS}
    environment = {f"KAFKA_{number}_PORT": str(port) for number, port in ports.items()}
    project = Project(engine, unique("cluster"), ROOT / "docker-compose.cluster.yml", environment)
    try:
        project.run("up", "--detach")
        yield project, ",".join(f"localhost:{port}" for port in ports.values())
    finally:
        project.down()


def in_sync(admin: AdminClient) -> list[int]:
    """Return how many replicas of each partition are in sync; nothing while a broker is away."""
    found = admin.list_topics("t", timeout=TIMEOUT_S)
    return [len(one.isrs) for one in found.topics["t"].partitions.values()] if len(found.brokers) == len(NUMBERS) else []


def write(bootstrap: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    failed: list[object] = []
    for number in range(first, first + count):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed


def test_a_broker_that_is_killed_costs_nothing(engine: Engine, cluster: tuple[Project, str]) -> None:
    project, bootstrap = cluster
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers) == len(NUMBERS), "three brokers are there", TIMEOUT_S)
    admin.create_topics([NewTopic("t", 3)])["t"].result(TIMEOUT_S)
    write(bootstrap, 0, 1_000)
    killed = project.container("kafka-2")
    engine.run("kill", killed)
    write(bootstrap, 1_000, 1_000)
    engine.run("start", killed)
    until(lambda: in_sync(admin) == [3, 3, 3], "the broker is back, and in sync", TIMEOUT_S)
    consumer = KafkaConsumer(
        "t", bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000
    )
    values = sorted(int(next(consumer).value) for _ in range(2_000))
    consumer.close()
    assert values == list(range(2_000))
