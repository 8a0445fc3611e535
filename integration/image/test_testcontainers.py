"""The scripts, variables and patterns of the Testcontainers libraries, with the image's files and without an engine.

Each library reports what it would run (`testcontainers_runs`); the test runs that in a container of namespaces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing.clients.testcontainers_runs import Run, go_run, java_run, python_run
from testing.hosts.toy_container import Container, toy_container
from testing.places import ROOT

HOST_PORT = 32768
"""The address where an engine would have published the broker's port."""

RUNS: dict[str, Callable[[], Run]] = {
    "java-KafkaContainer": lambda: java_run("KafkaContainer", "localhost", HOST_PORT),
    "java-ConfluentKafkaContainer": lambda: java_run("ConfluentKafkaContainer", "localhost", HOST_PORT),
    "java-older": lambda: java_run("older", "localhost", HOST_PORT),
    "java-older-kraft": lambda: java_run("older-kraft", "localhost", HOST_PORT),
    "python": lambda: python_run("default", "localhost", HOST_PORT),
    "python-kraft": lambda: python_run("kraft", "localhost", HOST_PORT),
    "go": lambda: go_run("localhost", HOST_PORT, "kafka"),
}


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Container]:
    with toy_container(tmp_path) as made:
        made.hosts({"kafka": "127.0.0.2"})
        yield made


@pytest.mark.parametrize("name", RUNS)
def test_a_librarys_container_is_ready_when_its_pattern_matches(container: Container, name: str) -> None:
    run = RUNS[name]()
    process = container.start(run.command, run.environment)
    script = container.seen(run.path)
    fresh = script.with_name(f"{script.name}.new")  # the engine extracts an archive, so the script is there whole or not at all
    fresh.write_text(run.script)
    fresh.chmod(0o777)
    fresh.rename(script)
    process.wait_for(run.pattern)
    client = ("-m", "testing.clients.container_client")
    assert container.seen("/tmp/pybroker-ready").exists(), "the line comes when everything is ready"

    forward = [sys.executable, "-m", "testing.hosts.forward", str(HOST_PORT), f"127.0.0.1:{run.port}"]
    forwarder = container.start(forward, {"PYTHONPATH": str(ROOT)})
    forwarder.wait_for("forwarding")
    code, output, error = container.python(*client, "records", f"localhost:{HOST_PORT}", "from-the-host")
    assert (code, output) == (0, f"broker 1 at localhost:{HOST_PORT}\n"), error
    inner = 9092 if run.port == 9093 else 9093
    code, output, error = container.python(*client, "records", f"kafka:{inner}", "from-a-neighbour")
    assert code == 0, error
    assert output in (f"broker 1 at kafka:{inner}\n", f"broker 1 at 127.0.0.2:{inner}\n")
    assert "level=error" not in process.errors
