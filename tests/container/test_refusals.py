"""What would be several clusters of one broker, or a listener without its protection."""

from __future__ import annotations

import pytest

from pybroker.config.setting import ConfigError
from pybroker.container.refusals import check

MAP = "listener.security.protocol.map"
KRAFT = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@kafka:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
}


def texts(properties: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: ("HERE", text) for name, text in properties.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"process.roles": "controller,broker"},
        {"process.roles": ""},
        {"node.id": "", "broker.id": "1"},
        {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "kafka:9093"},
        {"offsets.topic.replication.factor": "1", "default.replication.factor": "1", "zookeeper.connect": "a:1,b:1,c:1"},
    ],
)
def test_a_single_node_is_taken(changes: dict[str, str]) -> None:
    check(texts(KRAFT | changes))
    check({})


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"process.roles": "controller"}, "process.roles", "no controller apart from its broker"),
        ({"process.roles": " broker "}, "process.roles", "would be a cluster of its own"),
        ({"controller.quorum.voters": "1@a:1, 2@b:1,3@c:1"}, "controller.quorum.voters", "names 3 controllers"),
        ({"controller.quorum.voters": "2@b:1"}, "controller.quorum.voters", "is not the node of this container, 1"),
        ({"controller.quorum.bootstrap.servers": "a:1,b:1"}, "controller.quorum.bootstrap.servers", "names 2 controllers"),
        ({"listeners": "SASL_PLAINTEXT://:1"}, MAP, "the listener SASL_PLAINTEXT is SASL_PLAINTEXT"),
        ({"listeners": "SSL://:1", MAP: ""}, "listeners", "the listener SSL is SSL"),
        ({"listeners": "client://:1", MAP: "CLIENT:sasl_ssl"}, MAP, "the listener CLIENT is SASL_SSL"),
        ({"advertised.listeners": "SSL://h:1", MAP: ""}, "advertised.listeners", "the listener SSL is SSL"),
        ({MAP: "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"}, MAP, "the listener CONTROLLER is SASL_PLAINTEXT"),
        ({"offsets.topic.replication.factor": "3"}, "offsets.topic.replication.factor", "needs 3 brokers"),
        ({"default.replication.factor": "2"}, "default.replication.factor", "needs 2 brokers"),
        ({"controller.quorum.voters": "1@a:1 2@b:1"}, "controller.quorum.voters", "names 2 controllers"),
        ({"controller.quorum.voters": "1@a:1;2@b:1"}, "controller.quorum.voters", "names 2 controllers"),
        ({"controller.quorum.voters": "kafka:9093"}, "controller.quorum.voters", "is not ID@HOST:PORT"),
        (
            {"controller.quorum.voters": "2@b:1", "node.id": ""},
            "controller.quorum.voters",
            "is not the node of this container, 1",
        ),
        ({"zookeeper.connect": "zoo:2181", "broker.id": "2"}, "broker.id", "looks like one of several brokers"),
        ({"advertised.listeners": "A://_{HOSTNAME_COMMAND}:1"}, "advertised.listeners", "no command is run"),
        ({"security.inter.broker.protocol": "SASL_SSL"}, "security.inter.broker.protocol", "SASL_SSL is not there"),
        ({"min.insync.replicas": "2"}, "min.insync.replicas", "needs 2 brokers"),
        ({"transaction.state.log.replication.factor": "3"}, "transaction.state.log.replication.factor", "needs 3 brokers"),
        ({"transaction.state.log.min.isr": "2"}, "transaction.state.log.min.isr", "needs 2 brokers"),
    ],
)
def test_what_one_broker_cannot_be_is_refused_in_one_line(changes: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(texts(KRAFT | changes))
    line = str(caught.value)
    assert line.startswith(f"{key}=")
    assert reason in line
    assert line.endswith("(from HERE)")
    assert "\n" not in line
