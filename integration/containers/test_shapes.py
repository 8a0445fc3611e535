"""The shapes of published compose files as real containers: each gets healthy, serves a neighbour's commands, and stops."""

from __future__ import annotations

import pytest

from integration.image.test_compose_shapes import SHAPES
from testing.containers.containers import network, running, volume
from testing.containers.engine import Engine

ROUND_TRIP = (
    "echo one | kafka-console-producer --bootstrap-server {0} --topic new && "
    "kafka-console-consumer.sh --bootstrap-server {0} --topic new --from-beginning --max-messages 1"
)


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_healthy_and_a_neighbour_uses_the_broker(engine: Engine, image: str, name: str) -> None:
    shape = SHAPES[name]
    variables = [option for item in shape.environment.items() for option in ("--env", "=".join(item))]
    with network(engine) as net:
        place = ["--network", net, "--network-alias", shape.service, "--hostname", shape.service]
        with running(engine, image, *place, *variables) as broker:
            broker.wait_healthy()
            for bootstrap in shape.hosts:
                port = int(bootstrap.rpartition(":")[2])
                # Only that it responds counts here, because the advertised address is for the host.
                inside = f"localhost:{shape.published.get(port, port)}"
                broker.execute("kafka-broker-api-versions", "--bootstrap-server", inside, check=port not in shape.published)
            for bootstrap in shape.neighbours:
                output = engine.run("run", "--rm", "--network", net, image, "sh", "-c", ROUND_TRIP.format(bootstrap))
                assert output.splitlines()[0] == "one"
            for topic in shape.topics:
                assert topic.partition("=")[0] in broker.execute("kafka-topics", "--bootstrap-server", "localhost:9092", "--list")
            broker.stop()
            assert broker.exit_code == 0
            assert "level=error" not in broker.log


@pytest.mark.parametrize("mount", ["/bitnami/kafka", "/tmp/kraft-combined-logs"])
def test_data_are_on_the_volume_of_a_file_for_another_image(engine: Engine, image: str, mount: str) -> None:
    with volume(engine) as name:
        for topics in ("new\n", ""):  # the second container has only what the first one left
            options = ["--volume", f"{name}:{mount}", *(["--env", "PYBROKER_TOPICS=new"] if topics else [])]
            with running(engine, image, *options) as broker:
                broker.wait_healthy()
                assert f"Data directories: {mount}" in broker.log
                assert broker.execute("kafka-topics", "--bootstrap-server", "localhost:9092", "--list") == "new"
                broker.stop()


def test_refusals_end_a_container_with_one_line(engine: Engine, image: str) -> None:
    done = engine.call("run", "--rm", "--env", "KAFKA_PROCESS_ROLES=controller", image)
    assert done.returncode == 1
    output = [
        line for line in (done.stdout + done.stderr).splitlines() if "healthchecks" not in line
    ]  # podman's own line, where there is no systemd
    assert len(output) == 1
    assert output[0].startswith("Error: process.roles=controller: ")
