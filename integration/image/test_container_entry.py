"""`pybroker container` as a process: it gets ready, refuses, stops, runs as any user, and starts on volumes of other owners."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.hosts.toy_container import USER, Container, toy_container

READY = r"READY .*"
OTHER_USER = 12345


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with toy_container(tmp_path) as made:
        yield made


def test_a_container_without_variables_gets_ready_and_stops_at_sigterm(container: Container) -> None:
    broker = container.broker()
    assert broker.wait_for(READY) == "READY 127.0.0.1:9092"
    assert container.seen("/tmp/pybroker-ready").read_text().split() == ["127.0.0.1", "9092"]
    assert container.seen("/var/lib/kafka/data/meta.properties").exists()
    assert broker.stop() < 5
    assert re.search(r"Stopped after \d+\.\d\d s", broker.errors.splitlines()[-1])
    assert not container.seen("/tmp/pybroker-ready").exists()
    assert "level=warning" not in broker.errors
    assert "level=error" not in broker.errors


def test_wanted_topics_exist_before_the_container_is_ready_and_after_a_restart(container: Container) -> None:
    environment = {"PYBROKER_TOPICS": "orders:6,payments:3:1:compact", "KAFKA_CREATE_TOPICS": "old:2:1"}
    for _ in range(2):
        broker = container.broker(environment)
        broker.wait_for(READY)
        code, output, error = container.python("-m", "testing.clients.container_client", "topics", "127.0.0.1:9092")
        assert (code, output.split()) == (0, ["old=2", "orders=6", "payments=3"]), error
        broker.stop()


@pytest.mark.parametrize("user", [0, OTHER_USER])
def test_a_container_runs_as_any_user(container: Container, user: int) -> None:
    environment = {"KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs", "PYBROKER_READY_FILE": "/tmp/elsewhere"}
    broker = container.broker(environment, user=user)
    broker.wait_for(READY)
    assert container.seen("/tmp/elsewhere").exists()
    broker.stop()


def test_a_volume_of_another_owner_is_one_line(container: Container) -> None:
    broker = container.broker(user=OTHER_USER)
    assert broker.ended() == 1
    assert broker.errors.splitlines()[-1] == (
        f"Error: log.dirs=/var/lib/kafka/data: uid {OTHER_USER} cannot write to /var/lib/kafka/data: Permission denied;"
        f" /var/lib/kafka/data belongs to uid {USER} (mode 755): give it to the container's user (chown -R {OTHER_USER}),"
        f' or run the container with user: "{USER}"'
    )
    assert broker.text == ""


def test_files_of_another_owner_in_a_volume_are_one_line(container: Container) -> None:
    volume = container.seen("/var/lib/kafka/data")
    broker = container.broker(user=0)
    broker.wait_for(READY)
    broker.stop()
    broker = container.broker()
    assert broker.ended() == 1
    line = broker.errors.splitlines()[-1]
    assert f"uid {USER} cannot write to /var/lib/kafka/data/" in line
    assert "belongs to uid 0" in line
    assert (volume / "meta.properties").exists()


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({"KAFKA_PROCESS_ROLES": "controller"}, "Error: process.roles=controller: "),
        (
            {"KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "2@a:9093,3@b:9093,4@c:9093"},
            "Error: controller.quorum.voters=2@a:9093,3@b:9093,4@c:9093: names no controller with node.id=1, this node: add 1",
        ),
        ({"KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092"}, "Error: sasl.enabled.mechanisms=GSSAPI: GSSAPI is not supported"),
        ({"KAFKA_LISTENERS": "SSL://:9092"}, "Error: ssl.keystore.location=: must name the key store of the broker"),
        (
            {"KAFKA_LISTENERS": "A://:9092", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "A:SASL_SSL"},
            "Error: ssl.keystore.location=: must name the key store of the broker",
        ),
        (
            {"KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "kafka-2:9093"},
            "Error: controller.quorum.bootstrap.servers=kafka-2:9093: kafka-2 is not known as an address of this container, ",
        ),
        ({"KAFKA_SUPER_USERS": "admin"}, "Error: super.users=admin: must be TYPE:NAME"),
        ({"KAFKA_CLIENT_USERS": "user"}, "Error: client.users=user: pybroker does not have this access control, "),
        ({"KAFKA_NUM_PARTITIONS": "many"}, "Error: num.partitions=many: must be a whole number (from KAFKA_NUM_PARTITIONS)"),
        ({"KAFKA_CREATE_TOPICS": "a:1:3"}, "Error: KAFKA_CREATE_TOPICS=a:1:3: "),
        ({"PYBROKER_TOPICS": "a:cleanup.policy=shred"}, "Error: PYBROKER_TOPICS: the topic a cannot be created: "),
    ],
)
def test_an_impossible_variable_is_one_line_and_exit_code_1(container: Container, environment: dict[str, str], line: str) -> None:
    broker = container.broker(environment)
    assert broker.ended() == 1
    assert broker.text == ""
    assert [printed.startswith(line) for printed in broker.errors.splitlines()][-1]
    assert sum(printed.startswith("Error: ") for printed in broker.errors.splitlines()) == 1
    assert "Traceback" not in broker.errors
    assert not container.seen("/tmp/pybroker-ready").exists()


def test_a_controller_is_this_broker_only_under_a_name_of_this_container(container: Container) -> None:
    container.hosts({"kafka": "127.0.0.2", "kafka-2": "192.0.2.1"})
    variable, roles = "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS", {"KAFKA_PROCESS_ROLES": "broker,controller"}
    other = container.broker({variable: "kafka-2:9093", **roles})
    assert other.ended() == 1
    assert "kafka-2 is not known as an address of this container" in other.errors
    container.broker({variable: "kafka:9093", **roles}).wait_for(READY)


def test_pybroker_start_keeps_the_ready_file_that_the_image_names(container: Container) -> None:
    command = ["pybroker", "start", "--data-dir", "/var/lib/kafka/data", "--env"]
    environment = {"PYBROKER_READY_FILE": "/tmp/pybroker-ready", "KAFKA_LISTENERS": "PLAINTEXT://:9093"}
    broker = container.start(command, environment)
    assert broker.wait_for(READY) == "READY 127.0.0.1:9093"
    assert container.seen("/tmp/pybroker-ready").read_text().split() == ["127.0.0.1", "9093"]
    broker.stop()
    assert not container.seen("/tmp/pybroker-ready").exists()


def test_a_missing_file_of_the_command_is_one_line_with_what_to_do(container: Container) -> None:
    code, output, error = container.run(["kafka-server-start.sh", "/opt/kafka/config/my.properties"])
    assert (code, output) == (1, "")
    assert error.startswith("Error: cannot read /opt/kafka/config/my.properties: no such file in this container; mount it there")


def test_the_refusal_of_a_directory_outside_of_a_volume_suggests_no_chown(container: Container) -> None:
    broker = container.broker({"KAFKA_LOG_DIRS": "/data/a,/data/b"})
    assert broker.ended() == 1
    line = broker.errors.splitlines()[-1]
    assert line.startswith(
        f"Error: log.dirs=/data/a: uid {USER} cannot write to /data/a: Permission denied; / belongs to the image: "
    )
    assert "chown" not in line


def test_a_second_container_on_the_volume_of_another_is_one_line(container: Container) -> None:
    container.broker().wait_for(READY)
    second = container.broker({"KAFKA_LISTENERS": "PLAINTEXT://:19092"})
    assert second.ended() == 1
    line = second.errors.splitlines()[-1]
    assert line.startswith("Error: ")
    assert "container" in line


def test_a_volume_of_another_broker_names_the_variable_to_set(container: Container) -> None:
    broker = container.broker({"KAFKA_NODE_ID": "1"})
    broker.wait_for(READY)
    broker.stop()
    other = container.broker({"KAFKA_NODE_ID": "2"})
    assert other.ended() == 1
    line = other.errors.splitlines()[-1]
    assert "belongs to broker 1, but node.id is 2: set node.id=1 (in a container KAFKA_NODE_ID=1, or KAFKA_BROKER_ID " in line


def test_a_listener_that_only_the_container_reaches_is_a_warning(container: Container) -> None:
    listener = "PLAINTEXT://localhost:9092"
    broker = container.broker({"KAFKA_LISTENERS": listener, "KAFKA_ADVERTISED_LISTENERS": listener})
    broker.wait_for(READY)
    (line,) = (line for line in broker.errors.splitlines() if "a published port does not reach" in line)
    assert "level=warning" in line


def test_a_cluster_id_that_is_not_the_volumes_is_one_line_and_the_volumes_stays(container: Container) -> None:
    first, other = "4L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qk"
    for cluster_id in (first, other):
        broker = container.broker({"CLUSTER_ID": cluster_id})
        broker.wait_for(READY)
        broker.stop()
        assert f"cluster.id={first}" in container.seen("/var/lib/kafka/data/meta.properties").read_text()
    assert broker.errors.count(f"CLUSTER_ID={other} is ignored: the data belong to the cluster {first}, which stays") == 1


def test_zookeeper_and_java_are_left_out_with_a_line_each(container: Container) -> None:
    broker = container.broker(
        {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", "KAFKA_HEAP_OPTS": "-Xmx512m", "KAFKA_BROKER_ID": "0"}
    )
    broker.wait_for(r"\[KafkaServer id=0\] started")
    assert broker.errors.count("zookeeper.connect=zookeeper:2181 is ignored: pybroker needs no ZooKeeper") == 1
    assert broker.errors.count("KAFKA_HEAP_OPTS") == 1


def test_a_command_runs_in_place_of_the_broker(container: Container) -> None:
    assert container.run(["pybroker", "container", "sh", "-c", "echo $0 $1", "a", "b"])[:2] == (0, "a b\n")
    code, _, error = container.run(["pybroker", "container", "no-such-command"])
    assert (code, error) == (1, "Error: no-such-command: No such file or directory\n")


def test_the_start_scripts_of_other_images_start_a_broker(container: Container) -> None:
    container.seen("/tmp/my.properties").write_text("listeners=PLAINTEXT://:9099\nlog.dirs=/tmp/d\n")
    commands = [
        (["/etc/kafka/docker/run", "KAFKA_NODE_ID=3"], r"\[KafkaServer id=3\] started"),
        (["/etc/confluent/docker/run", "KAFKA_BROKER_ID=3"], r"\[KafkaServer id=3\] started"),
        (["/opt/bitnami/scripts/kafka/entrypoint.sh", "/opt/bitnami/scripts/kafka/run.sh"], r"\[KafkaServer id=\d+\] started"),
        (["start-kafka.sh"], r"\[KafkaServer id=\d+\] started"),
        (["kafka-server-start.sh", "/tmp/my.properties", "--override", "node.id=5"], r"READY 127.0.0.1:9099"),
        (["/opt/kafka/bin/kafka-server-start.sh", "/opt/kafka/config/server.properties", "--override", "node.id=7"], READY),
        (["sh", "-c", "cd $KAFKA_HOME && exec bin/kafka-server-start.sh config/server.properties"], READY),
        (
            ["sh", "-c", "kafka-storage.sh format -t x -c config/x && exec kafka-server-start.sh /etc/kafka/server.properties"],
            READY,
        ),
        (["sh", "-c", "kafka-storage format -t $(kafka-storage random-uuid) -c x && /etc/kafka/docker/launch"], READY),
    ]
    for number, (command, line) in enumerate(commands):
        process = container.start(command, {"KAFKA_LOG_DIRS": f"/tmp/{number}", "KAFKA_HOME": "/opt/kafka"})
        process.wait_for(line)
        process.close()
    code, output, _ = container.run(["kafka-storage.sh", "random-uuid"])
    assert (code, len(output.strip())) == (0, 22)
