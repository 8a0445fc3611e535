"""One container of the image, where there is an engine: it gets healthy, serves a client, and stops.

`make containers` runs all other tests of containers.
"""

from __future__ import annotations

import pytest

from testing.clients.stock import KafkaPython, create_topic
from testing.containers import engine as engines
from testing.containers import image as images
from testing.containers.containers import published, running
from testing.process.broker import is_kafka
from testing.samples import varied

pytestmark = pytest.mark.skipif(is_kafka(), reason="about our own image")


def test_a_container_gets_healthy_serves_a_client_and_stops() -> None:
    engine = engines.find()
    if engine is None:
        pytest.skip("no container engine: neither a Docker daemon nor podman is there (`make containers` installs podman)")
    if engine.is_podman and not engine.has_image(images.base_name()):
        pytest.skip(f"podman has no image {images.base_name()} (`make containers` makes it, and runs all container tests)")
    image, samples, client = images.build(engine), varied(10), KafkaPython()
    options, bootstrap = published()
    with running(engine, image, "--read-only", "--tmpfs", "/tmp", *options) as broker:
        broker.wait_healthy()
        create_topic(bootstrap, "greetings")
        client.produce(bootstrap, "greetings", samples)
        assert len(client.consume(bootstrap, "greetings", len(samples))) == len(samples)
        broker.stop()
        assert broker.exit_code == 0
