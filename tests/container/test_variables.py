"""The environment of a container, as the files of other images set it."""

from __future__ import annotations

import pytest

from pybroker.container.variables import read_variables


def properties(**environment: str) -> dict[str, tuple[str, str]]:
    return dict(read_variables(environment).properties)


def test_bitnamis_prefix_names_the_same_property_and_stays_the_origin() -> None:
    assert properties(KAFKA_CFG_LOG_DIRS="/d") == {"log.dirs": ("KAFKA_CFG_LOG_DIRS", "/d")}


@pytest.mark.parametrize(
    ("advertised", "listeners"),
    [("PLAINTEXT://localhost:19092", "PLAINTEXT://:9092"), ("A://h:1,B://h:2", "A://0.0.0.0:1,B://0.0.0.0:2")],
)
def test_bitnamis_image_listens_at_its_own_port_whatever_is_advertised(advertised: str, listeners: str) -> None:
    origin = "KAFKA_CFG_ADVERTISED_LISTENERS"
    assert properties(KAFKA_CFG_ADVERTISED_LISTENERS=advertised)["listeners"] == (origin, listeners)
    assert properties(KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://h:1")["listeners"][1] == "PLAINTEXT://0.0.0.0:1"


def test_without_the_prefix_wins_as_in_bitnamis_image() -> None:
    read = read_variables({"KAFKA_CFG_NODE_ID": "1", "KAFKA_NODE_ID": "2"})
    assert read.properties["node.id"] == ("KAFKA_NODE_ID", "2")
    assert read.remarks == ("KAFKA_CFG_NODE_ID is ignored, because KAFKA_NODE_ID has another value",)
    assert read_variables({"KAFKA_CFG_NODE_ID": "1", "KAFKA_NODE_ID": "1"}).remarks == ()


@pytest.mark.parametrize("variable", ["CLUSTER_ID", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CFG_CLUSTER_ID"])
def test_the_cluster_id_has_many_names(variable: str) -> None:
    assert properties(**{variable: "abc"}) == {"cluster.id": (variable, "abc")}


def test_of_two_cluster_ids_kafkas_wins() -> None:
    assert properties(KAFKA_KRAFT_CLUSTER_ID="a", CLUSTER_ID="b")["cluster.id"] == ("CLUSTER_ID", "b")


@pytest.mark.parametrize(
    "variable",
    [
        *("KAFKA_HOME", "KAFKA_VERSION", "KAFKA_ENABLE_KRAFT", "KAFKA_DATA_DIRS", "ALLOW_PLAINTEXT_LISTENER", "BITNAMI_DEBUG"),
        *("KAFKA_PORT", "KAFKA_PORT_9092_TCP", "KAFKA_PORT_9092_TCP_ADDR", "KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT_CLIENT"),
        *("KAFKA_BROKER_SERVICE_HOST", "KAFKA_CREATE_TOPICS_SEPARATOR", "KAFKA_CONNECT_PORT_8083_TCP_PROTO", "PATH"),
    ],
)
def test_what_surprises_no_user(variable: str) -> None:
    read = read_variables({variable: "x"})
    assert (dict(read.properties), read.remarks) == ({}, ())


def test_what_could_surprise_a_user_is_one_line() -> None:
    environment = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_JMX_PORT": "9101",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
        "KAFKA_CFG_CLIENT_USERS": "user",
        "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_PROTOCOL_NAME": "INSIDE",
        "KAFKA_OPTS": "",
    }
    read = read_variables(environment)
    assert dict(read.properties) == {}
    names = sorted(environment.keys() - {"KAFKA_OPTS"})
    assert read.remarks == (
        f"Variables without effect, because they are for Java or for parts of other images: {', '.join(names)}",
    )


def test_what_no_broker_of_ours_reads_is_kept_apart() -> None:
    environment = {
        "KAFKA_ZOOKEEPER_CONNECT": "zk:2181",
        "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "3",
        "CONFLUENT_METRICS_REPORTER_TOPIC_REPLICAS": "2",
        "KAFKA_CFG_SUPER_USERS": "User:a",
        "KAFKA_CLIENT_USERS": "user",
        "BROKER_ID_COMMAND": "hostname",
    }
    read = read_variables(environment)
    assert dict(read.properties) == {"super.users": ("KAFKA_CFG_SUPER_USERS", "User:a")}
    assert dict(read.others) == {
        "zookeeper.connect": ("KAFKA_ZOOKEEPER_CONNECT", "zk:2181"),
        "confluent.license.topic.replication.factor": ("KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR", "3"),
        "confluent.metrics.reporter.topic.replicas": ("CONFLUENT_METRICS_REPORTER_TOPIC_REPLICAS", "2"),
        "client.users": ("KAFKA_CLIENT_USERS", "user"),
        "BROKER_ID_COMMAND": ("BROKER_ID_COMMAND", "hostname"),
    }


def test_commands_of_another_image_are_one_line() -> None:
    read = read_variables({"HOSTNAME_COMMAND": "hostname", "PORT_COMMAND": "", "RACK_COMMAND": "curl http://x"})
    (line,) = read.warnings
    assert line.startswith("HOSTNAME_COMMAND, RACK_COMMAND: ignored, because no command is run; ")


def test_the_advertised_host_of_older_images() -> None:
    found = properties(KAFKA_ADVERTISED_HOST_NAME="localhost", KAFKA_PORT="tcp://10.0.0.1:9092")
    assert found["advertised.listeners"][1] == "PLAINTEXT://localhost:9092"
    assert found["listeners"][1] == "PLAINTEXT://:9092"
    found = properties(KAFKA_ADVERTISED_HOST_NAME="h", KAFKA_PORT="9093", KAFKA_ADVERTISED_PORT="19093")
    assert (found["advertised.listeners"][1], found["listeners"][1]) == ("PLAINTEXT://h:19093", "PLAINTEXT://:9093")
    found = properties(KAFKA_ADVERTISED_HOST_NAME="h", KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://other:1")
    assert found["advertised.listeners"] == ("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://other:1")


def test_our_own_variables() -> None:
    environment = {"PYBROKER_ADVERTISED": "h:1", "PYBROKER_LOG_LEVEL": "WARN", "PYBROKER_TOPICS": "a", "PYBROKER_TOPIC": "b"}
    read = read_variables(environment)
    assert dict(read.properties) == {"pybroker.advertised.outside": ("PYBROKER_ADVERTISED", "h:1")}
    assert dict(read.topics) == {"PYBROKER_TOPICS": "a"}
    assert read.remarks == ("Unknown variable PYBROKER_TOPIC",)
