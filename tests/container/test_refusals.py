"""Refused configurations: several clusters of one broker, a listener without its protection, a broker without access control."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pybroker.clock import ManualClock
from pybroker.config.setting import ConfigError
from pybroker.container import access_control, refusals, several_brokers
from pybroker.container.entry import read_entry
from pybroker.metadata.image import empty_image
from pybroker.metadata.scram_users import ScramUsers
from pybroker.model import BrokerId
from pybroker.security.sasl.key_set import KeySet
from pybroker.security.sasl.offers import Needs, offers

if TYPE_CHECKING:
    from pathlib import Path

MAP = "listener.security.protocol.map"
KRAFT = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@kafka:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    MAP: "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
}


SERVERS = "controller.quorum.bootstrap.servers"
OWN_HOST = "service-of-this-container"


def check(properties: dict[str, tuple[str, str]]) -> None:
    refusals.check(properties)
    several_brokers.check(several_brokers.stated([properties]), lambda host: host in ("localhost", OWN_HOST))


def texts(properties: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {name: ("HERE", text) for name, text in properties.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"process.roles": "controller,broker"},
        {"process.roles": ""},
        {"node.id": "", "broker.id": "1"},
        {"controller.quorum.voters": "", SERVERS: "localhost:9093"},
        {"controller.quorum.voters": "", SERVERS: f"{OWN_HOST}:9093"},
        {"controller.quorum.voters": "", SERVERS: "Kafka:9093", "advertised.listeners": "PLAINTEXT://kafka:19092"},
        {"controller.quorum.voters": "", SERVERS: "h:9093", "listeners": "PLAINTEXT://:9092,CONTROLLER://h:9093"},
        {"controller.quorum.voters": "", SERVERS: "h:19093", "advertised.listeners": "CONTROLLER://h:19093"},
        {"zookeeper.connect": "a:1", "node.id": "", "broker.id": "1001", "controller.quorum.voters": ""},
        {"confluent.license.topic.replication.factor": "1", "BROKER_ID_COMMAND": "hostname"},
        {"offsets.topic.replication.factor": "1", "default.replication.factor": "1", "zookeeper.connect": "a:1,b:1,c:1"},
    ],
)
def test_a_single_node_is_taken(changes: dict[str, str]) -> None:
    check(texts(KRAFT | changes))
    check({})


THREE = "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093"


@pytest.mark.parametrize(
    "changes",
    [
        {"controller.quorum.voters": THREE},
        {"controller.quorum.voters": THREE, "process.roles": "controller"},
        {"controller.quorum.voters": "", SERVERS: "kafka-1:9093,kafka-2:9093,kafka-3:9093"},
        {"node.id": "4", "process.roles": "broker"},
        {"metadata.store": "etcd:http://etcd:2379", "controller.quorum.voters": "", "process.roles": ""},
        {"pybroker.replication.factor.accept": "any"},
    ],
)
def test_one_of_several_nodes_and_one_that_accepts_any_are_taken_with_their_replication_factors(changes: dict[str, str]) -> None:
    check(texts(KRAFT | {"default.replication.factor": "3", "min.insync.replicas": "2"} | changes))


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"controller.quorum.voters": "2@b:1"}, "controller.quorum.voters", "does not name the node of this container, 1"),
        ({SERVERS: "kafka-1:9093"}, SERVERS, "kafka-1 is not known as an address of this container"),
        (
            {SERVERS: "kafka-1:9093", "advertised.listeners": "PLAINTEXT://kafka-2:9092"},
            SERVERS,
            "if it is this container, write localhost:9093",
        ),
        ({SERVERS: "localhost:9193"}, SERVERS, "does not name the controller of this container, whose port is 9093"),
        ({SERVERS: "localhost"}, SERVERS, "is not HOST:PORT"),
        ({"confluent.license.topic.replication.factor": "3"}, "confluent.license.topic.replication.factor", "needs 3 brokers"),
        ({"confluent.metrics.reporter.topic.replicas": "2"}, "confluent.metrics.reporter.topic.replicas", "needs 2 brokers"),
        ({"share.coordinator.state.topic.min.isr": "2"}, "share.coordinator.state.topic.min.isr", "needs 2 brokers"),
        ({"BROKER_ID_COMMAND": "hostname", "node.id": ""}, "BROKER_ID_COMMAND", "numbers several brokers"),
        ({"offsets.topic.replication.factor": "3"}, "offsets.topic.replication.factor", "needs 3 brokers"),
        ({"default.replication.factor": "2"}, "default.replication.factor", "needs 2 brokers"),
        ({"controller.quorum.voters": "1@a:1 2@b:1"}, "controller.quorum.voters", "is not ID@HOST:PORT"),
        ({"controller.quorum.voters": "kafka:9093"}, "controller.quorum.voters", "is not ID@HOST:PORT"),
        (
            {"controller.quorum.voters": "2@b:1", "node.id": ""},
            "controller.quorum.voters",
            "does not name the node of this container, 1",
        ),
        (
            {"zookeeper.connect": "zoo:2181", "broker.id": "2", "node.id": "", "controller.quorum.voters": ""},
            "broker.id",
            "looks like one of several brokers",
        ),
        ({"advertised.listeners": "A://_{HOSTNAME_COMMAND}:1"}, "advertised.listeners", "no command is run"),
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


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_BROKER_ID": "2"}, "broker.id=2: with ZooKeeper looks like one of several"),
        ({"KAFKA_CONFLUENT_BALANCER_TOPIC_REPLICATION_FACTOR": "3"}, "needs 3 brokers"),
        ({"CONFLUENT_METRICS_REPORTER_TOPIC_REPLICAS": "3"}, "(from CONFLUENT_METRICS_REPORTER_TOPIC_REPLICAS)"),
        ({"BROKER_ID_COMMAND": "hostname | cut -d- -f2"}, "BROKER_ID_COMMAND=hostname | cut -d- -f2: numbers several brokers"),
        ({"KAFKA_ADVERTISED_LISTENERS": "h:1"}, "advertised.listeners=h:1: 'h:1' is not NAME://host:port"),
        ({"KAFKA_CFG_ADVERTISED_LISTENERS": "A://h:1,A://g:2"}, "advertised.listeners=A://h:1,A://g:2: A is there twice"),
    ],
)
def test_what_the_environment_asks_for_is_refused(environment: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_entry(environment, root="/nonexistent")
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("controller.quorum.voters", "2@a:1"),
        ("process.roles", "controller"),
        (SERVERS, "kafka-1:1"),
        ("zookeeper.connect", "zoo:2181\nbroker.id=3"),
        ("share.coordinator.state.topic.replication.factor", "3"),
    ],
)
def test_an_empty_variable_over_a_file_takes_nothing_away(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{name}={text}\n")
    variable = "KAFKA_" + name.upper().replace(".", "_")
    with pytest.raises(ConfigError, match=r"\(from .*server\.properties\)"):
        read_entry({variable: ""}, file=file)


@pytest.mark.parametrize("broker_id", ["0", "1"])
def test_brokers_that_may_be_several_are_a_warning(broker_id: str) -> None:
    entry = read_entry({"KAFKA_ZOOKEEPER_CONNECT": "zk:2181", "KAFKA_BROKER_ID": broker_id}, root="/nonexistent")
    (line,) = entry.warnings
    assert line.startswith("zookeeper.connect=zk:2181 is ignored: pybroker needs no ZooKeeper. ")
    assert line.endswith("If other brokers have the same, each is a cluster of its own: use one broker")


ASKS_FOR_ACCESS_CONTROL = [
    ({"KAFKA_CLIENT_USERS": "user"}, "client.users=user: "),
    ({"KAFKA_CLIENT_PASSWORDS": "secret"}, "client.passwords=[hidden]: "),
    ({"KAFKA_INTER_BROKER_PASSWORD": "secret"}, "inter.broker.password=[hidden]: "),
    ({"KAFKA_CONFLUENT_AUTHORIZER_ACCESS_RULE_PROVIDERS": "ZK_ACL"}, "confluent.authorizer.access.rule.providers=ZK_ACL: "),
    ({"ALLOW_PLAINTEXT_LISTENER": "no"}, "ALLOW_PLAINTEXT_LISTENER=no: "),
]


@pytest.mark.parametrize(("environment", "beginning"), ASKS_FOR_ACCESS_CONTROL)
def test_access_control_that_is_not_there_is_refused(environment: dict[str, str], beginning: str) -> None:
    (variable,) = environment
    with pytest.raises(ConfigError) as caught:
        read_entry(environment, root="/nonexistent")
    line = str(caught.value)
    assert line.startswith(beginning)
    assert "set PYBROKER_WITHOUT_ACCESS_CONTROL=true to start without it" in line
    assert line.endswith(f"(from {variable})")
    assert "secret" not in line


@pytest.mark.parametrize(("environment", "_"), ASKS_FOR_ACCESS_CONTROL)
def test_a_variable_lets_the_container_start_without_access_control(environment: dict[str, str], _: str) -> None:
    entry = read_entry({**environment, access_control.VARIABLE: "true"}, root="/nonexistent")
    (line,) = entry.warnings
    assert line.startswith("PYBROKER_WITHOUT_ACCESS_CONTROL=true: there is no access control: ")
    assert line.endswith(f"; ignored: {', '.join(environment)}")


def test_the_variable_alone_changes_nothing_and_is_true_or_false() -> None:
    assert read_entry({access_control.VARIABLE: "true", "KAFKA_CLIENT_USERS": ""}, root="/nonexistent").warnings == ()
    with pytest.raises(ConfigError, match="PYBROKER_WITHOUT_ACCESS_CONTROL=yes: must be true or false"):
        read_entry({access_control.VARIABLE: "yes"}, root="/nonexistent")
    with pytest.raises(ConfigError, match=r"client\.users"):
        read_entry({access_control.VARIABLE: "false", "KAFKA_CLIENT_USERS": "a"}, root="/nonexistent")


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_an_authorizer_of_kafkas_is_a_setting() -> None:
    environment = {"KAFKA_AUTHORIZER_CLASS_NAME": STANDARD_AUTHORIZER, "KAFKA_SUPER_USERS": "User:admin;User:broker"}
    entry = read_entry(environment, root="/nonexistent")
    assert entry.warnings == ()


def test_settings_of_a_login_that_nothing_asks_for_are_one_line() -> None:
    environment = {"KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN", "KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf"}
    assert read_entry(environment, root="/nonexistent").warnings == (
        "KAFKA_SASL_ENABLED_MECHANISMS, KAFKA_OPTS: ignored, because no listener asks for a login: every client is let in",
    )


def test_a_protocol_map_that_cannot_be_read_names_its_variable() -> None:
    variable = "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"
    with pytest.raises(ConfigError, match=rf"^listener\.security\.protocol\.map=A:B: .* \(from {variable}\)$"):
        read_entry({"KAFKA_LISTENERS": "A://:9092", variable: "A:B"}, root="/nonexistent")


def test_a_listener_at_another_host_is_one_line_with_a_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        read_entry({"KAFKA_LISTENERS": "PLAINTEXT://other:9092"}, root="/nonexistent", is_own_host=lambda _: False)
    assert str(caught.value) == (
        "listeners=PLAINTEXT://other:9092: other is not an address of this container: write PLAINTEXT://:9092 here; "
        "KAFKA_ADVERTISED_LISTENERS may name other (from KAFKA_LISTENERS)"
    )


def test_an_address_that_makes_another_useless_is_named_as_it_was_set() -> None:
    with pytest.raises(ConfigError, match=r"^PYBROKER_ADVERTISED=h:1: has no effect, because KAFKA_ADVERTISED_HOST_NAME names "):
        read_entry({"KAFKA_ADVERTISED_HOST_NAME": "a", "PYBROKER_ADVERTISED": "h:1"}, root="/nonexistent")


def test_an_empty_variable_counts_as_not_set() -> None:
    entry = read_entry({"KAFKA_LISTENERS": "", "KAFKA_NUM_PARTITIONS": " ", "KAFKA_CFG_LOG_DIRS": ""}, root="/nonexistent")
    assert [endpoint.port for endpoint in entry.loaded.config.endpoints] == [9092]
    assert "Empty variables count as not set: KAFKA_CFG_LOG_DIRS, KAFKA_LISTENERS, KAFKA_NUM_PARTITIONS" in entry.remarks


def test_a_listener_with_logins_has_its_settings_from_variables() -> None:
    module = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    entry = read_entry(
        {
            "ALLOW_PLAINTEXT_LISTENER": "no",
            "KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_PLAINTEXT",
            "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
            "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_PLAIN_SASL_JAAS_CONFIG": module,
            "KAFKA_PYBROKER_SCRAM_USERS": "SCRAM-SHA-256=[name=admin,password=secret]",
        },
        root="/nonexistent",
    )
    needs = Needs(ScramUsers(lambda: empty_image(BrokerId(1))), keys_of=lambda _: KeySet(()), clock=ManualClock())
    assert list(offers(entry.loaded.config, needs)) == ["SASL_PLAINTEXT"]
    assert not any("secret" in line or "ignored" in line for line in (*entry.warnings, *entry.loaded.warnings, *entry.remarks))
