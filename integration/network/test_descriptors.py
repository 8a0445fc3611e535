"""A broker with few file descriptors: clients wait for one, no disk counts as failed, and a broker that runs can start again."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testing.process.broker import BrokerProcess, is_kafka
from testing.waiting import LONG_WAIT_S

pytestmark = pytest.mark.skipif(is_kafka(), reason="about this broker's own process")

FILES = 256
IDLE = 300
PARTITIONS = 40
SHORT_OF_FILES = shlex.join(["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", sys.executable, "-m", "pybroker", "start"])
API_VERSIONS = bytes.fromhex("0000000a 0012 7fff 00000001 ffff")
"""ApiVersions in a version that the broker does not know, which gets the list of versions as its response."""


def is_served(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(API_VERSIONS)
        return bool(connection.recv(1))


def produce(producer: Producer, topic: str, text: str) -> None:
    errors: list[object] = []
    for partition in range(PARTITIONS):
        producer.produce(topic, text, partition=partition, on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(30) == 0
    assert errors == []


def test_idle_connections_do_not_end_a_broker_with_few_descriptors(
    start_broker: Callable[..., BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYBROKER_TEST_COMMAND", SHORT_OF_FILES)
    broker = start_broker(
        {
            "num.partitions": str(PARTITIONS),
            "replica.high.watermark.checkpoint.interval.ms": "50",
            "log.flush.offset.checkpoint.interval.ms": "50",
        }
    )
    assert f"Of {FILES} file descriptors at most" in broker.log_text
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    produce(producer, "first", "before")
    idle = []
    for _ in range(IDLE):
        idle.append(socket.socket())
        idle[-1].setblocking(False)
        idle[-1].connect_ex(("127.0.0.1", broker.port))
    produce(producer, "first", "with many that are idle")
    produce(producer, "second", "to partitions that have no file yet")
    held = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    assert FILES - 160 < held < FILES - 16, "clients have their share, and a reserve is left"
    for one in idle:
        one.close()
    assert is_served(broker.port)
    broker.stop()
    assert "goes offline" not in broker.log_text
    assert "Traceback" not in broker.log_text
    broker.start()
    produce(Producer({"bootstrap.servers": broker.bootstrap}), "second", "after a start")
    broker.stop()


def test_a_broker_with_more_partitions_than_descriptors_runs_stops_and_starts(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    folder = memory if memory.is_dir() else tmp_path
    command = [sys.executable, "-m", "benchmarks.many_partitions", "--partitions", "1500", "--files", "600", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_WAIT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("all records there") == 3
