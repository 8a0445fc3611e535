"""Fixtures of the container tests: the engine, and the images built once."""

from __future__ import annotations

import pytest

from testing.containers import engine as engines
from testing.containers import image as images
from testing.containers.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine; without one, its tests are skipped."""
    found = engines.find()
    if found is None:
        pytest.skip(
            "no container engine: neither a Docker daemon nor podman is there (`make containers` installs podman on Debian)"
        )
    return found


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The broker's image, built from this checkout: its id."""
    return images.build(engine)


@pytest.fixture(scope="session")
def image_name(image: str) -> str:
    """What it is called, for programs that take no id."""
    return images.NAMES["broker"]


@pytest.fixture(scope="session")
def clients_image(engine: Engine) -> str:
    return images.build(engine, "clients")


@pytest.fixture(scope="session")
def spark_image(engine: Engine) -> str:
    return images.build(engine, "spark")
