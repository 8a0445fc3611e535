"""One broker for the tests of a module, which finds it empty each time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.testing import Broker, ThreadBroker


@pytest.fixture(scope="module")
def running() -> Iterator[ThreadBroker]:
    """Start a broker for the tests of the module."""
    with Broker.in_thread() as broker:
        yield broker


@pytest.fixture
def broker(running: ThreadBroker) -> Iterator[ThreadBroker]:
    """Return it with nothing in it."""
    yield running
    running.reset()
