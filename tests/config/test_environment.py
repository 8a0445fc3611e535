from __future__ import annotations

import pytest

from pybroker.config.environment import properties_of_environment, property_name

NAMES = {
    "KAFKA_LOG_DIRS": "log.dirs",
    "KAFKA_NODE_ID": "node.id",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "auto.create.topics.enable",
    "KAFKA_LISTENER_NAME_DOCKER__NET_SSL_KEY": "listener.name.docker_net.ssl.key",
    "KAFKA_A___B": "a-b",
    "KAFKA_A____B": "a-.b",
    "KAFKA_CLUSTER_ID": "cluster.id",
}


@pytest.mark.parametrize(("variable", "name"), NAMES.items())
def test_names(variable: str, name: str) -> None:
    assert property_name(variable) == name
    assert properties_of_environment({variable: "v"}) == {name: (variable, "v")}


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HOME",
        "KAFKA_VERSION",
        "KAFKA_",
        "PATH",
        "XKAFKA_LOG_DIRS",
    ],
)
def test_what_is_no_property(variable: str) -> None:
    assert properties_of_environment({variable: "v"}) == {}


def test_cluster_id_has_two_names_and_kafkas_own_wins() -> None:
    assert properties_of_environment({"CLUSTER_ID": "a"}) == {"cluster.id": ("CLUSTER_ID", "a")}
    both = {"CLUSTER_ID": "a", "KAFKA_CLUSTER_ID": "b"}
    assert properties_of_environment(both) == {"cluster.id": ("KAFKA_CLUSTER_ID", "b")}


def test_advertised_listeners_alone_set_where_to_listen() -> None:
    advertised = "PLAINTEXT://broker:9092,OTHER://localhost:29092"
    found = properties_of_environment({"KAFKA_ADVERTISED_LISTENERS": advertised})
    assert found["listeners"] == ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://0.0.0.0:9092,OTHER://0.0.0.0:29092")
    assert found["advertised.listeners"][1] == advertised
