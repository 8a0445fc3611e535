"""docker-compose.yml as it is: the services of each profile start when the broker is healthy, and they need no more than that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from testing.clients.stock import KafkaPython, create_topic
from testing.containers import compose
from testing.containers.compose import Project
from testing.containers.containers import Container, unique
from testing.containers.engine import Engine
from testing.places import ROOT
from testing.process.kafka_peer import free_port
from testing.samples import varied

SPARK_TIMEOUT_S = 900


@pytest.fixture
def project(engine: Engine, image: str) -> Iterator[Callable[[], tuple[Project, str]]]:
    """Yield a function that makes a project of docker-compose.yml on a port of its own.

    `project()` returns the project, and host:port of its broker.
    """
    if compose.command(engine) is None:
        pytest.skip("no `docker compose` or podman-compose (pip install --group containers)")
    made: list[Project] = []

    def make() -> tuple[Project, str]:
        port = free_port()
        made.append(Project(engine, unique("compose"), environment={"KAFKA_PORT": str(port)}))
        return made[-1], f"localhost:{port}"

    try:
        yield make
    finally:
        for one in made:
            one.down()


def file() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    assert isinstance(content, dict)
    return content


def test_services_that_need_the_broker_wait_until_it_is_healthy() -> None:
    services = file()["services"]
    needing = {name for name, service in services.items() if "kafka" in service.get("depends_on", {})}
    assert needing == {"kafka-python", "confluent-kafka", "spark", "prometheus"}
    assert all(services[name]["depends_on"]["kafka"] == {"condition": "service_healthy"} for name in needing)
    assert "profiles" not in services["kafka"]


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for service in file()["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_health_check_is_that_of_the_image() -> None:
    check = file()["services"]["kafka"]["healthcheck"]
    in_image = re.search(r"^HEALTHCHECK (.*) \\\n  CMD (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert in_image is not None
    assert ["CMD", *yaml.safe_load(in_image[2])] == check["test"]
    options = dict(option.removeprefix("--").split("=") for option in in_image[1].split())
    assert options == {key.replace("_", "-"): str(value) for key, value in check.items() if key != "test"}


def test_a_broker_is_used_from_this_machine_and_keeps_its_volume(
    engine: Engine, project: Callable[[], tuple[Project, str]]
) -> None:
    samples, client = varied(20), KafkaPython()
    cluster, bootstrap = project()
    for turn in range(2):
        cluster.run("up", "--detach", "--no-build")
        Container(engine, cluster.container("kafka")).wait_healthy()
        if turn == 0:
            create_topic(bootstrap, "kept")
            client.produce(bootstrap, "kept", samples)
        assert [record.sample.value for record in client.consume(bootstrap, "kept", len(samples))] == [
            sample.value for sample in samples
        ]
        cluster.run("down")


def test_client_examples_run_as_soon_as_the_broker_is_healthy(
    engine: Engine, clients_image: str, project: Callable[[], tuple[Project, str]]
) -> None:
    cluster, _ = project()
    for service in ("kafka-python", "confluent-kafka"):
        output = cluster.run("--profile", "clients", "run", "--rm", service)
        assert f"{service}: 100 records produced and consumed at kafka:9092" in output


def test_the_pipeline_runs_with_the_broker(engine: Engine, spark_image: str, project: Callable[[], tuple[Project, str]]) -> None:
    cluster, _ = project()
    output = cluster.run("--profile", "spark", "run", "--rm", "spark", timeout_s=SPARK_TIMEOUT_S)
    assert "10000" in output.replace(",", ""), output
