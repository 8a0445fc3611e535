"""The pytest plugin: a broker for the whole run of the tests, and topics of their own.

    def test_orders_are_kept(kafka_bootstrap, kafka_topic):
        producer = KafkaProducer(bootstrap_servers=kafka_bootstrap)

pytest imports this module in each run. So nothing of the broker is imported before a test uses one of the fixtures.
"""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pybroker.testing import ThreadBroker

NAME_MAX: Final = 200
"""Kafka's names of topics have at most 249 characters."""

CLOSING_S: Final = 1.0
LOOK_S: Final = 0.01

MARK: Final = "kafka_topic(partitions=1, settings=None): the partitions and the settings of the topic of the fixture kafka_topic"

MARK_FIELDS: Final = ("partitions", "settings")

_numbers: Final = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the broker."""
    text = "a setting of the broker of the tests, as num.partitions=3"
    parser.getgroup("kafka").addoption(
        "--kafka-setting", action="append", default=[], metavar="NAME=VALUE", help=f"{text}; may be repeated"
    )
    parser.addini("kafka_topics", help="a file of JSON or YAML with topics that the broker of the tests has from its start")
    parser.addini("kafka_settings", type="linelist", help=f"{text}, one a line; the option --kafka-setting wins")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", MARK)


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[ThreadBroker]:
    """Yield the broker of this run, or of this worker of pytest-xdist, which runs in a thread of its own."""
    from pybroker.testing import Broker  # noqa: PLC0415  only when a test uses a broker

    with Broker.in_thread(_settings(request.config)) as broker:
        _create_topics(request.config, broker)
        yield broker


@pytest.fixture(scope="session")
def kafka_bootstrap(kafka_broker: ThreadBroker) -> str:
    """Return the address of the broker for `bootstrap.servers`."""
    return kafka_broker.bootstrap


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_broker: ThreadBroker) -> str:
    """Return the name of a topic that was made for this test, and that no other test has."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name).strip("-")[:NAME_MAX]
    name = f"{readable}-{next(_numbers)}"
    mark = request.node.get_closest_marker("kafka_topic")
    kafka_broker.create_topic(name, **{} if mark is None else _fields(mark))
    return name


@pytest.fixture
def kafka_clean(request: pytest.FixtureRequest, kafka_broker: ThreadBroker) -> Iterator[None]:
    """Remove everything from the broker after the test, but for the topics of the file that pytest's settings name."""
    yield
    kafka_broker.reset()
    _create_topics(request.config, kafka_broker)


@pytest.fixture
def kafka_no_leaks(kafka_broker: ThreadBroker) -> Iterator[None]:
    """Fail after the test if it has left an open transaction, a member of a group, or a connection to the broker.

    A client that was connected before the test may connect once more: it is shared by tests, and does so when it needs to.
    """
    before, shared = {*kafka_broker.leaks()}, {one[:3] for one in kafka_broker.clients() if one.connections}
    yield
    end = time.monotonic() + CLOSING_S
    while (left := [line for line in kafka_broker.leaks(shared) if line not in before]) and time.monotonic() < end:
        time.sleep(LOOK_S)  # a client has closed its sockets, and the broker has not noticed yet
    if left:
        pytest.fail("the test has left behind:\n" + "\n".join(left), pytrace=False)


def _fields(mark: pytest.Mark) -> dict[str, Any]:
    """Return what a mark asks for. Raises pytest.UsageError for what it cannot ask for."""
    fields = {**dict(zip(MARK_FIELDS, mark.args, strict=False)), **mark.kwargs}
    unknown = [*mark.args[len(MARK_FIELDS) :], *(fields.keys() - {*MARK_FIELDS})]
    if unknown:
        raise pytest.UsageError(f"the mark kafka_topic takes {' and '.join(MARK_FIELDS)}, not {', '.join(map(str, unknown))}")
    return fields


def _create_topics(config: pytest.Config, broker: ThreadBroker) -> None:
    if path := config.getini("kafka_topics"):
        broker.create_topics(config.rootpath / path)


def _settings(config: pytest.Config) -> dict[str, Any]:
    """Return the settings of the broker. Raises pytest.UsageError for one that is not NAME=VALUE."""
    settings = {}
    for text in [*config.getini("kafka_settings"), *config.getoption("--kafka-setting")]:
        name, equals, value = text.partition("=")
        if not equals:
            raise pytest.UsageError(f"{text!r}, a setting of the broker of the tests, must be NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings
