"""Fixtures of the integration tests: real brokers, sockets and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from testing.process.broker import BrokerProcess, external_bootstrap, own_brokers

if TYPE_CHECKING:
    from pathlib import Path


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python loads its message definitions in a deprecated way, some on import and some when first used
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker with default settings, shared by all tests that need nothing special of it, and yield its host:port."""
    external = external_bootstrap()
    if external:
        yield external
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.close()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Yield a function that starts a broker of the test's own: `start_broker({"key": "value"})`.

    Skips the test where the tests use a running broker.
    """
    if external_bootstrap():
        pytest.skip("needs a broker that it may restart or configure")
    with own_brokers(tmp_path) as start:
        yield start


@pytest.fixture
def new_topic(bootstrap: str) -> Callable[..., str]:
    """Return a function that creates a topic of the test's own: `new_topic(partitions=1, **configs)` -> its name."""
    from testing.clients.stock import create_topic, unique  # noqa: PLC0415 (the clients are slow to import, and not every test needs them)

    def create(partitions: int = 1, **configs: str) -> str:
        name = unique("test")
        create_topic(bootstrap, name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    return create
