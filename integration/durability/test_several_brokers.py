"""`pybroker start --brokers 3` with real processes: brokers and their parent end in every way, and directories do not fit."""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from testing.process import procstat
from testing.process.broker import BrokerProcess, command, read_line
from testing.process.several import SeveralBrokers
from testing.waiting import until

TIMEOUT_S = 60


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[SeveralBrokers]:
    with SeveralBrokers(tmp_path, 3, PYBROKER_READY_FILE=str(tmp_path / "ready")) as started:
        yield started


def members(brokers: SeveralBrokers) -> dict[int, str]:
    found = AdminClient({"bootstrap.servers": brokers.bootstrap}).list_topics(timeout=TIMEOUT_S).brokers
    return {number: f"{broker.host}:{broker.port}" for number, broker in found.items()}


def test_a_broker_that_is_killed_is_started_again_and_all_stop_cleanly(brokers: SeveralBrokers, tmp_path: Path) -> None:
    addresses = dict(enumerate(brokers.bootstrap.split(","), start=1))
    assert members(brokers) == addresses
    before = brokers.pids()
    brokers.kill(1)
    until(lambda: members(brokers).keys() == {2, 3}, "the others know that broker 1 is gone")
    host, port = (tmp_path / "ready").read_text().split()
    assert f"{host}:{port}" in {addresses[2], addresses[3]}, "the ready file has a broker that is ready"
    until(lambda: members(brokers) == addresses, "broker 1 is back at its address")
    after = brokers.pids()
    assert [number for number in before if before[number] != after[number]] == [1]
    lines = brokers.log_text.splitlines()
    assert any("level=info broker=3 " in line for line in lines)
    assert any("Broker 1 has ended by SIGKILL, and is started again" in line for line in lines)
    assert brokers.stop() == 0
    assert brokers.output == b"", "READY is one line"
    assert not any(map(procstat.is_alive, {*before.values(), *after.values()}))
    assert not (tmp_path / "ready").exists()
    assert not (brokers.data_dir / "metadata.socket").exists()
    assert all((brokers.data_dir / f"broker_{number}" / ".kafka_cleanshutdown").exists() for number in addresses)


def test_nothing_acknowledged_is_lost_while_leaders_are_killed(brokers: SeveralBrokers) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})])["t"].result(TIMEOUT_S)
    acknowledged: list[int] = []

    def note(error: object, message: Message) -> None:
        assert error is None
        acknowledged.append(int(message.value() or b""))

    def partition() -> PartitionMetadata:
        return admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions[0]

    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
    numbers = itertools.count()

    def produce_until(condition: Callable[[], bool], what: str) -> None:
        def step() -> bool:
            producer.produce("t", b"%d" % next(numbers), callback=note)
            producer.poll(0.002)
            return condition()

        until(step, what, TIMEOUT_S)

    def acknowledge_more(count: int) -> None:
        wanted = len(acknowledged) + count
        produce_until(lambda: len(acknowledged) >= wanted, "another leader acknowledges")

    for _ in range(3):
        produce_until(lambda: len(partition().isrs) == 3, "all replicas are in sync")
        brokers.kill(partition().leader)
        acknowledge_more(20)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    read: list[int] = []
    until(lambda: read.extend(values(consumer)) or len(read) >= len(acknowledged), "everything is read", TIMEOUT_S)
    consumer.close()
    assert read == acknowledged == list(range(next(numbers)))
    assert brokers.stop() == 0


def values(consumer: Consumer) -> list[int]:
    return [int(message.value() or b"") for message in consumer.consume(500, 1.0) if message.error() is None]


def test_brokers_end_when_their_parent_is_killed_and_start_again_with_their_data(brokers: SeveralBrokers) -> None:
    pids = brokers.pids()
    brokers.parent.kill()
    brokers.parent.communicate(timeout=TIMEOUT_S)
    until(lambda: not any(map(procstat.is_alive, pids.values())), "the brokers have ended")
    assert all((brokers.data_dir / f"broker_{number}" / ".kafka_cleanshutdown").exists() for number in pids)
    brokers.start()
    assert members(brokers).keys() == {1, 2, 3}
    assert brokers.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("key", ["listeners", "metrics.listener"])
def test_a_port_that_another_program_has_is_one_line_before_anything_starts(tmp_path: Path, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        value = f"{'PLAINTEXT://' if key == 'listeners' else ''}127.0.0.1:{port - 1}"
        overrides = {"listeners": "PLAINTEXT://127.0.0.1:0", key: value}
        options = [word for name, text in overrides.items() for word in ("--override", f"{name}={text}")]
        result = run_start("--brokers", "2", "--data-dir", str(tmp_path / "data"), *options)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"Error: {key}={value}: broker 2 of 2 cannot listen at 127.0.0.1:{port}: Address already in use."
    )
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_broker_that_cannot_start_ends_all(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "broker_2").write_text("in the place of its directory")
    result = run_start("--brokers", "2", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert result.returncode == 1
    assert "Error: Broker 2 did not start; its log above gives the reason" in result.stderr
    assert "broker=2" in result.stderr
    assert "READY" not in result.stdout


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "logging.py").write_text("raise SystemExit('this is not the library')")
    script = Path(sys.executable).with_name("pybroker")
    options = ["--brokers", "2", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen([str(script), "start", *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert read_line(process, TIMEOUT_S).startswith("READY ")
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def test_directories_of_one_broker_and_of_several_are_not_exchanged(brokers: SeveralBrokers, tmp_path: Path) -> None:
    assert brokers.stop() == 0
    result = run_start("--data-dir", str(brokers.data_dir), "--port", "0")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"Error: {brokers.data_dir} is the data directory of several brokers" in result.stderr
    single = BrokerProcess(tmp_path / "single")
    single.start()
    single.stop()
    result = run_start("--data-dir", str(single.data_dir), "--port", "0", "--brokers", "3")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"Error: {single.data_dir} is the data directory of a single broker" in result.stderr
    assert not (single.data_dir / "broker_1").exists()


def run_start(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
