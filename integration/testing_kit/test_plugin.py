"""The pytest plugin, in test runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

TIMEOUT_S = 120
PLUGINS = ("pybroker.testing.plugin", "pytest_asyncio.plugin", "xdist.plugin", "anyio.pytest_plugin")

STYLES = """
import asyncio
import unittest

import aiokafka
import confluent_kafka
import pytest
import pytest_asyncio

from pybroker.testing import Broker


def produced(bootstrap, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"1")
    assert producer.flush(30) == 0


async def produced_in_loop(bootstrap, topic):
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"1")


def test_a_plain_function(kafka_broker, kafka_bootstrap, kafka_topic):
    produced(kafka_bootstrap, kafka_topic)
    assert [record.value for record in kafka_broker.consume(kafka_topic)] == [b"1"]


@pytest.mark.usefixtures("kafka")
class TestOfUnittest(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def kafka(self, kafka_broker, kafka_topic):
        self.broker, self.topic = kafka_broker, kafka_topic

    def test_a_method(self):
        produced(self.broker.bootstrap, self.topic)
        self.assertEqual(len(self.broker.wait_for(self.topic, 1)), 1)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.asyncio(loop_scope="function")
async def test_with_a_loop_of_its_own(number, kafka_broker, kafka_topic):
    await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
    assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("number", [1, 2])
async def test_with_the_loop_of_the_session(number, kafka_broker, kafka_topic):
    await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
    assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_with_the_loop_of_the_module(kafka_broker, kafka_topic):
    await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
    assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest.mark.asyncio(loop_scope="package")
async def test_with_the_loop_of_the_package(kafka_broker, kafka_topic):
    await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
    assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest.mark.asyncio(loop_scope="class")
class TestWithTheLoopOfTheClass:
    async def test_a_method(self, kafka_broker, kafka_topic):
        await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
        assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def broker_of_the_loop():
    async with Broker() as broker:
        yield broker


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("number", [1, 2])
async def test_with_a_broker_in_the_loop_of_the_session(number, broker_of_the_loop):
    await produced_in_loop(broker_of_the_loop.bootstrap, f"topic-{number}")
    assert len(await broker_of_the_loop.consume(f"topic-{number}")) == 1


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_with_anyio(kafka_broker, kafka_topic):
    await produced_in_loop(kafka_broker.bootstrap, kafka_topic)
    assert len(kafka_broker.consume(kafka_topic)) == 1
"""

NAMES = """
import pytest


def test_orders(kafka_broker, kafka_topic):
    assert kafka_topic.startswith("test_orders-")
    assert len(kafka_broker.topics()[kafka_topic].partitions) == 1
    kafka_broker.produce(kafka_topic, b"1")


@pytest.mark.parametrize("what", ["a b", "ü/" * 200])
def test_texts(what, kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, b"1")


@pytest.mark.kafka_topic(partitions=3, settings={"cleanup.policy": "compact"})
def test_of_three_partitions(kafka_broker, kafka_topic):
    assert len(kafka_broker.topics()[kafka_topic].partitions) == 3


class TestOther:
    def test_orders(self, kafka_broker, kafka_topic):
        assert kafka_broker.consume(kafka_topic) == []
"""

CLEAN = """
import confluent_kafka


def test_leaves_much(kafka_broker, kafka_clean):
    kafka_broker.create_topic("left")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka_broker.bootstrap, "group.id": "left"})
    kafka_broker.produce("left", b"1")
    consumer.commit(offsets=[confluent_kafka.TopicPartition("left", 0, 1)], asynchronous=False)
    consumer.close()
    assert kafka_broker.groups()["left"].lag == 0


def test_finds_nothing(kafka_broker, kafka_clean):
    assert (kafka_broker.topics(), kafka_broker.groups(), kafka_broker.requests) == ({}, {}, [])
"""

LEAKS = """
import socket

import pytest

kept = []


def test_closes(kafka_no_leaks, kafka_broker):
    socket.create_connection((kafka_broker.host, kafka_broker.port)).close()


def test_leaves(kafka_no_leaks, kafka_broker):
    kept.append(socket.create_connection((kafka_broker.host, kafka_broker.port)))


def test_finds_what_was_left_before(kafka_no_leaks, kafka_broker):
    kept.pop().close()
"""

TOPICS = """
def test_once(kafka_broker, kafka_clean):
    assert len(kafka_broker.topics()["orders"].partitions) == 2
    kafka_broker.produce("orders", b"1")
    kafka_broker.create_topic("more")


def test_again(kafka_broker):
    assert {*kafka_broker.topics()} == {"orders"}
    assert kafka_broker.consume("orders") == []
"""

SETTINGS = """
def test_settings(kafka_broker):
    kafka_broker.produce("topic", b"1")
    print("partitions:", len(kafka_broker.topics()["topic"].partitions))
"""

WORKERS = """
import os
import pathlib
import time


def wait_for_both(kafka_broker):
    place = pathlib.Path(__file__).parent
    (place / f"{os.environ['PYTEST_XDIST_WORKER']}.port").write_text(str(kafka_broker.port))
    deadline = time.monotonic() + 60
    while len([*place.glob("*.port")]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one(kafka_broker):
    wait_for_both(kafka_broker)


def test_other(kafka_broker):
    wait_for_both(kafka_broker)
"""

LEAK_CHECKS = """
import os
import threading

import confluent_kafka
import pytest


def held():
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # that of the list
            pass
    return {*threading.enumerate()}, sorted(link for link in links if link.startswith("socket:"))


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_of_the_run():
    before = held()
    yield
    assert held() == before


@pytest.fixture(autouse=True)
def nothing_is_left_of_a_test():
    before = held()
    yield
    assert held() == before


@pytest.mark.parametrize("number", [1, 2])
def test_with_the_methods(number, kafka_broker, kafka_topic, kafka_clean):
    kafka_broker.produce(kafka_topic, b"1")
    assert len(kafka_broker.consume(kafka_topic)) == 1


@pytest.mark.parametrize("number", [1, 2])
def test_with_a_client(number, kafka_no_leaks, kafka_broker, kafka_topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap})
    producer.produce(kafka_topic, b"1")
    assert producer.flush(30) == 0
"""

SHARED = """
import socket
import struct

import pytest


def connect(broker, client_id):
    request = struct.pack(">hhih", 18, 0, 1, len(client_id)) + client_id  # ApiVersions v0
    connection = socket.create_connection((broker.host, broker.port))
    connection.sendall(struct.pack(">i", len(request)) + request)
    assert connection.recv(4)
    return connection


@pytest.fixture(scope="session")
def shared(kafka_broker):
    connections = [connect(kafka_broker, b"shared")]
    yield connections
    for one in connections:
        one.close()


def test_shares(shared, kafka_no_leaks, kafka_broker):
    shared.append(connect(kafka_broker, b"shared"))


def test_closes(shared, kafka_no_leaks, kafka_broker):
    connect(kafka_broker, b"own").close()


def test_leaves(shared, kafka_no_leaks, kafka_broker):
    shared.append(connect(kafka_broker, b"own"))
"""

MARK_WITH_TYPO = """
import pytest


@pytest.mark.kafka_topic(partition=3)
def test_with_a_typo(kafka_topic):
    pass
"""

ENTRY_POINT = """
import sys
from importlib.metadata import entry_points

(plugin,) = entry_points(group="pytest11", name="pybroker")
plugin.load()
print(sorted(name for name in sys.modules if name.startswith("pybroker")))
"""

NO_BROKER = """
import sys


def test_without_a_broker():
    print("imported:", sorted(name for name in sys.modules if name.startswith("pybroker")))
    print("heavy:", [name for name in ("asyncio", "pydantic", "prometheus_client", "tornado", "uvloop") if name in sys.modules])
"""


class Run(NamedTuple):
    code: int
    output: str


def run(folder: Path, source: str, *options: str, plugins: tuple[str, ...] = PLUGINS, ini: str = "") -> Run:
    """Run pytest in a folder with one file, and errors instead of warnings."""
    (folder / "test_it.py").write_text(source)
    asked_for = "asyncio_default_fixture_loop_scope = function\n" if "pytest_asyncio.plugin" in plugins else ""
    (folder / "pytest.ini").write_text(f"[pytest]\n{asked_for}{ini}")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-s", "-W", "error", "-p", "no:cacheprovider"]
    command += [part for plugin in plugins for part in ("-p", plugin)]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    return Run(done.returncode, done.stdout + done.stderr)


def test_the_fixtures_are_there_for_every_style_of_tests(tmp_path: Path) -> None:
    package = tmp_path / "package"  # for the loop of one
    package.mkdir()
    (package / "__init__.py").touch()
    done = run(package, STYLES)
    assert done.code == 0, done.output
    assert "12 passed" in done.output


def test_each_test_has_a_topic_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, NAMES)
    assert done.code == 0, done.output
    assert "5 passed" in done.output


def test_a_clean_broker_has_nothing_of_the_test_before(tmp_path: Path) -> None:
    done = run(tmp_path, CLEAN)
    assert done.code == 0, done.output


def test_a_client_that_tests_share_may_connect_later(tmp_path: Path) -> None:
    done = run(tmp_path, SHARED)
    assert "3 passed, 1 error" in done.output
    assert "ERROR test_it.py::test_leaves" in done.output
    assert "(own) is open" in done.output


def test_a_mark_with_a_typo_is_refused_with_what_it_takes(tmp_path: Path) -> None:
    done = run(tmp_path, MARK_WITH_TYPO)
    assert "the mark kafka_topic takes partitions and settings, not partition" in done.output


def test_settings_come_from_the_file_and_from_the_command_line(tmp_path: Path) -> None:
    ini = "kafka_settings =\n    num.partitions=4\n    log.retention.hours=1\n"
    assert "partitions: 4" in run(tmp_path, SETTINGS, ini=ini).output
    assert "partitions: 5" in run(tmp_path, SETTINGS, "--kafka-setting", "num.partitions=5", ini=ini).output


def test_a_test_that_leaves_a_connection_fails_by_its_name(tmp_path: Path) -> None:
    done = run(tmp_path, LEAKS)
    assert done.code == 1, done.output
    assert "3 passed, 1 error" in done.output
    assert "ERROR test_it.py::test_leaves" in done.output
    assert "(no request) is open" in done.output


def test_the_topics_of_a_file_are_there_before_each_test(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text('{"orders": {"partitions": 2}}')
    done = run(tmp_path, TOPICS, ini="kafka_topics = topics.json\n")
    assert done.code == 0, done.output


@pytest.mark.parametrize(("setting", "error"), [("num.partitions", "must be NAME=VALUE"), ("num.partition=3", "no setting has")])
def test_a_mistake_in_a_setting_fails_the_tests_by_its_name(setting: str, error: str, tmp_path: Path) -> None:
    done = run(tmp_path, SETTINGS, "--kafka-setting", setting)
    assert done.code == 1, done.output
    assert error in done.output


def test_each_worker_has_a_broker_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, WORKERS, "-n", "2", "--dist", "each", plugins=PLUGINS)
    assert done.code == 0, done.output
    assert len({path.read_text() for path in tmp_path.glob("*.port")}) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_run_that_looks_for_leaked_threads_and_sockets_and_takes_warnings_for_errors_stays_green(tmp_path: Path) -> None:
    done = run(tmp_path, LEAK_CHECKS)
    assert done.code == 0, done.output
    assert "4 passed" in done.output


def test_the_entry_point_imports_nothing_of_a_broker() -> None:
    done = subprocess.run([sys.executable, "-c", ENTRY_POINT], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert done.stdout == "['pybroker', 'pybroker.testing', 'pybroker.testing.plugin']\n"


def test_a_run_without_a_broker_imports_nothing_of_it(tmp_path: Path) -> None:
    done = run(tmp_path, NO_BROKER, plugins=PLUGINS[:1])
    assert done.code == 0, done.output
    assert "imported: ['pybroker', 'pybroker.testing', 'pybroker.testing.plugin']" in done.output
    assert "heavy: []" in done.output
