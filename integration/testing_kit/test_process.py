"""A broker that is a process of a test ends with the test, whatever ends that, and nothing of it remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from pybroker.broker.joining import StartError
from pybroker.testing import Broker, directory
from testing.waiting import line_of, until

TIMEOUT_S = 60
PROGRAM = """
import sys, time
from pybroker.testing import Broker
broker = Broker.subprocess()
broker.start()
print(broker.pid, broker._directory.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(directory, "_base", lambda: tmp_path)
    return tmp_path


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_serves_clients_while_its_block_lasts(base: Path) -> None:
    with Broker.subprocess({"num.partitions": 3}) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send("greetings", b"hello", partition=2).get(TIMEOUT_S)
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        consumer.assign([TopicPartition("greetings", 2)])
        assert next(consumer).value == b"hello"
        consumer.close()
        pid = broker.pid
        assert "Listening" in broker.log_text
    assert not runs(pid)
    assert [*base.iterdir()] == []


def test_a_process_has_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("PYBROKER_LONG_TURNS", "fail")
    monkeypatch.setenv("OTHER", "stays")
    with Broker.subprocess() as broker:
        names = {entry.partition("=")[0] for entry in Path(f"/proc/{broker.pid}/environ").read_text().split("\0")}
    assert "OTHER" in names
    assert not [name for name in names if name.startswith(("KAFKA_", "PYBROKER_"))]


def test_a_process_that_cannot_start_shows_the_end_of_its_log(base: Path) -> None:
    with Broker.subprocess() as taken:
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{taken.port}"}
        with pytest.raises(StartError, match=f"{taken.port}.*another program listens there"):
            Broker.subprocess(settings).start()
        assert len([*base.iterdir()]) == 1


def test_a_ctrl_c_is_for_the_tests() -> None:
    with Broker.subprocess() as broker:
        assert os.getpgid(broker.pid) != os.getpgid(0)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_ends_with_the_one_that_started_it(end: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    try:
        pid, path = line_of(parent.stdout, "the broker is ready").split()
        assert runs(int(pid))
        assert Path(os.fsdecode(path)).is_relative_to(tmp_path)
        parent.send_signal(end)
        parent.wait(TIMEOUT_S)
        until(lambda: not runs(int(pid)), "the broker ends")
        until(lambda: not Path(os.fsdecode(path)).exists(), "its data is removed")
    finally:
        parent.kill()
        parent.wait(TIMEOUT_S)
        parent.stdout.close()


def test_a_killed_process_does_not_keep_its_test_from_its_end(base: Path) -> None:
    with Broker.subprocess() as broker:
        os.kill(broker.pid, signal.SIGKILL)
    assert [*base.iterdir()] == []
