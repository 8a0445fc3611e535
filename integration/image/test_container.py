"""The image builds on every machine, and where an engine can run it, a container gets healthy, serves a client, and stops.

`make containers` runs all other tests of containers.
"""

from __future__ import annotations

import functools
import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from testing.clients.stock import KafkaPython, create_topic
from testing.containers import engine as engines
from testing.containers import image as images
from testing.containers import stages
from testing.containers.containers import published, running
from testing.containers.engine import BUILD_TIMEOUT_S
from testing.process.broker import is_kafka
from testing.process.kafka_peer import free_port
from testing.samples import varied

pytestmark = [
    pytest.mark.skipif(is_kafka(), reason="about our own image"),
    pytest.mark.timeout(2 * BUILD_TIMEOUT_S),  # of a build beside all other tests
]


PAGE = ("LISTENER=http://0.0.0.0:8080", "TOKEN=secret")


def text_at(url: str, headers: dict[str, str]) -> str:
    with urlopen(Request(url, headers=headers), timeout=60) as response:
        text: bytes = response.read()
    return text.decode()


@functools.cache
def hindrance() -> str | None:
    return images.hindrance(engines.find())


def test_the_image_builds() -> None:
    """Build it with the engine; where none can run a command, run the Dockerfile's own commands."""
    engine = engines.find()
    if engine is None or hindrance():
        print(f"The Dockerfile's commands run without an engine: {hindrance()}")
        stages.build()
    else:
        images.build(engine)


def test_a_container_gets_healthy_serves_a_client_and_stops() -> None:
    engine = engines.find()
    if engine is None or hindrance():
        pytest.skip(f"no container: {hindrance()} (`make engine` installs podman on Debian)")
    image, samples, client = images.build(engine), varied(10), KafkaPython()
    options, bootstrap = published()
    port = free_port()
    page = ("--publish", f"127.0.0.1:{port}:8080", *(f"--env=KAFKA_PYBROKER_ADMIN_{name}" for name in PAGE))
    with running(engine, image, "--read-only", "--tmpfs", "/tmp", *options, *page) as broker:
        broker.wait_healthy()
        create_topic(bootstrap, "greetings")
        client.produce(bootstrap, "greetings", samples)
        assert len(client.consume(bootstrap, "greetings", len(samples))) == len(samples)
        assert "<title>" in text_at(f"http://localhost:{port}/", {})
        state = text_at(f"http://localhost:{port}/v1/cluster", {"Authorization": "Bearer secret"})
        assert json.loads(state)["topic_count"] == 1
        with pytest.raises(HTTPError, match="401"):
            text_at(f"http://localhost:{port}/v1/cluster", {})
        broker.stop()
        assert broker.exit_code == 0
