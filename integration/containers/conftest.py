"""Fixtures of the container tests: the engine, and the images built once."""

from __future__ import annotations

import pytest

from testing.containers import engine as engines
from testing.containers import image as images
from testing.containers.engine import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Return the engine of this machine; skip the tests that need one where there is none."""
    found = engines.find()
    if found is None:
        pytest.skip(
            "no container engine: neither a Docker daemon nor podman is there (`make containers` installs podman on Debian)"
        )
    return found


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """Build the broker's image from this checkout, and return its id."""
    return images.build(engine)


@pytest.fixture(scope="session")
def image_name(image: str) -> str:
    """Return the image's name, for programs that take no id."""
    return images.NAMES["broker"]


@pytest.fixture(scope="session")
def clients_image(engine: Engine) -> str:
    return images.build(engine, "clients")


@pytest.fixture(scope="session")
def spark_image(engine: Engine) -> str:
    return images.build(engine, "spark")
