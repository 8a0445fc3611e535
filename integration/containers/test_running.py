"""A container of the image: how it starts, reports that it is ready, stops, and keeps its data."""

from __future__ import annotations

import re

from confluent_kafka.admin import AdminClient

from testing.clients.stock import KafkaPython, create_topic
from testing.containers.containers import CHECK, DATA, published, running, volume
from testing.containers.engine import Engine
from testing.samples import varied

STOP_S_MAX = 5
CHECK_CPU_S_MAX = 0.050
CHECKS = 20
READ_ONLY = ("--read-only", "--tmpfs", "/tmp")


def test_a_container_is_healthy_only_once_clients_can_use_it(engine: Engine, image: str) -> None:
    with running(engine, image, *READ_ONLY, command=["sleep", "60"]) as idle:
        assert engine.call("exec", idle.name, *CHECK).returncode == 1, "the container has no broker, and is healthy nevertheless"
    publish, bootstrap = published()
    with running(engine, image, *READ_ONLY, *publish, "--env", "PYBROKER_TOPICS=orders:3") as broker:
        broker.wait_healthy()
        assert len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics["orders"].partitions) == 3
        broker.execute("sh", "-c", "rm /tmp/pybroker-ready")
        assert engine.call("exec", broker.name, *CHECK).returncode == 1


def test_a_health_check_costs_little_cpu(engine: Engine, image: str) -> None:
    publish, _ = published()
    with running(engine, image, *publish) as broker:
        broker.wait_healthy()
        script = f"for _ in range({CHECKS}): subprocess.run({list(CHECK)}, check=True)\nprint(sum(os.times()[2:4]))"
        cpu_s = float(broker.execute("/usr/local/bin/python3", "-c", f"import os, subprocess\n{script}")) / CHECKS
    print(f"{cpu_s * 1000:.1f} ms of CPU for one health check")
    assert cpu_s <= CHECK_CPU_S_MAX


def test_a_container_stops_at_once_with_a_clean_log_and_keeps_its_data(engine: Engine, image: str) -> None:
    samples, client = varied(50), KafkaPython()
    with volume(engine) as data:
        for turn in range(2):
            publish, bootstrap = published()
            with running(engine, image, *READ_ONLY, *publish, "--volume", f"{data}:{DATA}") as broker:
                broker.wait_healthy()
                if turn == 0:
                    create_topic(bootstrap, "kept")
                    client.produce(bootstrap, "kept", samples)
                came = client.consume(bootstrap, "kept", len(samples))
                assert [record.sample.value for record in came] == [sample.value for sample in samples]
                assert broker.stop() < STOP_S_MAX
                assert broker.exit_code == 0
                assert_clean(broker.log)


def test_a_container_runs_as_any_user(engine: Engine, image: str) -> None:
    for user in ("0", "1234", "1234:5678"):
        publish, bootstrap = published()
        with running(engine, image, *READ_ONLY, *publish, "--user", user) as broker:
            broker.wait_healthy()
            create_topic(bootstrap, "mine")


def assert_clean(log: str) -> None:
    """Assert that no line of a broker's whole life is a warning or worse, and that none belongs to a traceback."""
    assert "Traceback" not in log, log
    assert not re.search(r"\b(WARNING|WARN|ERROR|CRITICAL)\b", log), log
