"""The shapes of widely published compose files for one broker, each with its own clients: only the image's name would change.

The variables of a file's broker go to `pybroker container` in a container of namespaces. Service names are addresses of
127.0.0.0/8, and a published port is the same port or a forwarder. Clients connect as those of the file would: a neighbour by the
service's name, the host by localhost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testing.hosts.toy_container import Container, toy_container
from testing.places import ROOT

HEALTH_CHECK = ROOT / "container" / "healthcheck.py"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A published compose file. `neighbours` and `hosts` are the addresses that clients connect to, and that the broker must
    advertise to them; `published` maps ports of the host that differ from those in the container.
    """

    environment: Mapping[str, str]
    service: str = "kafka"
    neighbours: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    published: Mapping[int, int] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    node_id: int = 1
    data: str = "/var/lib/kafka/data"


SINGLE = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
KRAFT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
}

SHAPES = {
    "confluentinc, ZooKeeper pair": Shape(
        service="broker",
        environment={
            **SINGLE,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_JMX_PORT": "9101",
            "KAFKA_JMX_HOSTNAME": "localhost",
        },
        neighbours=("broker:29092",),
        hosts=("localhost:9092",),
    ),
    "confluentinc, KRaft": Shape(
        service="broker",
        environment={
            **SINGLE,
            **KRAFT,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_LISTENERS": "PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
        },
        neighbours=("broker:29092",),
        hosts=("localhost:9092",),
        data="/tmp/kraft-combined-logs",
    ),
    "apache/kafka, KRaft": Shape(
        service="broker",
        environment={
            **SINGLE,
            **KRAFT,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
            "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        },
        neighbours=("broker:19092",),
        hosts=("localhost:9092",),
    ),
    "another port of the host": Shape(
        environment={
            **SINGLE,
            **KRAFT,
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_LISTENERS": "INTERNAL://:9092,EXTERNAL://:9094,CONTROLLER://:9093",
            "KAFKA_ADVERTISED_LISTENERS": "INTERNAL://kafka:9092,EXTERNAL://localhost:19092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
        },
        neighbours=("kafka:9092",),
        hosts=("localhost:19092",),
        published={19092: 9094},
    ),
    "internal network only": Shape(
        environment={**SINGLE, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092", "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "true"},
        neighbours=("kafka:9092",),
    ),
    "Bitnami, KRaft": Shape(
        environment={
            "ALLOW_PLAINTEXT_LISTENER": "yes",
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_KRAFT_CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
            "KAFKA_CFG_NODE_ID": "0",
            "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
            "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
        neighbours=("kafka:9092",),
        hosts=("localhost:9094",),
        node_id=0,
    ),
    "wurstmeister, with topics": Shape(
        environment={
            "KAFKA_ADVERTISED_HOST_NAME": "localhost",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_CREATE_TOPICS": "orders:6:1,customers:1:1:compact",
            "KAFKA_BROKER_ID": "1001",
        },
        hosts=("localhost:9092",),
        topics=("customers=1", "orders=6"),
        node_id=1001,
    ),
}


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with toy_container(tmp_path) as made:
        yield made


@pytest.mark.parametrize("name", SHAPES)
def test_a_published_shape_works_for_the_clients_of_each_listener(container: Container, name: str) -> None:
    shape = SHAPES[name]
    container.hosts({shape.service: "127.0.0.2", "zookeeper": "127.0.0.3"})
    broker = container.broker(shape.environment)
    broker.wait_for(rf"\[KafkaServer id={shape.node_id}\] started")
    code, _, error = container.run([sys.executable, "-I", "-S", str(HEALTH_CHECK)])
    assert code == 0, error
    inner = (shape.neighbours or shape.hosts)[0]
    for check in (
        "kafka-topics --bootstrap-server {} --list",
        "/opt/kafka/bin/kafka-broker-api-versions.sh --bootstrap-server {}",
    ):
        code, _, error = container.run(["sh", "-c", check.format(inner)])
        assert code == 0, error
    assert (container.seen(shape.data) / "meta.properties").exists()
    for port, port_inside in shape.published.items():
        forwarder = container.start(
            [sys.executable, "-m", "testing.hosts.forward", str(port), f"127.0.0.1:{port_inside}"], {"PYTHONPATH": str(ROOT)}
        )
        forwarder.wait_for("forwarding")
    client = ("-m", "testing.clients.container_client")
    for bootstrap in (*shape.neighbours, *shape.hosts):
        code, output, error = container.python(*client, "records", bootstrap, "through-each-listener")
        assert (code, output) == (0, f"broker {shape.node_id} at {bootstrap}\n"), error
    _, output, _ = container.python(*client, "topics", (*shape.hosts, *shape.neighbours)[0])
    assert output.split() == [*shape.topics, "through-each-listener=1"]
    assert broker.stop() < 5
    assert "level=error" not in broker.errors
