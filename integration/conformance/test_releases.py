"""Our table of the releases of Kafka beside their own classes, and a broker that serves as one beside a broker that is one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker.api.releases
from pybroker.api.registry import APIS
from pybroker.testing import Broker
from testing.process import releases
from testing.process.broker import BrokerProcess
from testing.wire.raw import API_VERSIONS, Connection, api_versions

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)

TABLE = Path(pybroker.api.releases.__file__).with_name("releases.json")
NO_TAGS = b"\0"
"""The end of the header of a flexible version."""
KAFKA_PEER = (sys.executable, "-m", "testing.process.kafka_peer", "start", "--heap", "512m", "--release")


def test_the_table_is_what_the_releases_declare() -> None:
    assert TABLE.read_text() == releases.document(), "python -m testing.process.releases > pybroker/api/releases.json"


@pytest.fixture(scope="module", params=["3.9", "4.3"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Return the addresses of a broker of Kafka, and of one that serves as its release."""
    start_command = [*KAFKA_PEER, releases.JARS[request.param]]
    kafka = BrokerProcess(tmp_path_factory.mktemp("kafka"), start_command=start_command)
    kafka.start()
    try:
        with Broker.in_thread(as_version=request.param) as broker:
            yield kafka.bootstrap, broker.bootstrap
    finally:
        kafka.kill()


def test_the_same_versions_are_announced_but_for_apis_that_pybroker_lacks(both: tuple[str, str]) -> None:
    with Connection(both[0]) as kafka, Connection(both[1]) as ours:
        theirs = api_versions(kafka)
        assert api_versions(ours) == {key: versions for key, versions in theirs.items() if key in APIS}


def test_an_unknown_version_of_api_versions_gets_the_same_response(both: tuple[str, str]) -> None:
    with Connection(both[0]) as kafka, Connection(both[1]) as ours:
        assert ours.call(API_VERSIONS, 99, NO_TAGS) == kafka.call(API_VERSIONS, 99, NO_TAGS)


@pytest.mark.parametrize(("key", "version"), [(0, 2), (0, 99), (1, 3), (1, 99), (2, 0), (3, 99), (8, 99), (999, 0)])
def test_the_same_requests_end_the_connection(key: int, version: int, both: tuple[str, str]) -> None:
    ends = []
    for bootstrap in both:
        with Connection(bootstrap) as connection:
            sent = connection.send(key, version, b"")
            try:
                connection.receive(sent)
            except ConnectionError:
                ends.append(True)
            else:
                ends.append(False)
    assert ends[0] == ends[1]
